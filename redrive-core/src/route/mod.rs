//! How a delay becomes a way through places that each wait a fixed time.
//!
//! A broker's topic or queue keeps its order only when everything in it waits equally long, so a delay of any
//! length is put together from a few fixed ones. Three kinds are known: [`Route::repeating`] (any levels, each as
//! often as needed), [`Route::binary`] (powers of two, each at most once) and [`Route::tiered`] (one level).
//!
//! A route is a plan for now. Every hop plans again from the absolute due time, so the lateness of one hop does
//! not add to that of the next, and a delay too long for one route is simply planned further on the way.

mod binary;
mod level;
mod repeating;

use std::time::Duration;

pub use binary::BinaryLevels;
pub use level::{Level, LevelError, Levels};

/// The most hops that a route may have: enough for 7 days on a short ladder of levels.
pub const MAX_HOPS: usize = 8;

/// The levels that a message passes, longest first, and what they leave.
///
/// At most one of [`remainder`](Self::remainder), [`still_to_plan`](Self::still_to_plan) and
/// [`late`](Self::late) is not zero, and `levels + remainder + still_to_plan − late` is the delay, exactly.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::route::{Levels, MAX_HOPS, Route};
///
/// let minutes = Duration::from_mins;
/// let levels = Levels::new([minutes(10), minutes(5), minutes(1)])?;
/// let route = Route::repeating(minutes(17) + Duration::from_secs(3), &levels, MAX_HOPS);
/// assert_eq!(route.to_string(), "10m,5m,1m,1m");
/// assert_eq!(route.remainder(), Duration::from_secs(3)); // waits in memory
/// # Ok::<(), redrive_core::route::LevelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    levels: Vec<Level>,
    remainder: Duration,
    still_to_plan: Duration,
    late: Duration,
}

impl Route {
    /// What the levels leave of `delay`; `smallest` tells a remainder from what needs another route.
    fn of(levels: Vec<Level>, delay: Duration, smallest: Duration) -> Self {
        let covered: Duration = levels.iter().map(|level| level.duration()).sum();
        let left = delay.saturating_sub(covered);
        let (remainder, still_to_plan) =
            if left < smallest { (left, Duration::ZERO) } else { (Duration::ZERO, left) };
        Self { levels, remainder, still_to_plan, late: covered.saturating_sub(delay) }
    }

    /// The way with the fewest hops through levels that may be passed more than once; never longer than `delay`.
    ///
    /// Among all ways that leave less than the smallest level it takes the one with the fewest hops, and among
    /// those the one that is first when compared level by level, longest first. When `hops` (at most
    /// [`MAX_HOPS`]; the usual bound) cannot cover the delay, the way covers as much as it can and the rest is
    /// [`still_to_plan`](Self::still_to_plan). The work is described at [`Levels`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::route::{Levels, MAX_HOPS, Route};
    ///
    /// let seconds = Duration::from_secs;
    /// let levels = Levels::new([seconds(9), seconds(6), seconds(1)])?;
    /// // The longest that fits would be 9+1+1+1.
    /// assert_eq!(Route::repeating(seconds(12), &levels, MAX_HOPS).to_string(), "6s,6s");
    ///
    /// let far = Route::repeating(seconds(100), &levels, MAX_HOPS);
    /// assert_eq!(far.levels().len(), 8);
    /// assert_eq!(far.still_to_plan(), seconds(28));
    /// # Ok::<(), redrive_core::route::LevelError>(())
    /// ```
    pub fn repeating(delay: Duration, levels: &Levels, hops: usize) -> Self {
        let way = repeating::plan(levels, level::millis(delay), hops.min(MAX_HOPS));
        Self::of(way, delay, levels.smallest().duration())
    }

    /// The way through powers of two, each at most once and strictly descending; never shorter than `delay`.
    ///
    /// The delay is rounded up to a whole unit, and then up to its most significant bits. A delay beyond the
    /// largest level's reach (49.7 days with the default unit) takes the longest way there is, and the rest is
    /// [`still_to_plan`](Self::still_to_plan).
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::route::{BinaryLevels, Route};
    ///
    /// let route = Route::binary(Duration::from_millis(1_000), &BinaryLevels::default());
    /// assert_eq!(route.to_string(), "512ms,256ms,128ms,64ms,32ms,16ms"); // 1,008 ms
    /// assert_eq!(route.late(), Duration::from_millis(8));
    /// ```
    pub fn binary(delay: Duration, levels: &BinaryLevels) -> Self {
        Self::of(levels.plan(delay), delay, Duration::ZERO)
    }

    /// One hop: the smallest level that is at least `delay`, or the largest with the rest
    /// [`still_to_plan`](Self::still_to_plan). No hop for no delay.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::route::{Levels, Route};
    ///
    /// let levels = Levels::new([10, 60, 300].map(Duration::from_secs))?;
    /// let route = Route::tiered(Duration::from_secs(45), &levels);
    /// assert_eq!((route.to_string().as_str(), route.late()), ("1m", Duration::from_secs(15)));
    /// # Ok::<(), redrive_core::route::LevelError>(())
    /// ```
    pub fn tiered(delay: Duration, levels: &Levels) -> Self {
        let all = levels.as_slice();
        let enough = all.iter().rev().find(|level| level.duration() >= delay);
        let way = if delay.is_zero() { None } else { enough.or(all.first()) };
        Self::of(way.copied().into_iter().collect(), delay, Duration::ZERO)
    }

    /// The levels to pass, longest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// What is left and below the smallest level: waited for in memory.
    pub const fn remainder(&self) -> Duration {
        self.remainder
    }

    /// What is left because the hops did not suffice: planned further on the way.
    pub const fn still_to_plan(&self) -> Duration {
        self.still_to_plan
    }

    /// By how much the way is longer than the delay, for the kinds that round up.
    pub const fn late(&self) -> Duration {
        self.late
    }

    /// How long the levels take together.
    pub fn covered(&self) -> Duration {
        self.levels.iter().map(|level| level.duration()).sum()
    }
}

/// The levels' names, separated by commas.
impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, level) in self.levels.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{level}")?;
        }
        Ok(())
    }
}
