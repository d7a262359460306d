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

/// The seed of a scenario, printed: `usual`, which makes a failure come again. `TOOLGATE_SEED=n`
/// takes another one, and `TOOLGATE_SEED=random`, which is for the nightly lane, draws one.
#[expect(
    clippy::print_stderr,
    reason = "to run the same chance again, an author needs the seed"
)]
pub fn seed(usual: u64) -> u64 {
    let seed = match std::env::var("TOOLGATE_SEED").as_deref() {
        Err(_) | Ok("") => usual,
        Ok("random") => any_seed(),
        Ok(number) => number
            .parse()
            .unwrap_or_else(|_| panic!("TOOLGATE_SEED={number} is no number and not `random`")),
    };
    eprintln!("TOOLGATE_SEED={seed}");
    seed
}

/// A seed nobody chose.
pub fn any_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish() % 1_000_000_000
}
