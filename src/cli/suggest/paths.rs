//! Texts that are paths or addresses: what recorded ones have in common, as a pattern that lets no
//! way out of it through.

use std::collections::BTreeSet;

/// One step of a path: anything but `.`, `..`, and what holds a slash of either kind.
const STEP_PATTERN: &str = r"(\.?[^/.\\][^/\\]*|\.\.[^/\\]+)";
/// The first step of one that begins at no root: no home, drive or scheme either.
const FIRST_STEP_PATTERN: &str = r"(\.?[^/.\\~:][^/\\:]*|\.\.[^/\\:]+)";
/// Bytes of a pattern: what a schema may have.
const MAX_PATTERN_BYTES: usize = 512;
/// Characters of a beginning that all have in common, at most.
const MAX_COMMON_CHARS: usize = 200;
/// Sites of addresses at most.
const MAX_SITES: usize = 5;
/// Words in names of arguments that hold paths, also where these do not begin at a root.
const PATH_WORDS: &[&str] = &[
    "path",
    "paths",
    "pathname",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "dir",
    "dirs",
    "dirname",
    "directory",
    "directories",
    "folder",
    "folders",
    "root",
    "cwd",
];
/// Letters that mean something in a pattern.
const PATTERN_LETTERS: &str = r"\.+*?()|[]{}^$";

/// What paths begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum CommonPath {
    /// None was seen.
    #[default]
    Unseen,
    /// The lead (`/`, `~/` or nothing) and the steps after it.
    Steps(&'static str, Vec<String>),
    /// Something is no path, or begins elsewhere.
    None,
}

/// What the texts that were given have in common, as paths and as addresses.
#[derive(Debug, Default)]
pub(super) struct TextPlaces {
    beginning: CommonPath,
    sites: BTreeSet<String>,
    has_no_site: bool,
    /// One of them has a slash.
    pub(super) has_slash: bool,
}

/// A pattern, and texts that it does not match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlacePattern {
    pub(super) pattern: String,
    /// Each with what is wrong with it.
    pub(super) outside: Vec<(&'static str, String)>,
}

impl TextPlaces {
    pub(super) fn add(&mut self, text: &str) {
        self.has_slash |= text.contains('/');
        let beginning = std::mem::take(&mut self.beginning);
        self.beginning = match (beginning, steps(text)) {
            (CommonPath::Unseen, Some((lead, steps))) => {
                CommonPath::Steps(lead, steps.into_iter().map(str::to_owned).collect())
            }
            (CommonPath::Steps(before, known), Some((lead, steps))) if before == lead => {
                let same = known
                    .iter()
                    .zip(steps)
                    .take_while(|(one, other)| one == other);
                let same = same.count();
                CommonPath::Steps(lead, known.into_iter().take(same).collect())
            }
            _ => CommonPath::None,
        };
        match site(text) {
            Some(site) if self.sites.len() < MAX_SITES || self.sites.contains(&site) => {
                self.sites.insert(site);
            }
            _ => self.has_no_site = true,
        }
    }

    /// The bound for an argument of this name, where there is one.
    pub(super) fn pattern(&self, name: &str) -> Option<PlacePattern> {
        let found = match &self.beginning {
            CommonPath::Steps(lead, steps) if !lead.is_empty() || is_of_paths(name) => {
                Some(path_pattern(lead, steps))
            }
            CommonPath::Unseen | CommonPath::Steps(..) | CommonPath::None => {
                let is_address = !self.has_no_site && !self.sites.is_empty();
                is_address.then(|| site_pattern(&self.sites))
            }
        };
        found.filter(|found| found.pattern.len() <= MAX_PATTERN_BYTES)
    }
}

/// Whether an argument of this name holds a path: one of its words says so, as in `file_path`,
/// `FILE-PATH` and `filePath`.
fn is_of_paths(name: &str) -> bool {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        let begins = !letter.is_alphanumeric() || (was_small && letter.is_uppercase());
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase() || letter.is_numeric();
    }
    words.iter().any(|word| PATH_WORDS.contains(&word.as_str()))
}

