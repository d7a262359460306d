//! What the server is called that `toolgate stdio` wraps: after its program, or the package that a
//! runner starts.

use crate::config::SERVER_NAME_CHARS_MAX;

/// The name where a command says nothing.
const NAMELESS: &str = "server";
/// Programs that run what is named after their own words, such as `npm exec`.
const RUNNERS: [(&str, &[&str]); 15] = [
    ("npx", &[]),
    ("pnpx", &[]),
    ("bunx", &[]),
    ("uvx", &[]),
    ("npm", &["exec", "x"]),
    ("pnpm", &["dlx", "exec"]),
    ("yarn", &["dlx", "exec"]),
    ("bun", &["x", "run"]),
    ("uv", &["run", "tool"]),
    ("pipx", &["run"]),
    ("docker", &["run", "container"]),
    ("podman", &["run", "container"]),
    ("deno", &["run"]),
    ("java", &[]),
    ("env", &[]),
];
/// Programs that run a file, or a module after `-m`.
const INTERPRETERS: [&str; 7] = ["node", "python", "python3", "py", "tsx", "ruby", "php"];
/// Options of these that another word follows.
const VALUED_OPTIONS: [&str; 27] = [
    "-p",
    "--package",
    "--from",
    "--with",
    "--python",
    "--directory",
    "--project",
    "--index-url",
    "--registry",
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "--name",
    "--network",
    "-u",
    "--user",
    "-w",
    "--workdir",
    "--entrypoint",
    "-r",
    "--require",
    "--import",
    "--loader",
    "--config",
];
/// Names of files that say nothing of the server; the directory does.
const PLAIN_FILES: [&str; 6] = ["index", "main", "__main__", "app", "cli", "start"];
/// Directories that say nothing either.
const PLAIN_DIRECTORIES: [&str; 8] = ["dist", "build", "src", "lib", "bin", "out", "target", "."];
/// Endings of files that are run.
const ENDINGS: [&str; 11] = [
    ".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".php", ".jar", ".exe", ".cmd", ".sh",
];

/// A name for the server of this command: one that a configuration takes.
pub(super) fn name_of(command: &[String]) -> String {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let named = subject(&words).unwrap_or(NAMELESS);
    let name = valid(&plain(named));
    if name.is_empty() {
        NAMELESS.to_owned()
    } else {
        name
    }
}

/// The word that says which program it is.
fn subject<'w>(words: &[&'w str]) -> Option<&'w str> {
    let (program, rest) = words.split_first()?;
    let called = without_ending(last(program));
    let interpreter = called.trim_end_matches(|one: char| one.is_ascii_digit() || one == '.');
    if INTERPRETERS.contains(&called) || INTERPRETERS.contains(&interpreter) {
        return Some(run_by(rest).unwrap_or(program));
    }
    let runner = RUNNERS.iter().find(|(runner, _)| *runner == called);
    let Some((_, verbs)) = runner else {
        return Some(program);
    };
    let mut rest = rest.iter().copied().peekable();
    while let Some(word) = rest.next() {
        match word {
            "--" => {}
            "-jar" => return rest.next(),
            option if option.starts_with('-') => {
                if VALUED_OPTIONS.contains(&option) {
                    rest.next();
                }
            }
            verb if verbs.contains(&verb) || (called == "env" && verb.contains('=')) => {}
            "run" => {}
            found => {
                let after: Vec<&str> = std::iter::once(found).chain(rest).collect();
                // What a runner runs may be another, such as `uv run python -m bank`.
                let is_nested = INTERPRETERS.contains(&without_ending(last(found)))
                    || RUNNERS.iter().any(|(runner, _)| *runner == found);
                return if is_nested {
                    subject(&after)
                } else {
                    Some(found)
                };
            }
        }
    }
    Some(program)
}

/// What an interpreter runs.
fn run_by<'w>(words: &[&'w str]) -> Option<&'w str> {
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "-m" => return words.next(),
            option if option.starts_with('-') => {
                if VALUED_OPTIONS.contains(&option) {
                    words.next();
                }
            }
            found => return Some(found),
        }
    }
    None
}

/// A package, image, path or module without what is not its name.
fn plain(word: &str) -> String {
    let is_path =
        word.starts_with(['/', '.', '~']) || ENDINGS.iter().any(|end| word.ends_with(end));
    if is_path {
        return of_path(word);
    }
    let address = word.split_once("://").map_or(word, |(_, rest)| rest);
    let address = address.split(['?', '#']).next().unwrap_or(address);
    let address = address.trim_end_matches('/').trim_end_matches(".git");
    let (scope, package) = address.rsplit_once('/').unwrap_or(("", address));
    let package = package.split(['@', '=', '[', '<', '>', '~', ':']).next();
    let package = package.unwrap_or_default();
    let short = stripped(package);
    if short.is_empty() || short == "mcp" {
        let scope = last(scope).trim_start_matches('@');
        return if scope.is_empty() { package } else { scope }.to_owned();
    }
    // A module such as `bank.server`.
    match short.split_once('.') {
        Some((first, _)) if !first.is_empty() => stripped(first).to_owned(),
        _ => short.to_owned(),
    }
}

