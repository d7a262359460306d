//! What a person types.

use crate::stand::{BEFORE, Build, TOOLGATE};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The words of the command line.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The build that is measured; none where a run is drawn again.
    pub(crate) toolgate: Option<PathBuf>,
    /// How long each turn takes.
    pub(crate) time: Duration,
    /// Turns of each way.
    pub(crate) rounds: usize,
    /// Only scenes whose name contains it.
    pub(crate) only: String,
    /// Calls that change something, instead of all others.
    pub(crate) durable: bool,
    /// A second process with so many threads that serve.
    pub(crate) workers: Option<usize>,
    /// An older build, in turns with this one.
    pub(crate) compare: Option<PathBuf>,
    /// Other programs that stand in between, beside toolgate.
    pub(crate) peers: bool,
    /// What was found is written there, as JSON.
    pub(crate) json: Option<PathBuf>,
    /// A file of that kind that is read, instead of anything being measured.
    pub(crate) from: Option<PathBuf>,
    /// Pictures are drawn into this directory.
    pub(crate) svg: Option<PathBuf>,
    /// The baseline of instructions, which are counted instead of anything being measured.
    pub(crate) instructions: Option<PathBuf>,
    /// The baseline is written.
    pub(crate) write: bool,
    /// What the program was compiled with.
    pub(crate) compiler: String,
}

const USAGE: &str = "usage: toolgate-load TOOLGATE [--seconds N] [--rounds N] [--only WORD] [--durable] [--workers N] [--compare BINARY] [--peers] [--json FILE] [--svg DIR]\n       toolgate-load --from FILE [--svg DIR]\n       toolgate-load TOOLGATE --instructions BASELINE [--write] [--compiler WORDS]";

impl Asked {
    /// Of the words after the program's name.
    ///
    /// # Errors
    ///
    /// A word is unknown, or a value is missing or of another kind.
    pub(crate) fn read(words: impl IntoIterator<Item = String>) -> anyhow::Result<Self> {
        let mut asked = Self {
            toolgate: None,
            time: Duration::from_secs(1),
            rounds: 3,
            only: String::new(),
            durable: false,
            workers: None,
            compare: None,
            peers: false,
            json: None,
            from: None,
            svg: None,
            instructions: None,
            write: false,
            compiler: String::new(),
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} needs a value"))
            };
            match word.as_str() {
                "--seconds" => {
                    let seconds = number(&word, &value()?)?;
                    asked.time = Duration::try_from_secs_f64(seconds).context("--seconds")?;
                }
                "--rounds" => asked.rounds = number::<usize>(&word, &value()?)?.max(1),
                "--only" => asked.only = value()?,
                "--durable" => asked.durable = true,
                "--workers" => asked.workers = Some(number::<usize>(&word, &value()?)?.max(1)),
                "--compare" => asked.compare = Some(value()?.into()),
                "--peers" => asked.peers = true,
                "--json" => asked.json = Some(value()?.into()),
                "--from" => asked.from = Some(value()?.into()),
                "--svg" => asked.svg = Some(value()?.into()),
                "--instructions" => asked.instructions = Some(value()?.into()),
                "--write" => asked.write = true,
                "--compiler" => asked.compiler = value()?,
                _ if word.starts_with("--") => bail!("unknown option {word}\n{USAGE}"),
                _ if asked.toolgate.is_some() => bail!("{word}: one program is measured\n{USAGE}"),
                _ => asked.toolgate = Some(word.into()),
            }
        }
        Ok(asked)
    }

    /// The builds that stand in between, that which is measured first.
    ///
    /// # Errors
    ///
    /// None was named.
    pub(crate) fn builds(&self) -> anyhow::Result<Vec<Build>> {
        let program = self.program()?;
        let build = |name: &str, program: &Path, workers| Build {
            name: name.to_owned(),
            program: program.to_owned(),
            workers,
        };
        let mut builds = vec![build(TOOLGATE, &program, None)];
        if let Some(workers) = self.workers {
            let name = format!("{TOOLGATE}, {workers} workers");
            builds.push(build(&name, &program, Some(workers)));
        }
        builds.extend(self.compare.iter().map(|older| build(BEFORE, older, None)));
        Ok(builds)
    }

    /// Whether nginx is measured beside them: it changes nothing durably.
    pub(crate) fn needs_nginx(&self) -> bool {
        !self.durable
    }

    /// The build that is measured.
    ///
    /// # Errors
    ///
    /// None was named.
    pub(crate) fn program(&self) -> anyhow::Result<PathBuf> {
        self.toolgate.clone().context(USAGE)
    }
}

fn number<T: FromStr>(word: &str, value: &str) -> anyhow::Result<T> {
    let read = value.parse().ok();
    read.with_context(|| format!("{word} takes a number, not `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::Asked;
    use std::path::Path;
    use std::time::Duration;

    fn read(words: &str) -> anyhow::Result<Asked> {
        Asked::read(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_are_read_in_any_order() {
        let asked = read("--rounds 5 toolgate --seconds 0.5 --workers 2 --compare old").unwrap();
        assert_eq!(asked.program().unwrap(), Path::new("toolgate"));
        assert_eq!((asked.rounds, asked.workers), (5, Some(2)));
        assert_eq!(asked.time, Duration::from_millis(500));
        let builds = asked.builds().unwrap();
        let builds = builds.iter();
        let builds: Vec<_> = builds
            .map(|build| (build.name.as_str(), build.program.as_path(), build.workers))
            .collect();
        let (own, older) = (Path::new("toolgate"), Path::new("old"));
        assert_eq!(
            builds,
            [
                ("toolgate", own, None),
                ("toolgate, 2 workers", own, Some(2)),
                ("toolgate before", older, None)
            ]
        );
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (words, said) in [
            ("toolgate --rounds", "--rounds needs a value"),
            (
                "toolgate --rounds many",
                "--rounds takes a number, not `many`",
            ),
            ("toolgate --seconds -1", "--seconds"),
            ("toolgate --fast", "unknown option --fast"),
            ("toolgate another", "another: one program is measured"),
        ] {
            let error = read(words).unwrap_err();
            assert!(format!("{error:#}").contains(said), "{words}: {error:#}");
        }
        assert!(read("").unwrap().program().is_err());
    }
}