/// The lead and the steps of a path that goes nowhere but down.
fn steps(text: &str) -> Option<(&'static str, Vec<&str>)> {
    let lead = ["/", "~/"]
        .into_iter()
        .find(|lead| text.starts_with(lead))
        .unwrap_or("");
    let rest = &text[lead.len()..];
    if rest.is_empty() {
        return (!lead.is_empty()).then_some((lead, Vec::new()));
    }
    let steps: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
    let goes_down = |step: &&str| {
        !matches!(*step, "" | "." | "..")
            && !step.contains(|letter: char| letter == '\\' || letter.is_control())
    };
    // Without a lead, `~`, `C:` and `file:` would be one.
    let is_below = !lead.is_empty() || !(rest.starts_with('~') || steps[0].contains(':'));
    (is_below && steps.iter().all(goes_down)).then_some((lead, steps))
}

fn path_pattern(lead: &str, steps: &[String]) -> PlacePattern {
    let mut beginning: Vec<&str> = Vec::new();
    for step in steps {
        if beginning
            .iter()
            .chain([&step.as_str()])
            .map(|step| step.len() + 1)
            .sum::<usize>()
            > MAX_COMMON_CHARS
        {
            break;
        }
        beginning.push(step);
    }
    let below = beginning.join("/");
    let mut outside = vec![(
        "that leaves where the recorded ones are",
        format!("{lead}{below}/../x"),
    )];
    let pattern = if beginning.is_empty() {
        outside[0].1 = format!("{lead}x/../../y");
        let first = if lead.is_empty() {
            outside.push(("in a home directory", "~/x".to_owned()));
            FIRST_STEP_PATTERN
        } else {
            STEP_PATTERN
        };
        format!("^{}({first}(/{STEP_PATTERN})*/?)?$", escaped(lead))
    } else {
        outside.push((
            "elsewhere than the recorded ones",
            format!("{lead}{below}x"),
        ));
        format!("^{}{}(/{STEP_PATTERN})*/?$", escaped(lead), escaped(&below))
    };
    PlacePattern { pattern, outside }
}

/// The site of an address: everything before its path. One that names a person has none.
fn site(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = rest[..end].split_once(':').unwrap_or((&rest[..end], "0"));
    let is_host = !host.is_empty()
        && host.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte)
        });
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (matches!(scheme, "http" | "https") && is_host && is_port)
        .then(|| format!("{scheme}://{}", &rest[..end]))
}

fn site_pattern(sites: &BTreeSet<String>) -> PlacePattern {
    let all: Vec<String> = sites.iter().map(|site| escaped(site)).collect();
    let first = sites.first().map_or("", String::as_str);
    PlacePattern {
        pattern: format!("^({})([/?#]|$)", all.join("|")),
        outside: vec![
            ("at another site", "https://elsewhere.invalid/".to_owned()),
            (
                "at a site that only begins like a recorded one",
                format!("{first}.elsewhere.invalid/"),
            ),
        ],
    }
}

