//! What a normalized schema no longer says, place by place: shown by `explain`, never silent
//! (001-21).

use super::super::explain::shown;
use std::fmt;

/// Losses that one report names.
const MAX_LOSSES_NAMED: usize = 64;

/// What was lost at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// JSON pointer into the schema, references written out.
    pub at: String,
    /// What.
    pub what: Lost,
}

/// A kind of loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The keyword is gone, so that more is taken than the original takes.
    Keyword(String),
    /// Alternatives or parts were put together, so that more is taken.
    Merged(&'static str),
    /// A recursion ends here, and any value is taken.
    Cut,
    /// The property is shown under another name; said under its own one, only the original judges
    /// it.
    Renamed,
    /// Fewer values can be said than the original takes.
    Narrowed,
    /// Properties that are not declared can no longer be said.
    Closed,
    /// The property can no longer be said.
    LeftOut,
    /// Two values of the original look like one.
    Ambiguous,
}

impl Lost {
    /// Whether there are calls that the original takes and that can no longer be said.
    pub fn narrows(&self) -> bool {
        match self {
            Self::Keyword(_) | Self::Merged(_) | Self::Cut | Self::Renamed => false,
            Self::Narrowed | Self::Closed | Self::LeftOut | Self::Ambiguous => true,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.at.is_empty() {
            "the root"
        } else {
            &self.at
        };
        match &self.what {
            Lost::Keyword(keyword) => write!(f, "{place}: `{}` is not said", shown(keyword)),
            Lost::Merged(keyword) => {
                write!(f, "{place}: `{keyword}` is put together, and takes more")
            }
            Lost::Cut => write!(f, "{place}: the recursion ends, and any value is taken"),
            Lost::Renamed => write!(
                f,
                "{place}: shown under another name; under its own, any value can be said"
            ),
            Lost::Narrowed => write!(f, "{place}: not every value of the original can be said"),
            Lost::Closed => write!(f, "{place}: only declared properties can be said"),
            Lost::LeftOut => write!(f, "{place}: cannot be said, and is left out"),
            Lost::Ambiguous => write!(f, "{place}: two values look like one"),
        }
    }
}

/// All losses of one schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// The first of them.
    pub named: Vec<Loss>,
    /// How many more there are.
    pub more: usize,
    /// Whether one of all of them narrows: see [`Lost::narrows`].
    pub narrows: bool,
}

impl Losses {
    pub(super) fn note(&mut self, at: &SchemaPlace<'_>, what: Lost) {
        self.narrows |= what.narrows();
        if self.named.len() == MAX_LOSSES_NAMED {
            self.more += 1;
            return;
        }
        let loss = Loss {
            at: at.pointer(),
            what,
        };
        if !self.named.contains(&loss) {
            self.named.push(loss);
        }
    }
}

/// Where in a schema: a chain of steps from the root.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaPlace<'a> {
    above: Option<&'a Self>,
    step: &'a str,
}

impl<'a> SchemaPlace<'a> {
    pub(super) const ROOT_PLACE: SchemaPlace<'static> = SchemaPlace {
        above: None,
        step: "",
    };

    pub(super) fn below(&'a self, step: &'a str) -> Self {
        SchemaPlace {
            above: Some(self),
            step,
        }
    }

    pub(super) fn is_root(&self) -> bool {
        self.above.is_none()
    }

    pub(super) fn pointer(&self) -> String {
        let mut steps = Vec::new();
        let mut at = *self;
        while let Some(above) = at.above {
            steps.push(at.step.to_owned());
            at = *above;
        }
        steps.reverse();
        super::super::explain::pointer(&steps)
    }
}