fn of_path(path: &str) -> String {
    let stem = without_ending(last(path));
    if !PLAIN_FILES.contains(&stem) {
        let short = stripped(stem);
        return if short.is_empty() { stem } else { short }.to_owned();
    }
    let directories = path.rsplit('/').skip(1);
    let mut telling = directories.filter(|one| !one.is_empty() && !PLAIN_DIRECTORIES.contains(one));
    let named = telling.next().unwrap_or(stem);
    let short = stripped(named);
    if short.is_empty() { named } else { short }.to_owned()
}

/// Without the words that say that it is a server of MCP.
fn stripped(name: &str) -> &str {
    const BEFORE: [&str; 6] = [
        "mcp-server-",
        "mcp_server_",
        "server-",
        "mcp-",
        "mcp_",
        "server_",
    ];
    const AFTER: [&str; 6] = [
        "-mcp-server",
        "_mcp_server",
        "-server",
        "_server",
        "-mcp",
        "_mcp",
    ];
    let before = BEFORE.iter().find_map(|part| name.strip_prefix(part));
    let name = before.unwrap_or(name);
    let after = AFTER.iter().find_map(|part| name.strip_suffix(part));
    match after.unwrap_or(name) {
        "mcp-server" | "mcp_server" => "",
        short => short,
    }
}

fn last(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn without_ending(file: &str) -> &str {
    ENDINGS
        .iter()
        .find_map(|end| file.strip_suffix(end))
        .unwrap_or(file)
}

/// Only what a server's name may have.
fn valid(name: &str) -> String {
    let mut valid = String::new();
    for one in name.chars() {
        let one = if one.is_ascii_alphanumeric() || one == '_' {
            one
        } else {
            '-'
        };
        // `__` separates a server from its tool.
        if !(valid.ends_with(['_', '-']) && matches!(one, '_' | '-')) {
            valid.push(one);
        }
    }
    let start = valid.trim_start_matches(['_', '-']);
    let short: String = start.chars().take(SERVER_NAME_CHARS_MAX).collect();
    short.trim_end_matches(['_', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FINDINGS D21: a ledger says which server it was.
    #[test]
    fn a_server_is_called_after_its_program() {
        let table = [
            (
                "npx -y @modelcontextprotocol/server-filesystem /srv",
                "filesystem",
            ),
            (
                "npx @modelcontextprotocol/server-memory@2026.8.31",
                "memory",
            ),
            ("npx -y -p @acme/tools acme-mcp", "acme"),
            ("npm exec -- firecrawl-mcp", "firecrawl"),
            ("npx @playwright/mcp@latest --headless", "playwright"),
            ("npx -y @notionhq/notion-mcp-server", "notion"),
            ("pnpm dlx mcp-remote https://example.com/mcp", "remote"),
            ("uvx mcp-server-git --repository .", "git"),
            (
                "uvx --from git+https://github.com/oraios/serena serena start",
                "serena",
            ),
            ("uvx mcp-server-fetch==1.2", "fetch"),
            ("uv run --directory /srv/bank bank-server", "bank"),
            ("uv run python -m weather.server", "weather"),
            ("pipx run mcp-server-time", "time"),
            ("python3 -m mcp_server_git", "git"),
            ("python3.12 /srv/weather.py", "weather"),
            ("node path/to/server.js", "server"),
            ("node --import tsx /srv/my-mcp/dist/index.js", "my"),
            (
                "docker run -i --rm -e TOKEN ghcr.io/github/github-mcp-server:v1",
                "github",
            ),
            (
                "docker run -i --rm mcp/postgres postgresql://db/x",
                "postgres",
            ),
            ("java -jar /opt/mcp-bank.jar", "bank"),
            ("/usr/local/bin/github-mcp-server stdio", "github"),
            ("./effects-server --log x", "effects"),
            ("npx", "npx"),
            ("node", "node"),
            ("sh -c 'exec x'", "sh"),
            ("/opt/übung__x_", "bung_x"),
            (
                "/opt/a-very-long-name-of-a-program-that-never-ends",
                "a-very-long-name-of-a-program-th",
            ),
            ("/___", "server"),
        ];
        for (command, name) in table {
            let words: Vec<_> = command.split(' ').map(ToOwned::to_owned).collect();
            assert_eq!(name_of(&words), name, "{command}");
        }
    }
}
