//! Bars as plain SVG: groups one below the other, a bar for each way, the least and the most as a
//! thin line, and the number beside it.

use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
/// Where bars begin and end.
const LEFT: f64 = 210.0;
const RIGHT: f64 = 700.0;
/// Heights of the title, of a group's name, of a bar with the space below it, of the axis.
const HEAD: f64 = 62.0;
const GROUP: f64 = 30.0;
const BAR: f64 = 24.0;
const AXIS: f64 = 34.0;
/// Lines of the axis at most.
const STEPS: f64 = 6.0;

/// Colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// On white.
    Light,
    /// On black.
    Dark,
}

/// The colours of a theme.
struct Colours {
    ground: &'static str,
    text: &'static str,
    faint: &'static str,
    grid: &'static str,
    /// Of toolgate: its own part, and the kernel's.
    ours: [&'static str; 2],
    /// Of the others.
    others: [&'static str; 2],
}

impl Theme {
    /// In names of files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    fn colours(self) -> Colours {
        match self {
            Self::Light => Colours {
                ground: "#ffffff",
                text: "#1f2328",
                faint: "#59636e",
                grid: "#d8dee4",
                ours: ["#0b6bcb", "#8fc1f3"],
                others: ["#6e7781", "#c4cad1"],
            },
            Self::Dark => Colours {
                ground: "#0d1117",
                text: "#f0f6fc",
                faint: "#9198a1",
                grid: "#30363d",
                ours: ["#4493f8", "#1f4f8f"],
                others: ["#8b949e", "#484f58"],
            },
        }
    }
}

/// A picture.
pub(crate) struct Chart {
    /// Names its files.
    pub(crate) file: &'static str,
    /// What it shows.
    pub(crate) title: String,
    /// The unit, and what else must be known to read it.
    pub(crate) unit: String,
    /// Digits after the point.
    pub(crate) decimals: usize,
    /// What the parts of bars are, where they have two.
    pub(crate) parts: Option<[&'static str; 2]>,
    /// The bars.
    pub(crate) groups: Vec<Group>,
}

/// Bars that are compared.
pub(crate) struct Group {
    /// Above them.
    pub(crate) name: String,
    /// One below the other.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
pub(crate) struct Bar {
    /// Beside it.
    pub(crate) label: String,
    /// How long it is.
    pub(crate) value: f64,
    /// How long its first part is; the whole of it where there is only one.
    pub(crate) first: f64,
    /// The least and the most that were measured.
    pub(crate) ends: [f64; 2],
    /// It is toolgate's.
    pub(crate) is_ours: bool,
}

/// The picture as a file.
pub(crate) fn draw(chart: &Chart, theme: Theme) -> String {
    let colours = theme.colours();
    let bars = chart.groups.iter().flat_map(|group| &group.bars);
    let most = bars
        .flat_map(|bar| [bar.value, bar.ends[1]])
        .fold(0.0, f64::max);
    let step = step(most);
    let end = (most / step).ceil().max(1.0) * step;
    let place = |value: f64| LEFT + (RIGHT - LEFT) * (value.max(0.0) / end).min(1.0);
    let height = HEAD + AXIS + chart.groups.iter().map(height).sum::<f64>();
    let mut out = head(chart, &colours, height);
    let bottom = height - AXIS;
    let mut line = 0.0;
    while line <= end + step / 2.0 {
        let x = place(line);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{HEAD}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"{}\"/>",
            colours.grid
        );
        let number = format!("{line:.*}", usize::from(step < 1.0));
        out += &text([x, bottom + 18.0], "middle", colours.faint, &number);
        line += step;
    }
    let mut top = HEAD;
    for group in &chart.groups {
        out += &text([16.0, top + 20.0], "start", colours.text, &group.name);
        top += GROUP;
        for bar in &group.bars {
            out += &one(bar, top, &colours, chart.decimals, place);
            top += BAR;
        }
    }
    out + "</svg>\n"
}

fn height(group: &Group) -> f64 {
    group.bars.iter().fold(GROUP, |height, _| height + BAR)
}

fn head(chart: &Chart, colours: &Colours, height: f64) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{}</title>\n<desc>{}</desc>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{}\"/>\n<text x=\"16\" y=\"26\" font-size=\"17\" font-weight=\"600\" fill=\"{}\">{}</text>\n",
        escaped(&chart.title),
        escaped(&described(chart)),
        colours.ground,
        colours.text,
        escaped(&chart.title),
    );
    out += &text([16.0, 48.0], "start", colours.faint, &chart.unit);
    let parts = chart
        .parts
        .iter()
        .flatten()
        .zip(colours.ours)
        .zip(colours.others);
    let mut x = RIGHT - 60.0;
    for ((name, ours), other) in parts {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"37\" width=\"9\" height=\"12\" fill=\"{ours}\"/><rect x=\"{}\" y=\"37\" width=\"9\" height=\"12\" fill=\"{other}\"/>",
            x + 9.0
        );
        out += &text([x + 24.0, 48.0], "start", colours.faint, name);
        x += 100.0;
    }
    out
}

