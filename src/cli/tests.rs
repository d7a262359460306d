//! What the command line says of itself.

use std::fmt::Write as _;

mod every_verb;

/// The help of `command` and of everything below it; `before` stands in front of its name.
fn help(command: &mut clap::Command, before: &str, text: &mut String) {
    let name = format!("{before}{}", command.get_name());
    writeln!(text, "$ {name} --help\n{}", command.render_long_help()).unwrap();
    for below in command
        .get_subcommands_mut()
        .filter(|below| below.get_name() != "help" && !below.is_hide_set())
    {
        help(below, &format!("{name} "), text);
    }
}

/// Issue 4 "snapshots of every CLI screen": the help of every verb, as one text.
#[test]
fn every_verb_says_what_it_does() {
    let (mut command, mut text) = (super::help::command().term_width(100), String::new());
    command.build();
    help(&mut command, "", &mut text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    insta::assert_snapshot!("help", lines.join("\n"));
}
