//! Random numbers as an argument, so that every decision can be repeated.

/// A source of random numbers that the caller brings.
///
/// ```
/// use redrive_core::{Random, SplitMix64};
///
/// let mut rng = SplitMix64::new(7);
/// let wait = rng.between(100, 200);
/// assert!((100..=200).contains(&wait));
/// ```
pub trait Random {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;

    /// A number from `low` to `high`, both included; `low` when the range is empty.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        if high <= low {
            return low;
        }
        let span = u128::from(high - low) + 1;
        // Multiply-shift: the bias is below 2^-64 of the span, far under what a delay can show.
        low + ((u128::from(self.next_u64()) * span) >> 64) as u64
    }
}

impl<R: Random + ?Sized> Random for &mut R {
    fn next_u64(&mut self) -> u64 {
        (**self).next_u64()
    }
}

/// A small, fast generator for jitter and tests. Not for secrets.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator whose whole sequence follows from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Random for SplitMix64 {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
