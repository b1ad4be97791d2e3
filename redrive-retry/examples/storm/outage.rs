//! A server that stands still for ten seconds, and what its clients make of it.

use std::cell::RefCell;
use std::rc::Rc;

use redrive_retry::guard::{BreakerConfig, RetryBudgetConfig};
use redrive_retry::{CircuitBreaker, Jitter, Retryer, SharedBudget};
use tokio::task::LocalSet;

use super::server::{ROUND_MS, Server, round};
use super::{SimulatedClock, run};

/// Calls a second that people make.
const CALLS: u64 = 200;
/// Requests a second that the server can serve.
const CAPACITY: u32 = 300;
/// Requests that wait in the server's queue at most: five seconds of work, more than a client waits.
const ROOM: usize = 1_500;
/// When the server stops and when it goes on, in seconds.
const STOPS: u64 = 10;
const GOES_ON: u64 = 20;
/// How long is looked at, in seconds.
const SECONDS: u64 = 60;

/// How clients are protected from themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// They do not retry at all.
    NoRetry,
    /// Five attempts, after waits that are all alike.
    Nothing,
    /// Five attempts, after waits that are spread.
    Jitter,
    /// The same, within a budget that they share.
    Budget,
    /// The same, behind a circuit breaker that they share.
    Breaker,
}

impl Protection {
    /// Each of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::NoRetry, Self::Nothing, Self::Jitter, Self::Budget, Self::Breaker];

    /// Its name in a plot.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoRetry => "no retries",
            Self::Nothing => "retries, no jitter",
            Self::Jitter => "retries, full jitter",
            Self::Budget => "full jitter and budget",
            Self::Breaker => "full jitter, budget and breaker",
        }
    }

    fn retryer(self, clock: &std::sync::Arc<SimulatedClock>) -> Result<Retryer, Box<dyn std::error::Error>> {
        let builder = Retryer::builder().clock(clock.clone()).seed(17);
        let builder = match self {
            Self::NoRetry => builder.attempts(1),
            Self::Nothing => builder.jitter(Jitter::None),
            Self::Jitter | Self::Budget | Self::Breaker => builder,
        };
        let builder = match self {
            Self::Budget | Self::Breaker => {
                builder.budget(SharedBudget::with_clock(RetryBudgetConfig::default(), clock.clone())?)
            }
            _ => builder.no_budget(),
        };
        Ok(match self {
            Self::Breaker => builder
                .breaker(CircuitBreaker::with_clock(BreakerConfig::default(), clock.clone())?)
                .build()?,
            _ => builder.build()?,
        })
    }
}

/// What was seen in each second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outage {
    /// How the clients were protected.
    pub(crate) protection: Protection,
    /// Requests that arrived, for each call that people made.
    pub(crate) amplification: Vec<f64>,
    /// The share of calls begun in this second that succeeded.
    pub(crate) success: Vec<f64>,
}

impl Outage {
    /// The second in which the server goes on.
    pub(crate) const GOES_ON: u64 = GOES_ON;
    /// The second in which it stops.
    pub(crate) const STOPS: u64 = STOPS;

    /// The most requests for each call that arrived in a second.
    pub(crate) fn worst(&self) -> f64 {
        self.amplification.iter().copied().fold(0.0, f64::max)
    }

    /// How many seconds after the server went on every call succeeds again; nothing when that is not seen.
    pub(crate) fn recovery(&self) -> Option<u64> {
        let last_bad = self.success.iter().rposition(|share| *share < 0.99).unwrap_or(0) as u64;
        let recovered = (last_bad + 1).saturating_sub(GOES_ON);
        (last_bad + 1 < self.success.len() as u64).then_some(recovered)
    }
}

/// Simulates the outage.
pub(crate) fn outage(protection: Protection) -> Result<Outage, Box<dyn std::error::Error>> {
    run(async move {
        let clock = SimulatedClock::begin();
        let retryer = Rc::new(protection.retryer(&clock)?);
        let server = Server::new(ROOM);
        let succeeded = Rc::new(RefCell::new(vec![0_u64; SECONDS as usize]));
        let mut arrived = Vec::new();
        let tasks = LocalSet::new();
        tasks
            .run_until(async {
                for second in 0..SECONDS {
                    let before = server.arrived();
                    for _ in 0..1_000 / ROUND_MS {
                        for _ in 0..CALLS * ROUND_MS / 1_000 {
                            let (retryer, server, succeeded) =
                                (retryer.clone(), server.clone(), succeeded.clone());
                            tokio::task::spawn_local(async move {
                                if retryer.call(|_| server.request()).await.is_ok() {
                                    succeeded.borrow_mut()[second as usize] += 1;
                                }
                            });
                        }
                        round().await;
                        if !(STOPS..GOES_ON).contains(&second) {
                            server.serve(CAPACITY * ROUND_MS as u32 / 1_000);
                        }
                    }
                    arrived.push(server.arrived() - before);
                }
                // The last calls come to their end.
                for _ in 0..10_000 / ROUND_MS {
                    round().await;
                    server.serve(CAPACITY * ROUND_MS as u32 / 1_000);
                }
            })
            .await;
        let share = |count: &u64| *count as f64 / CALLS as f64;
        let success = succeeded.borrow().iter().map(share).collect();
        Ok(Outage { protection, amplification: arrived.iter().map(share).collect(), success })
    })?
}
