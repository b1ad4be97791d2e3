//! How often calls may start: a rate as people write it, and a token bucket that keeps to it exactly.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use super::{GuardError, nanos};
use crate::TextError;

/// So many in so much time, as people write it: `500/s`, `10/m`, `3/h`, `1/d`, `5/10s`, `1/250ms`.
///
/// The time is whole milliseconds, at most 366 days. `60/m` and `1/s` are the same rate with different bursts, so
/// they are kept, printed and compared as they were written.
///
/// ```
/// use redrive_core::guard::Rate;
///
/// let rate: Rate = "500/s".parse()?;
/// assert_eq!(rate, Rate::per_second(500).unwrap());
/// assert_eq!(rate.to_string(), "500/s");
/// assert_eq!("3 / h".parse::<Rate>()?.to_string(), "3/h");
/// assert_eq!("5/10s".parse::<Rate>()?.to_string(), "5/10s");
///
/// let error = "500/week".parse::<Rate>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "expected one of ms, s, m, h, d, as in 500/s, 10/m or 5/10s at character 5, found `week`"
/// );
/// # Ok::<(), redrive_core::TextError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    count: NonZeroU32,
    per_ms: u64,
}

const LONGEST_MS: u64 = 366 * 86_400_000;
/// Longest first, so that printing finds the shortest text.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Rate {
    /// `count` in every `per`; `None` for a count of 0, and for a time that is no whole number of milliseconds
    /// from 1 to 366 days.
    pub fn new(count: u32, per: Duration) -> Option<Self> {
        let whole = per.subsec_nanos().is_multiple_of(1_000_000);
        let per_ms = u64::try_from(per.as_millis()).ok()?;
        if !whole || per_ms == 0 || per_ms > LONGEST_MS {
            return None;
        }
        Some(Self { count: NonZeroU32::new(count)?, per_ms })
    }

    /// `count` in every second; `None` for 0.
    pub fn per_second(count: u32) -> Option<Self> {
        Self::new(count, Duration::from_secs(1))
    }

    /// How many.
    pub const fn count(self) -> u32 {
        self.count.get()
    }

    /// In how much time.
    pub const fn per(self) -> Duration {
        Duration::from_millis(self.per_ms)
    }

    /// What one second brings, rounded down, at least 1: the burst that is allowed unless another is asked for.
    pub fn one_second(self) -> u32 {
        let second = u64::from(self.count.get()).saturating_mul(1_000) / self.per_ms;
        u32::try_from(second).unwrap_or(u32::MAX).max(1)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) =
            UNITS.into_iter().find(|(_, size)| self.per_ms.is_multiple_of(*size)).unwrap_or(("ms", 1));
        match self.per_ms / size {
            1 => write!(f, "{}/{unit}", self.count),
            times => write!(f, "{}/{times}{unit}", self.count),
        }
    }
}

const COUNT: &str = "a rate such as 500/s, 10/m or 5/10s: a whole number from 1 to 4294967295";
const SLASH: &str = "`/` and a time, as in 500/s, 10/m or 5/10s";
const UNIT: &str = "one of ms, s, m, h, d, as in 500/s, 10/m or 5/10s";
const TIME: &str = "a time from 1ms to 366d";

impl FromStr for Rate {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |rest: &str, expected: &str| TextError::new(text, text.len() - rest.len(), expected);
        let start = text.trim_start();
        let (count, rest) = split_digits(start);
        let count = count.parse().map_err(|_| wrong(start, COUNT))?;
        let rest = rest.trim_start();
        let time = rest.strip_prefix('/').ok_or_else(|| wrong(rest, SLASH))?.trim_start();
        let (times, unit) = split_digits(time);
        let size = match unit.trim_end() {
            "ms" => 1,
            "s" | "sec" | "second" => 1_000,
            "m" | "min" | "minute" => 60_000,
            "h" | "hour" => 3_600_000,
            "d" | "day" => 86_400_000,
            _ => return Err(wrong(unit, UNIT)),
        };
        let times: u64 = if times.is_empty() { 1 } else { times.parse().map_err(|_| wrong(time, TIME))? };
        match times.saturating_mul(size) {
            per_ms @ 1..=LONGEST_MS => Ok(Self { count, per_ms }),
            _ => Err(wrong(time, TIME)),
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

as_text!(Rate, "rate", "a count in a time, such as 500/s, 10/m, 3/h or 5/10s");

/// A token bucket: in any interval of length t it lets at most `burst + rate × t` through.
///
/// It starts full. Internally it keeps the point in time at which the bucket would be full again, in units of a
/// nanosecond divided by the rate's count, so a rate such as `3/s` is kept exactly, however long it runs.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::guard::RateLimit;
///
/// let mut limit = RateLimit::with_burst("10/s".parse()?, 2)?;
/// let now = Duration::from_secs(100);
/// assert_eq!(limit.try_take(now, 2), Ok(()));
/// assert_eq!(limit.try_take(now, 1), Err(Duration::from_millis(100)));
/// assert_eq!(limit.try_take(now + Duration::from_millis(100), 1), Ok(()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    rate: Rate,
    burst: u32,
    /// What one token costs, in scaled time.
    cost: u64,
    /// When the bucket is full again, in scaled time.
    full_at: u128,
    latest: u64,
}

impl RateLimit {
    /// A limit with a burst of [one second's worth](Rate::one_second).
    pub fn new(rate: Rate) -> Self {
        Self { rate, burst: rate.one_second(), cost: rate.per_ms * 1_000_000, full_at: 0, latest: 0 }
    }

