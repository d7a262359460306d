//! Chance that can be had again: everything drawn follows from a seed.

/// A source of chance (`splitmix64`).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Everything it gives follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another source, for the `nth` of something; how much either is used does not change the
    /// other.
    #[must_use]
    pub fn fork(&self, nth: u64) -> Self {
        Self(Self(self.0 ^ nth.wrapping_mul(0xA24B_AED4_963E_E407)).draw())
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A seed nobody chose.
pub fn any_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish() % 1_000_000_000
}