/// The pattern of a text that means itself.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if PATTERN_LETTERS.contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    fn learned(name: &str, texts: &[&str]) -> Option<PlacePattern> {
        let mut places = TextPlaces::default();
        for text in texts {
            places.add(text);
        }
        let found = places.pattern(name)?;
        let pattern = Regex::new(&found.pattern).unwrap();
        for text in texts {
            assert!(pattern.is_match(text), "{text}: {}", found.pattern);
        }
        for (why, text) in &found.outside {
            assert!(!pattern.is_match(text), "{why}, {text}: {}", found.pattern);
        }
        Some(found)
    }

    #[test]
    fn a_path_pattern_lets_nothing_out() {
        let found = learned(
            "x",
            &["/srv/my docs/a.txt", "/srv/my docs/.git/b", "/srv/my docs/"],
        );
        let pattern = Regex::new(&found.unwrap().pattern).unwrap();
        for (text, expected) in [
            ("/srv/my docs", true),
            ("/srv/my docs/deep/er/..c/...", true),
            ("/srv/my docs/a..b", true),
            ("/srv/my docs/../x", false),
            ("/srv/my docs/..", false),
            ("/srv/my docs/../", false),
            ("/srv/my docs/a/../../x", false),
            ("/srv/my docs/./x", false),
            ("/srv/my docs//x", false),
            ("/srv/my docs/..\\x", false),
            ("/srv/my docs/a\\..\\x", false),
            ("/srv/my docs2/x", false),
            ("/srv", false),
            ("x/srv/my docs/a", false),
            ("\n/srv/my docs/a", false),
        ] {
            assert_eq!(pattern.is_match(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_has_nothing_in_common_still_goes_down_only() {
        let found = learned("x", &["/", "/srv/a", "/home/b"]).unwrap();
        let pattern = Regex::new(&found.pattern).unwrap();
        assert!(pattern.is_match("/x/y") && !pattern.is_match("/x/..") && !pattern.is_match("x"));
        let found = learned("file_name", &["a/b.txt", "c.txt"]).unwrap();
        let pattern = Regex::new(&found.pattern).unwrap();
        for (text, expected) in [
            ("x/y", true),
            (".git/~x/a:b", true),
            ("../x", false),
            ("/x", false),
            ("~/.ssh/id_rsa", false),
            ("~root/x", false),
            ("C:/Windows/x", false),
            ("file:///etc/passwd", false),
            ("..:/x", false),
            ("\\\\host\\x", false),
        ] {
            assert_eq!(pattern.is_match(text), expected, "{text}");
        }
        for (name, texts) in [
            ("x", &["a/b", "c/d"][..]),
            ("path", &["/a", "b"]),
            ("path", &["."]),
            ("path", &["/a/../b"]),
            ("path", &["C:\\a\\..\\b"]),
            ("path", &["C:/a", "C:/b"]),
            ("path", &["~", "~x/y"]),
            ("direction", &["up", "down"]),
            ("profile", &["reader", "writer"]),
            ("path", &[""]),
        ] {
            assert_eq!(learned(name, texts), None, "{texts:?}");
        }
    }

    #[test]
    fn names_of_paths_are_whole_words() {
        for name in [
            "path",
            "file_path",
            "FILE-PATH",
            "filePath",
            "outDir2",
            "root.dir",
            "Files",
        ] {
            assert_eq!(is_of_paths(name), name != "outDir2", "{name}");
        }
        for name in ["direction", "profile", "filed", "pathology", "", "_"] {
            assert!(!is_of_paths(name), "{name}");
        }
    }

    /// What a schema would not take is not drafted.
    #[test]
    fn long_patterns_are_left_out() {
        let hosts: Vec<String> = (0..5)
            .map(|index| format!("https://{}{index}.example/x", "long-".repeat(20)))
            .collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        assert!(learned("url", &hosts).is_none() && learned("url", &hosts[..2]).is_some());
        let deep = format!("/{}", "(.+)/".repeat(100));
        assert!(learned("x", &[&deep, &deep]).is_some());
    }

    #[test]
    fn addresses_stay_at_their_sites() {
        let found = learned("url", &["https://a.example/x?y", "http://localhost:8080"]).unwrap();
        let pattern = Regex::new(&found.pattern).unwrap();
        for (text, expected) in [
            ("https://a.example", true),
            ("https://a.example#x", true),
            ("https://axexample/", false),
            ("https://a.example@evil.example/", false),
            ("https://a.example:8443/", false),
            ("https://a.example\\@evil.example/", false),
            ("http://localhost:80800/", false),
        ] {
            assert_eq!(pattern.is_match(text), expected, "{text}");
        }
        for texts in [
            &["https://user:pw@a.example/"][..],
            &["https://a.example/", "no address"],
            &["https:///x"],
            &["ftp://a.example/"],
        ] {
            assert_eq!(learned("url", texts), None, "{texts:?}");
        }
    }
}