    /// A limit with a burst of its own, at least 1.
    pub fn with_burst(rate: Rate, burst: u32) -> Result<Self, GuardError> {
        if burst == 0 {
            return Err(GuardError::new("burst", burst, "write at least 1, or nothing could ever pass"));
        }
        Ok(Self { burst, ..Self::new(rate) })
    }

    /// Takes `n` tokens, or says how long to wait until they would be there.
    ///
    /// More than the burst can never be taken at once: the wait is then [`Duration::MAX`].
    pub fn try_take(&mut self, now: Duration, n: u32) -> Result<(), Duration> {
        self.latest = self.latest.max(nanos(now));
        let after = self.full_after(self.latest, n)?;
        self.full_at = after;
        Ok(())
    }

    /// How long until `n` tokens could be taken, none of them taken; zero when they are there.
    pub fn wait(&self, now: Duration, n: u32) -> Duration {
        self.full_after(self.latest.max(nanos(now)), n).err().unwrap_or_default()
    }

    /// Takes `n` tokens, now or ahead of time, and says how long to wait before they may be used; nothing is taken
    /// when that is longer than `longest`, and the wait is the error.
    ///
    /// Waiting for a reserved token keeps the order in which callers came, and wakes each of them once, where all
    /// that ask again at one moment would race for it. What is reserved stays taken, used or not.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::guard::RateLimit;
    ///
    /// let mut limit = RateLimit::with_burst("10/s".parse()?, 1)?;
    /// let (now, second) = (Duration::ZERO, Duration::from_secs(1));
    /// assert_eq!(limit.reserve(now, 1, second), Ok(Duration::ZERO));
    /// assert_eq!(limit.reserve(now, 1, second), Ok(Duration::from_millis(100)));
    /// assert_eq!(limit.reserve(now, 1, second), Ok(Duration::from_millis(200)));
    /// assert_eq!(limit.reserve(now, 1, Duration::from_millis(100)), Err(Duration::from_millis(300)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&mut self, now: Duration, n: u32, longest: Duration) -> Result<Duration, Duration> {
        self.latest = self.latest.max(nanos(now));
        let wait = self.full_after(self.latest, n).err().unwrap_or_default();
        if n > self.burst || wait > longest {
            return Err(wait);
        }
        if n > 0 {
            let now = u128::from(self.latest) * u128::from(self.rate.count.get());
            self.full_at = self.full_at.max(now) + u128::from(self.cost) * u128::from(n);
        }
        Ok(wait)
    }

    /// When the bucket is full again if `n` tokens are taken now, or how long to wait before.
    fn full_after(&self, now_ns: u64, n: u32) -> Result<u128, Duration> {
        if n > self.burst {
            return Err(Duration::MAX);
        }
        let now = u128::from(now_ns) * u128::from(self.rate.count.get());
        let after = self.full_at.max(now) + u128::from(self.cost) * u128::from(n);
        let room = now + u128::from(self.cost) * u128::from(self.burst);
        if after <= room {
            return Ok(if n == 0 { self.full_at } else { after });
        }
        let wait = (after - room).div_ceil(u128::from(self.rate.count.get()));
        Err(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// The rate that is kept.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// How many tokens the bucket holds.
    pub const fn burst(&self) -> u32 {
        self.burst
    }
}
