//! What `strace -f -yy` saw toolgate do: in which order it wrote, synced and sent.

use std::collections::HashMap;

/// A system call, with the lines of the trace on which it began and ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub call: String,
    /// Its arguments as strace writes them.
    pub arguments: String,
    /// The line of its begin.
    pub begin: usize,
    /// The line of its end.
    pub end: usize,
}

impl Step {
    /// Whether it puts bytes into a file below `directory`.
    fn writes(&self, directory: &str) -> bool {
        matches!(
            self.call.as_str(),
            "write" | "pwrite64" | "writev" | "pwritev"
        ) && self.is_on(directory)
    }

    /// Whether it waits until a file below `directory` is on the disk.
    fn syncs(&self, directory: &str) -> bool {
        matches!(self.call.as_str(), "fdatasync" | "fsync") && self.is_on(directory)
    }

    /// Whether it sends bytes over TCP.
    fn sends(&self) -> bool {
        matches!(
            self.call.as_str(),
            "write" | "writev" | "sendto" | "sendmsg"
        ) && self.is_on("TCP:")
    }

    /// The first argument is a file, written as `12</path>` or `9<TCP:[…]>`.
    fn is_on(&self, place: &str) -> bool {
        self.arguments
            .split_once('<')
            .is_some_and(|(_, rest)| rest.starts_with(place))
    }
}

/// Reads a trace. Lines that are no system call are passed over, and so are calls that never ended.
pub fn steps(trace: &str) -> Vec<Step> {
    let (mut begun, mut steps) = (HashMap::<&str, (usize, String)>::new(), Vec::new());
    for (line, text) in trace.lines().enumerate() {
        let Some((pid, rest)) = text.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        let (first, whole) = if let Some(start) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(pid, (line, start.to_owned()));
            continue;
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((first, start)) = begun.remove(pid) else {
                continue;
            };
            (
                first,
                start + resumed.split_once("resumed>").map_or("", |(_, end)| end),
            )
        } else {
            (line, rest.to_owned())
        };
        if let Some((call, arguments)) = whole.split_once('(') {
            steps.push(Step {
                call: call.to_owned(),
                arguments: arguments.to_owned(),
                begin: first,
                end: line,
            });
        }
    }
    steps
}

/// What is wrong with the order in which a call was recorded, sent and answered. `word` stands in
/// everything that is written or sent for this call; `answer` only in what the agent is answered.
/// `data` is the data directory.
pub fn disorder(steps: &[Step], data: &str, word: &str, answer: &str) -> Vec<String> {
    let sends = |step: &&Step| step.sends() && step.arguments.contains(word);
    let Some(sent) = steps.iter().find(sends) else {
        return vec![format!("{word} was never sent")];
    };
    let Some(told) = steps
        .iter()
        .filter(sends)
        .find(|step| step.arguments.contains(answer))
    else {
        return vec![format!("{word} was never answered")];
    };
    let mut wrong = Vec::new();
    if !synced_between(steps, data, word, (0, sent.begin)) {
        wrong.push(format!(
            "{word} was sent on line {} before its intent was on the disk",
            sent.begin + 1
        ));
    }
    // What is answered stands in the outcome, and not in what else the ledger says of the call.
    if !synced_between(steps, data, answer, (sent.end, told.begin)) {
        wrong.push(format!(
            "{word} was answered on line {} before its outcome was on the disk",
            told.begin + 1
        ));
    }
    wrong
}

/// Whether something of the call was written between these lines, and then synced before the last
/// of them.
fn synced_between(steps: &[Step], data: &str, word: &str, (from, to): (usize, usize)) -> bool {
    let within = |step: &&Step| step.begin >= from && step.end < to;
    let written = |step: &&Step| within(step) && step.writes(data) && step.arguments.contains(word);
    let Some(written) = steps.iter().rfind(written) else {
        return false;
    };
    // A sync that began before the write was done says nothing of it.
    steps
        .iter()
        .filter(within)
        .any(|step| step.syncs(data) && step.begin > written.end)
}

#[cfg(test)]
mod tests {
    use super::{disorder, steps};

    const GOOD: &str = r#"
101 pwrite64(7</d/journal/1>, "{\"intended\":{\"audit\":\"call-1\"}}", 40, 4096) = 40
101 fdatasync(7</d/journal/1> <unfinished ...>
102 sendto(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, "POST /mcp other", 15, MSG_NOSIGNAL, NULL, 0) = 15
101 <... fdatasync resumed>) = 0
102 sendto(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, "POST /mcp call-1", 16, MSG_NOSIGNAL, NULL, 0) = 16
101 pwrite64(7</d/journal/1>, "{\"settled\":{}}\n done call-1", 40, 4136) = 40
101 fdatasync(7</d/journal/1>) = 0
102 writev(8<TCP:[127.0.0.1:3->127.0.0.1:4]>, [{iov_base="HTTP/1.1 200 OK done call-1"}], 1) = 27
"#;

    fn wrong(trace: &str) -> Vec<String> {
        disorder(&steps(trace), "/d/", "call-1", "done call-1")
    }

    #[test]
    fn a_call_in_good_order_has_nothing_wrong() {
        assert_eq!(wrong(GOOD), Vec::<String>::new());
    }

    /// Lines of the good trace, counted from 1, are moved or left out.
    #[test]
    fn each_disorder_is_said() {
        let lines: Vec<&str> = GOOD.lines().collect();
        let without = |left_out: &[usize]| {
            let kept = lines
                .iter()
                .enumerate()
                .filter(|(line, _)| !left_out.contains(line));
            kept.map(|(_, text)| *text).collect::<Vec<_>>().join("\n")
        };
        assert!(wrong(&without(&[1]))[0].contains("intent"), "no intent");
        assert!(
            wrong(&without(&[2, 4]))[0].contains("intent"),
            "no sync of the intent"
        );
        assert!(wrong(&without(&[6]))[0].contains("outcome"), "no outcome");
        assert!(
            wrong(&without(&[7]))[0].contains("outcome"),
            "no sync of the outcome"
        );
        assert!(wrong(&without(&[8]))[0].contains("never answered"));
        assert!(wrong(&without(&[5, 8]))[0].contains("never sent"));
        let mut early = lines.clone();
        early.swap(4, 5);
        assert!(
            wrong(&early.join("\n"))[0].contains("intent"),
            "sent while the sync was under way"
        );
        let mut overlapping = lines;
        overlapping.swap(1, 2);
        assert!(
            wrong(&overlapping.join("\n"))[0].contains("intent"),
            "the sync began before the write"
        );
    }
}
