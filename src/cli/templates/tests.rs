//! Which servers are known, and what is made of their templates.

use super::{KnownServer, TEMPLATES, Template, recognise};
use std::fs;
use std::path::Path;

/// The name of the template for a command, or for an address, and these tools.
fn known(command: &str, url: Option<&str>, tools: &[&str]) -> Option<&'static str> {
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let server = KnownServer {
        words: &words,
        url,
        tools,
    };
    recognise(&server).map(|template| template.name())
}

const FILES: [&str; 3] = ["read_text_file", "write_file", "move_file"];

fn template(name: &str) -> Template {
    *TEMPLATES.iter().find(|one| one.name() == name).unwrap()
}

/// A file that is in the folder, and not in the binary, would be read by nobody.
#[test]
fn the_whole_folder_is_in_the_binary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/templates");
    let mut files: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    files.sort();
    let names: Vec<&str> = TEMPLATES.iter().map(Template::name).collect();
    assert_eq!(files, names);
    assert!(names.len() >= 12, "{names:?}");
    for template in TEMPLATES {
        let first = template.policy.lines().next();
        assert_eq!(
            first,
            Some("# yaml-language-server: $schema=../policy.schema.json")
        );
        for begin in ["# For: ", "# Written of: ", super::KNOWN_BY] {
            let any = template.policy.lines().any(|line| line.starts_with(begin));
            assert!(any, "{} has no line {begin:?}", template.name());
        }
    }
}

#[test]
fn a_server_is_known_by_its_package_and_by_its_tools() {
    let files = Some("filesystem");
    for (command, expected) in [
        ("npx -y @modelcontextprotocol/server-filesystem /srv", files),
        (
            "npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv",
            files,
        ),
        (
            "node /opt/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js /srv",
            files,
        ),
        (
            "node C:\\x\\node_modules\\@modelcontextprotocol\\server-filesystem\\dist\\index.js",
            files,
        ),
        ("/usr/local/bin/mcp-server-filesystem /srv", files),
        ("docker run -i --rm mcp/filesystem:latest /srv", files),
        // A directory that is called like another server.
        ("mcp-server-filesystem /srv/mcp-server-git", files),
        ("npx -y @example/server-filesystem /srv", None),
        (
            "npx -y server-filesystem /srv/@modelcontextprotocol/server-filesystem-notes",
            None,
        ),
        ("", None),
    ] {
        assert_eq!(known(command, None, &FILES), expected, "{command}");
    }
    for command in [
        "uvx mcp-server-git",
        "uvx mcp-server-git==2026.10.10",
        "uvx --from=mcp-server-git[x]>=1 start",
        "python -m mcp_server_git --repository /srv",
    ] {
        assert_eq!(
            known(command, None, &["git_status"]),
            Some("git"),
            "{command}"
        );
    }
    let tools = ["read_text_file", "format_disk", "send_mail"];
    let package = "npx -y @modelcontextprotocol/server-filesystem";
    assert_eq!(known(package, None, &tools), None, "most tools are others");
    assert_eq!(
        known(package, None, &[]),
        None,
        "there is nothing to write of"
    );
    assert_eq!(
        known("/opt/other", Some("https://mcp.example/"), &FILES),
        None
    );
}

#[test]
fn a_contract_has_the_name_of_the_server_and_speaks_of_listed_tools_only() {
    let words = ["mcp-server-git".to_owned()];
    let mut server = KnownServer {
        words: &words,
        url: None,
        tools: &["git_add", "git_reset", "git_status"],
    };
    let git = template("git");
    let contract = git.contract("my-git", "git_add", &server).unwrap();
    assert!(
        contract.starts_with("  my-git__git_add:\n    purpose: "),
        "{contract}"
    );
    assert!(contract.contains("tool: my-git__git_reset,"), "{contract}");
    assert!(!contract.contains("[, ]git__"), "{contract}");
    assert!(contract.ends_with('\n'));
    let head = git.rest("my-git", &server);
    assert!(
        head.starts_with("# For: ") && !head.contains("Known by"),
        "{head}"
    );
    assert_eq!(
        git.contract("my-git", "git_push", &server),
        None,
        "not known"
    );
    assert_eq!(
        git.contract("my-git", "git_log", &server),
        None,
        "not listed"
    );
    server.tools = &["git_add", "git_status"];
    assert_eq!(
        git.contract("my-git", "git_add", &server),
        None,
        "what would take it back is not listed"
    );
}

#[test]
fn a_pack_has_the_samples_of_tools_that_have_a_contract() {
    let words = ["mcp-server-git".to_owned()];
    let server = KnownServer {
        words: &words,
        url: None,
        tools: &["git_add", "git_status", "git_commit"],
    };
    let pack = template("git").pack("code", &server).unwrap();
    assert!(
        pack.starts_with("pack: git\npolicies: [../code.yaml]\nservers:\n  code:\n"),
        "{pack}"
    );
    let tools: Vec<&str> = pack
        .lines()
        .filter_map(|line| line.strip_prefix("    tool: "))
        .collect();
    assert_eq!(
        tools,
        ["code__git_status", "code__git_commit", "code__git_commit"],
        "git_add has none without git_reset"
    );
    let nothing = KnownServer {
        tools: &["git_push"],
        ..server
    };
    assert_eq!(template("git").pack("code", &nothing), None);
}
