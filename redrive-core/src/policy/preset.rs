//! Policies that come with Redrive, by name.

use std::time::Duration;

use super::spec::{BudgetSpec, RetryAfterSpec};
use super::{ByClass, PolicySpec};
use crate::duration::Period;
use crate::{Class, Floor};

crate::class::vocabulary! {
    /// A ready-made policy.
    Preset as "preset", expected "ladder, time-based, http-client, spring" {
        /// In place after 100 ms, then 10 s, 1 m, 5 m, 30 m ± 10 %: six attempts. The default.
        Ladder = "ladder",
        /// 5 s, 10 s, 20 s ± 10 %, at least 1 s and at most 5 m: four attempts.
        TimeBased = "time-based",
        /// In place, 200 ms doubling to at most 3 s with full jitter, within 8 s: five attempts.
        HttpClient = "http-client",
        /// The partition stands still for 500 ms, 1 s, 2 s, at most 5 s: four attempts.
        Spring = "spring",
    }
}

impl Preset {
    /// The policy as a person would write it.
    pub fn spec(self) -> PolicySpec {
        // Each text is a constant of this file, and a test reads all of them.
        let general = |text: &str| text.parse().ok().map(ByClass::general);
        match self {
            Self::Ladder => {
                let unknown = "100ms x2".parse().ok();
                PolicySpec {
                    local: general("100ms")
                        .zip(unknown)
                        .map(|(all, unknown)| all.and(Class::Unknown, unknown)),
                    retry: general("10s, 1m, 5m, 30m jitter 10%"),
                    budgets: Some(BudgetSpec { attempts: Some(6), ..BudgetSpec::default() }),
                    ..PolicySpec::default()
                }
            }
            Self::TimeBased => PolicySpec {
                retry: general("exponential(5s, factor 2, max 5m, times 3) jitter 10%"),
                floor: Some(Floor::Fixed(Duration::from_secs(1))),
                ..PolicySpec::default()
            },
            Self::HttpClient => PolicySpec {
                local: general("exponential(200ms, factor 2, max 3s, times 4) jitter full"),
                floor: Some(Floor::Fixed(Duration::ZERO)),
                budgets: Some(BudgetSpec {
                    attempts: Some(5),
                    age: Some(Period(Duration::from_secs(8))),
                    ..BudgetSpec::default()
                }),
                retry_after: Some(RetryAfterSpec {
                    min: Some(Period(Duration::ZERO)),
                    max: Some(Period(Duration::from_secs(3))),
                }),
                ..PolicySpec::default()
            },
            Self::Spring => PolicySpec {
                blocking: general("exponential(500ms, factor 2, max 5s, times 3)"),
                ..PolicySpec::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_builds_and_allows_what_it_says() {
        for (preset, attempts) in
            [(Preset::Ladder, 6), (Preset::TimeBased, 4), (Preset::HttpClient, 5), (Preset::Spring, 4)]
        {
            let policy = preset.spec().build().unwrap();
            assert_eq!(policy.attempts(), Some(attempts), "{preset}");
        }
    }
}
