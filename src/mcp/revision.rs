//! Protocol revisions and the two eras (protocol §0).

/// A revision toolgate speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05, with servers only: agents are offered none that is so old.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25.
    V2025_11_25,
    /// 2026-07-28.
    V2026_07_28,
}

/// How a conversation is kept: by a handshake, or by each request alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Up to 2025-11-25: `initialize` and a session.
    Legacy,
    /// From 2026-07-28: every request stands alone.
    Modern,
}

impl Revision {
    /// All that agents are offered, oldest first.
    pub const ALL: [Self; 4] = [
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// The oldest that agents are offered.
    pub const OLDEST: Self = Self::V2025_03_26;
    /// The newest legacy one.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest modern one.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of that name, as a server may choose it.
    pub fn of_server(name: &str) -> Option<Self> {
        let oldest = Self::V2024_11_05;
        Self::parse(name).or_else(|| (name == oldest.as_str()).then_some(oldest))
    }

    /// The revision of that name, as agents are offered it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.as_str() == name)
    }

    /// Its era.
    pub fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => {
                Era::Legacy
            }
        }
    }
}