/// All numbers in words, for who does not see the bars.
fn described(chart: &Chart) -> String {
    let groups = chart.groups.iter().map(|group| {
        let bars = group.bars.iter();
        let bars = bars.map(|bar| format!("{} {:.*}", bar.label, chart.decimals, bar.value));
        format!("{}: {}", group.name, bars.collect::<Vec<_>>().join(", "))
    });
    format!("{}. {}", chart.unit, groups.collect::<Vec<_>>().join("; "))
}

fn one(
    bar: &Bar,
    top: f64,
    colours: &Colours,
    decimals: usize,
    place: impl Fn(f64) -> f64,
) -> String {
    let fills = if bar.is_ours {
        colours.ours
    } else {
        colours.others
    };
    let mut out = text([LEFT - 8.0, top + 13.0], "end", colours.text, &bar.label);
    for (from, to, fill) in [(0.0, bar.first, fills[0]), (bar.first, bar.value, fills[1])] {
        let (left, right) = (place(from), place(to));
        if right > left {
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"17\" fill=\"{fill}\"/>",
                right - left
            );
        }
    }
    let [low, high] = bar.ends.map(&place);
    let middle = top + 8.5;
    let _ = writeln!(
        out,
        "<line x1=\"{low:.1}\" y1=\"{middle:.1}\" x2=\"{high:.1}\" y2=\"{middle:.1}\" stroke=\"{}\" stroke-width=\"1.5\"/>",
        colours.text
    );
    let number = format!(
        "{:.decimals$} ({:.decimals$}–{:.decimals$})",
        bar.value, bar.ends[0], bar.ends[1]
    );
    let right = place(bar.value.max(bar.ends[1]));
    out + &text([right + 8.0, top + 13.0], "start", colours.text, &number)
}

fn text(at: [f64; 2], anchor: &str, fill: &str, words: &str) -> String {
    let [x, y] = at;
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{fill}\">{}</text>\n",
        escaped(words)
    )
}

fn escaped(words: &str) -> String {
    words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A round number of which few fill the axis.
fn step(most: f64) -> f64 {
    if !(most.is_finite() && most > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf((most / STEPS).log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter();
    let mut round = round.map(|times| times * power);
    round
        .find(|step| most / step <= STEPS)
        .unwrap_or(power * 10.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Bar, Chart, Group, Theme, draw, step};

    fn chart(value: f64) -> Chart {
        Chart {
            file: "cpu",
            title: "Reads & lists <1 MiB".to_owned(),
            unit: "µs of CPU".to_owned(),
            decimals: 1,
            parts: Some(["program", "kernel"]),
            groups: vec![Group {
                name: "packed".to_owned(),
                bars: vec![Bar {
                    label: "toolgate".to_owned(),
                    value,
                    first: value / 2.0,
                    ends: [value - 2.0, value + 2.0],
                    is_ours: true,
                }],
            }],
        }
    }

    /// Every element that is opened is closed, and every number is one.
    pub(crate) fn is_well_formed(svg: &str) -> bool {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let Some((tag, _)) = tag.split_once('>') else {
                return false;
            };
            let name = tag.split(' ').next().unwrap_or_default();
            match name.strip_prefix('/') {
                Some(name) if open.pop() != Some(name) => return false,
                None if !tag.ends_with('/') => open.push(name),
                Some(_) | None => {}
            }
        }
        open.is_empty() && !svg.contains("NaN") && !svg.contains("inf")
    }

    #[test]
    fn a_bar_is_as_long_as_its_number() {
        let svg = draw(&chart(40.0), Theme::Light);
        assert!(is_well_formed(&svg), "{svg}");
        // 0 to 50 over 490 points: each part of 20 takes 196.
        for part in [
            "<rect x=\"210.0\" y=\"92.0\" width=\"196.0\" height=\"17\" fill=\"#0b6bcb\"/>",
            "<rect x=\"406.0\" y=\"92.0\" width=\"196.0\" height=\"17\" fill=\"#8fc1f3\"/>",
            ">40.0 (38.0–42.0)</text>",
            "<title>Reads &amp; lists &lt;1 MiB</title>",
            "<desc>µs of CPU. packed: toolgate 40.0</desc>",
        ] {
            assert!(svg.contains(part), "{part}\n{svg}");
        }
        let dark = draw(&chart(40.0), Theme::Dark);
        assert!(is_well_formed(&dark) && dark.contains("#0d1117") && !dark.contains("#ffffff"));
    }

    #[test]
    fn nothing_measured_draws_nothing_wrong() {
        for value in [0.0, f64::NAN] {
            let svg = draw(&chart(value), Theme::Light);
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        }
        let empty = Chart {
            groups: Vec::new(),
            ..chart(1.0)
        };
        assert!(is_well_formed(&draw(&empty, Theme::Light)));
    }

    #[test]
    fn steps_are_round() {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        for (most, expected) in [
            (42.0, 10.0),
            (6.0, 1.0),
            (7.0, 2.0),
            (3.1, 1.0),
            (130.0, 50.0),
        ] {
            assert!(near(step(most), expected), "{most}: {}", step(most));
        }
    }
}
