//! A thousand clients that fail in the same moment, and when they come back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use redrive_retry::{Jitter, Retryer};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::server::ROUND_MS;
use super::{SimulatedClock, ms, run};

/// How many clients there are.
const CLIENTS: usize = 1_000;
/// Requests that the server takes in each round; the rest is refused at once.
const TAKES: u32 = 5;

/// When the requests of the herd arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Herd {
    /// How waits were spread.
    pub(crate) jitter: Jitter,
    /// Requests in each hundredth of a second.
    pub(crate) arrived: Vec<u32>,
}

impl Herd {
    /// Requests in all: a thousand if none came in vain.
    pub(crate) fn requests(&self) -> u32 {
        self.arrived.iter().sum()
    }

    /// The most that came at once after the first time.
    pub(crate) fn peak(&self) -> u32 {
        self.arrived.iter().skip(1).copied().max().unwrap_or(0)
    }

    /// When the last client had its answer, in seconds.
    pub(crate) fn took(&self) -> f64 {
        self.arrived.len() as f64 * ROUND_MS as f64 / 1_000.0
    }
}

/// Lets the herd run until all have been served.
pub(crate) fn herd(jitter: Jitter) -> Result<Herd, Box<dyn std::error::Error>> {
    run(async move {
        let clock = SimulatedClock::begin();
        let retryer = Retryer::builder()
            .attempts(1_000)
            .no_deadline()
            .no_budget()
            .jitter(jitter)
            .seed(17)
            .clock(clock)
            .build()?;
        let retryer = Rc::new(retryer);
        let began = Instant::now();
        let taken = Rc::new(Cell::new((0, 0)));
        let arrived = Rc::new(RefCell::new(Vec::<u32>::new()));
        let tasks = LocalSet::new();
        for _ in 0..CLIENTS {
            let (retryer, taken, arrived) = (retryer.clone(), taken.clone(), arrived.clone());
            tasks.spawn_local(async move {
                let request = |_| {
                    let now = (began.elapsed().as_millis() as u64 / ROUND_MS) as usize;
                    let mut arrived = arrived.borrow_mut();
                    let rounds = arrived.len().max(now + 1);
                    arrived.resize(rounds, 0);
                    arrived[now] += 1;
                    let (round, count) = taken.get();
                    let before = if round == now { count } else { 0 };
                    let served = before < TAKES;
                    taken.set((now, before + u32::from(served)));
                    async move {
                        tokio::time::sleep(ms(1)).await;
                        if served { Ok(()) } else { Err("busy") }
                    }
                };
                // A thousand attempts are more than anybody needs here.
                drop(retryer.call(request).await);
            });
        }
        tasks.await;
        let arrived = arrived.borrow().clone();
        Ok(Herd { jitter, arrived })
    })?
}
