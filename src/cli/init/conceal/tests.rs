//! What becomes of the values of an agent's configuration, wherever they stand.

use super::*;

fn place<'a>(section: &'static str, key: &'a str) -> ConfigLocation<'a> {
    ConfigLocation {
        server: "my-hub",
        section,
        key,
    }
}

/// threat-model §3F: no secret is copied into the configuration; what is none stays readable.
#[test]
fn f_what_could_be_a_secret_becomes_a_variable() {
    let mut known = Variables::default();
    for (key, value, expected) in [
        ("GITHUB_TOKEN", "ghp_0123456789", "${GITHUB_TOKEN}"),
        ("DB_PASSWORD", "hunter", "${DB_PASSWORD}"),
        ("LICENCE", "A1B2-C3D4", "${LICENCE}"),
        ("LOG_LEVEL", "debug", "debug"),
        ("PORT", "8080", "8080"),
        ("ROOT", "/srv/data", "/srv/data"),
        ("BASE", "https://example.com/api", "https://example.com/api"),
        ("BASE_2", "https://ann:hunter2@example.com", "${BASE_2}"),
        ("FROM", "${env:OTHER}/x", "${OTHER}/x"),
        ("ASKED", "${input:api-key}", "${API_KEY}"),
        ("OURS", "${A:-b}$", "${A:-b}$"),
        ("ODD", "a${b.c}", "a$${b.c}"),
        ("DB_PASS", "hunter", "${DB_PASS}"),
        ("PASSPHRASE", "correct horse", "${PASSPHRASE}"),
        ("CARD_PIN", "1234", "${CARD_PIN}"),
        ("HOOK", "${SLACK_TOKEN:-xoxb-1}", "${SLACK_TOKEN}"),
        ("HOOK", "${LEVEL:-debug}", "${LEVEL:-debug}"),
        ("EMPTY", "", ""),
    ] {
        assert_eq!(
            env(value, &place("env", key), &mut known),
            expected,
            "{key}"
        );
    }
    assert_eq!(
        env("other", &place("env", "GITHUB_TOKEN"), &mut known),
        "${MY_HUB_GITHUB_TOKEN}"
    );
    assert_eq!(
        env("ghp_0123456789", &place("env", "GITHUB_TOKEN"), &mut known),
        "${GITHUB_TOKEN}"
    );
    assert_eq!(known.value("MY_HUB_GITHUB_TOKEN").as_deref(), Some("other"));
}

/// threat-model §3F: so do those among arguments, as flags, assignments, headers and addresses.
#[test]
fn f_secrets_are_found_among_arguments() {
    let mut known = Variables::default();
    let all = [
        ("-y", "-y"),
        ("@scope/server-hub@1.2.3", "@scope/server-hub@1.2.3"),
        ("--api-key", "--api-key"),
        ("abc", "${MY_HUB_API_KEY}"),
        ("--dir=/srv", "--dir=/srv"),
        (
            "LOG=/tmp/.tmpA1b2C3d4/one.log",
            "LOG=/tmp/.tmpA1b2C3d4/one.log",
        ),
        ("API_KEY=/A1b2C3d4E5f6G7h8", "API_KEY=${API_KEY}"),
        ("--token=t", "--token=${MY_HUB_TOKEN}"),
        ("postgres://a:b@h/db", "${MY_HUB_ARGUMENT}"),
        ("mcp-server-fetch==2025.4.7", "mcp-server-fetch==2025.4.7"),
        ("a1b2c3d4e5f6a7b8c9d0", "${MY_HUB_ARGUMENT_2}"),
        ("--verbose", "--verbose"),
        ("yes", "yes"),
        ("${workspace.x}", "$${workspace.x}"),
        ("-e", "-e"),
        ("DB_PASSWORD=hunter2", "DB_PASSWORD=${DB_PASSWORD}"),
        (
            "--env=GITHUB_TOKEN=ghp_0",
            "--env=GITHUB_TOKEN=${GITHUB_TOKEN}",
        ),
        ("MODE=fast", "MODE=fast"),
        ("--header", "--header"),
        (
            "Authorization: Bearer abc",
            "Authorization: Bearer ${MY_HUB_TOKEN_2}",
        ),
        ("-H", "-H"),
        ("X-Mode:fast", "X-Mode:fast"),
        (
            "https://ann:hunter2@example.com/mcp?api_key=abc&mode=a",
            "https://${MY_HUB_LOGIN}@example.com/mcp?api_key=${MY_HUB_API_KEY}&mode=a",
        ),
        ("--auth=a=b", "--auth=${MY_HUB_AUTH}"),
        ("aHVudGVyMmh1bnRlcjI5OTk=", "${MY_HUB_ARGUMENT_3}"),
    ];
    let shown = args(
        &all.map(|(written, _)| written.to_owned()),
        "my-hub",
        &mut known,
    );
    assert_eq!(shown, all.map(|(_, shown)| shown));
    let places: Vec<String> = known
        .all()
        .map(|(name, known)| format!("{name} {}", known.place))
        .collect();
    assert!(
        places.contains(&"MY_HUB_API_KEY servers.my-hub.args.--api-key".to_owned()),
        "{places:?}"
    );
}

