//! What verbs print, and what becomes of it where nobody reads it any more, as behind `| head`: a verb that
//! only prints has done what was asked for, and one that works goes on to its end.

use std::io::{self, ErrorKind, Write};

/// Prints `text`. The process that reads may have seen enough before its end.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match print_while_read(text) {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        printed => printed,
    }
}

/// As [`print()`], for a verb that prints again and again.
///
/// # Errors
/// Also where nobody reads any more, which [`is_closed_pipe`] knows.
pub(super) fn print_while_read(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout();
    // A question ends within a line, and a person has to see it.
    out.write_all(text.as_bytes()).and_then(|()| out.flush())?;
    Ok(())
}

/// Whether what reads the output has seen enough, as `head` does.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Output of a verb that does more than to print: that nobody reads it is no reason to stop half way.
pub(super) struct LastingOutput<W>(pub(super) W);

impl<W: Write> Write for LastingOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output that fails so from its first byte on.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    /// A full disk is another matter than a reader that is gone.
    #[test]
    fn only_a_reader_that_is_gone_is_passed_over() {
        let written = |kind| {
            let mut out = LastingOutput(Failing(kind));
            writeln!(out, "a line").and_then(|()| out.flush())
        };
        assert!(written(ErrorKind::BrokenPipe).is_ok());
        let full = written(ErrorKind::StorageFull).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        assert!(!is_closed_pipe(&full.into()));
        assert!(is_closed_pipe(
            &io::Error::from(ErrorKind::BrokenPipe).into()
        ));
    }
}
