//! What a breaker can be told, and what it refuses to be told.

use std::time::Duration;

use crate::guard::GuardError;

/// Over which calls the breaker takes its shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The calls of the last so much time. It moves in thirtieths.
    Time(Duration),
    /// The last so many calls, 1 to 100,000.
    Count(u32),
}

/// The settings of a [`Breaker`](super::Breaker).
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerConfig {
    /// The share of failed calls at which it opens; above 0, at most 1, kept to a millionth. Default: 0.5.
    pub failure_share: f64,
    /// The calls that the window must hold before a share says anything. Default: 20.
    pub min_calls: u32,
    /// The calls that are looked at. Default: those of the last 30 s.
    pub window: Window,
    /// How long it stays open before it probes, and how long a probe may keep its place. Default: 10 s.
    pub open: Duration,
    /// How many probes decide whether the endpoint is back, 1 to 64. They are judged by the same shares as the
    /// window, and as soon as those still to come cannot change the verdict. Default: 3.
    pub half_open_probes: u32,
    /// A call that took longer than this is slow; `None` when slowness does not matter. Default: `None`.
    pub slow_call: Option<Duration>,
    /// The share of slow calls at which it opens; above 0, at most 1, kept to a millionth. Default: 0.5.
    pub slow_share: f64,
    /// So many failures of the endpoint in a row open it whatever the shares and `min_calls`; 0 for never.
    /// Default: 5.
    pub consecutive: u32,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failure_share: 0.5,
            min_calls: 20,
            window: Window::Time(Duration::from_secs(30)),
            open: Duration::from_secs(10),
            half_open_probes: 3,
            slow_call: None,
            slow_share: 0.5,
            consecutive: 5,
        }
    }
}

const LARGEST_COUNT: u32 = 100_000;
const MOST_PROBES: u32 = 64;

impl BreakerConfig {
    pub(super) fn check(&self) -> Result<(), GuardError> {
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        let help = "write a share above 0 and at most 1, such as 0.5";
        if !is_share(self.failure_share) {
            return Err(GuardError::new("failure_share", self.failure_share, help));
        }
        if !is_share(self.slow_share) {
            return Err(GuardError::new("slow_share", self.slow_share, help));
        }
        if self.min_calls == 0 {
            return Err(GuardError::new("min_calls", 0, "write at least 1"));
        }
        match self.window {
            Window::Time(time) if time.is_zero() => {
                return Err(GuardError::new("window", "0", "write a time such as 30s, or a number of calls"));
            }
            Window::Count(calls) if !(1..=LARGEST_COUNT).contains(&calls) => {
                return Err(GuardError::new(
                    "window",
                    calls,
                    "write 1 to 100000 calls, or a time such as 30s",
                ));
            }
            Window::Count(calls) if calls < self.min_calls => {
                return Err(GuardError::new(
                    "min_calls",
                    self.min_calls,
                    "write at most the window's number of calls, or no share could ever open the breaker",
                ));
            }
            Window::Time(_) | Window::Count(_) => {}
        }
        if self.open.is_zero() {
            return Err(GuardError::new("open", "0", "write a time such as 10s, or there would be no pause"));
        }
        if !(1..=MOST_PROBES).contains(&self.half_open_probes) {
            return Err(GuardError::new("half_open_probes", self.half_open_probes, "write 1 to 64"));
        }
        Ok(())
    }
}
