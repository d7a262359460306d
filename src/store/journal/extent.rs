//! How large the journal is beside what it may have.

/// Bytes that a journal may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// From so many on, what makes no promise is summed up.
    pub lean: u64,
    /// Beyond so many, the oldest closed segments are dropped, however young they are. Segments
    /// are an eighth of it at most.
    pub most: u64,
}

impl Sizes {
    /// As many as there are.
    pub const UNLIMITED: Self = Self {
        lean: u64::MAX,
        most: u64::MAX,
    };
}

/// Whether there is room in what the journal may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Extent {
    /// There is.
    Within,
    /// There is for what belongs to promises: what makes none is summed up.
    Lean,
    /// It has more than it may, and nothing could be dropped.
    Beyond,
    /// It has a quarter more: nothing that changes something is begun, so that what has begun can
    /// be recorded.
    FarBeyond,
}

impl Extent {
    /// That of `bytes` where `sizes` may be.
    pub(super) fn of(bytes: u64, sizes: Sizes) -> Self {
        let beyond = bytes.saturating_sub(sizes.most);
        if beyond > sizes.most / 4 {
            Self::FarBeyond
        } else if beyond > 0 {
            Self::Beyond
        } else if bytes >= sizes.lean {
            Self::Lean
        } else {
            Self::Within
        }
    }

    /// That which was kept as `number`.
    pub(super) fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Within,
            1 => Self::Lean,
            2 => Self::Beyond,
            _ => Self::FarBeyond,
        }
    }

    /// What it means, for operators.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Within => "there is room in the ledger again",
            Self::Lean => {
                "the ledger is nearly as large as it may be: reads and refusals are only summed up from now on"
            }
            Self::Beyond => {
                "the ledger has more than `ledger.max_bytes`, and nothing of it can be dropped yet"
            }
            Self::FarBeyond => {
                "the ledger has far more than `ledger.max_bytes`: no side effect begins"
            }
        }
    }
}