/// threat-model §3F: so do those that no name says anything of; in doubt it is one.
#[test]
fn f_in_doubt_an_argument_is_a_secret() {
    let hidden = [
        ["--config={\"apiKey\":\"abc\"}", "--config=${MY_HUB_CONFIG}"],
        ["[\"--pw\",\"abc\"]", "${MY_HUB_ARGUMENT}"],
        ["-psecretmysql", "-p${MY_HUB_P}"],
        ["-phunter2", "-p${MY_HUB_P}"],
        ["-psec=ret", "-p${MY_HUB_P}"],
        ["-uroot:rootpass", "-u${MY_HUB_U}"],
        ["password:colonpass1", "${MY_HUB_ARGUMENT}"],
        ["admin:hunter2", "${MY_HUB_ARGUMENT}"],
        ["--login=admin:hunter", "--login=${MY_HUB_LOGIN}"],
        ["--name=hunter2", "--name=${MY_HUB_NAME}"],
        ["run --password hunter", "${MY_HUB_ARGUMENT}"],
        ["exec A_KEY=b run", "${MY_HUB_ARGUMENT}"],
        ["curl -u a:b x", "${MY_HUB_ARGUMENT}"],
    ];
    for [written, expected] in hidden {
        let one = args(&[written.to_owned()], "my-hub", &mut Variables::default());
        assert_eq!(one, [expected], "{written}");
    }
    for [flag, value] in [
        ["--user", "root:rootpass9"],
        ["-u", "a:b"],
        ["-p", "hunter3"],
        ["-p", "hunter"],
        ["--login", "hunter2"],
        ["--phrase", "correct-horse-battery-staple"],
    ] {
        let both = [flag, value].map(ToOwned::to_owned);
        let shown = args(&both, "my-hub", &mut Variables::default());
        assert!(!shown[1].contains(value), "{flag} {value}: {shown:?}");
    }
}

/// Issue 4 `init`: what surely is none stays where people read it.
#[test]
fn what_surely_is_no_secret_stays_readable() {
    for words in [
        &["-y", "mcp-server2@1.2.3"][..],
        &["--yes", "mcp-remote@latest", "http://127.0.0.1:9/sse"],
        &["run", "-i", "--rm", "-v", "/a:/b", "mcp/fetch2:latest"],
        &["-p", "8080:80", "--port", "8080", "-p8080"],
        &["-port", "9", "-path=/srv", "-p", "@scope/server"],
        &["--host", "127.0.0.1:8080", "--region=us-east-1"],
        &["--model", "claude-3-5-sonnet-20241022"],
        &["--from", "mcp-server-git==2025.4.7", "mcp-server-git"],
        &["--from", "a-server-with-a-long-name", "serve"],
        &["-u", "1000:1000", "--log-level", "level:debug"],
        &["-c", "echo $$ >one.pid; exec tail -f /dev/null"],
        &["--repository", "/home/ann/project", "C:\\data"],
    ] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let shown = args(&words, "my-hub", &mut Variables::default());
        assert_eq!(shown, words);
    }
}

/// A place that is there is none, though its name looks like one: people see which directory a server works in.
#[test]
fn a_place_on_this_disk_stays_readable() {
    let temp = tempfile::tempdir().unwrap();
    let there = temp.path().join("project-bp5xc89vA1b2C3d4");
    std::fs::create_dir(&there).unwrap();
    let (there, away) = (
        there.to_str().unwrap(),
        temp.path().join("a1b2c3d4E5f6g7h8"),
    );
    let words = ["--repository", there, "--key", away.to_str().unwrap()];
    let shown = args(
        &words.map(ToOwned::to_owned),
        "my-hub",
        &mut Variables::default(),
    );
    assert_eq!(shown[1], there);
    assert_eq!(
        shown[3], "${MY_HUB_KEY}",
        "what is not there is judged as before"
    );
}

/// threat-model §3G: what the agent's file calls a value acts on no terminal that is told of it.
#[test]
fn g_a_place_is_only_shown() {
    let mut known = Variables::default();
    args(&["--a\u{1b}[2J=sk-1".to_owned()], "my-hub", &mut known);
    env("sk-2", &place("env", "B\u{1b}[2J"), &mut known);
    assert_eq!(known.all().count(), 2, "each is there to be shown");
    for (name, variable) in known.all() {
        assert!(!variable.place.contains('\u{1b}'), "{variable:?}");
        assert!(!name.contains('\u{1b}'), "{name:?}");
    }
}

/// threat-model §3F: so do those in headers and in addresses.
#[test]
fn f_secrets_are_found_in_headers_and_addresses() {
    let mut known = Variables::default();
    for (key, value, expected) in [
        ("Authorization", "Bearer abc def", "Bearer ${MY_HUB_TOKEN}"),
        ("X-Api-Key", "abc", "${MY_HUB_X_API_KEY}"),
        ("X-Mode", "fast", "fast"),
    ] {
        assert_eq!(header(value, &place("headers", key), &mut known), expected);
    }
    for (value, expected) in [
        ("https://example.com/mcp", "https://example.com/mcp"),
        (
            "https://example.com/s/a1b2c3d4e5f6a7b8c9d0e1/mcp",
            "https://example.com/s/${MY_HUB_PATH}/mcp",
        ),
        (
            "https://example.com/mcp?mode=a&apiKey=x",
            "https://example.com/mcp?mode=a&apiKey=${MY_HUB_APIKEY}",
        ),
    ] {
        assert_eq!(url(value, &place("url", ""), &mut known), expected);
    }
}
