//! `toolgate man`: manual pages, made of the same words as the help. For who packages toolgate.

use super::help;
use super::printed::LastingOutput;
use anyhow::Context as _;
use clap_mangen::Man;
use std::path::PathBuf;

/// Where they are written.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A directory for a page of toolgate and of each verb; without it, toolgate's own page is printed
    dir: Option<PathBuf>,
}

/// Writes the pages.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let command = help::command();
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .and_then(|()| clap_mangen::generate_to(command, dir))
                .with_context(|| format!("{} cannot be written", dir.display()))?;
        }
        None => Man::new(command).render(&mut LastingOutput(std::io::stdout()))?,
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Each verb has its page, and a reader of manual pages finds nothing wrong in any.
    #[test]
    fn each_verb_has_a_page_that_can_be_read() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("man1");
        assert_eq!(
            run(&Args {
                dir: Some(dir.clone())
            })
            .unwrap(),
            0
        );
        let page = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        let own = page("toolgate.1");
        assert!(own.contains("toolgate\\-serve(1)"), "{own}");
        assert!(page("toolgate-ledger-list.1").contains("\\-\\-since"));
        assert!(!dir.join("toolgate-man.1").exists(), "a hidden verb");
        for page in std::fs::read_dir(&dir).unwrap() {
            let page = page.unwrap().path();
            let read = Command::new("groff")
                .args(["-Kutf8", "-man", "-ww", "-z"])
                .arg(&page)
                .output();
            // Where there is no groff, nothing can be said.
            let Ok(read) = read else { return };
            let said = String::from_utf8_lossy(&read.stderr);
            assert!(
                read.status.success() && said.is_empty(),
                "{}: {said}",
                page.display()
            );
        }
    }
}
