//! An outage in virtual time: messages go on arriving while the endpoint answers nothing but 503.
//!
//! The simulation runs a real flow on the ports in memory, under a paused clock, so hours take seconds. It asserts
//! nothing: it tells what the endpoint and the publisher saw, for tests to judge, for the plot and for the benchmark.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::guard::{BreakerState, Rate};
use redrive_core::{Failure, Message, OrderBy, Policy};
use redrive_engine::handler::{Attempted, Context, Handler};
use redrive_engine::port::{Broker as _, EntryState, Ledger as _, NewMessage};
use redrive_engine::{Flow, FlowSpec};
use tokio::time::Instant;

use crate::clock::TestClock;
use crate::memory::MemoryStore;

const SECOND: Duration = Duration::from_secs(1);
const NAME: &str = "orders";

/// What happens. Times are seconds from the start.
#[derive(Debug, Clone)]
pub struct Outage {
    /// How many messages arrive in all.
    pub messages: u32,
    /// How many of them in each second.
    pub arriving: u32,
    /// While the endpoint is down.
    pub down: Range<u64>,
    /// How many calls a second the endpoint stands: the flow's rate.
    pub limit: u32,
    /// How long a call takes.
    pub call: Duration,
    /// Over how many keys the messages are spread, and in whose order they are handled; 0 for no order.
    pub keys: u32,
    /// The flow's policy.
    pub policy: Arc<Policy>,
    /// When the simulation ends, whatever is left then.
    pub patience: u64,
}

impl Default for Outage {
    /// An hour, in the midst of 100,000 messages at 25 a second, for an endpoint that stands 100 calls a second.
    fn default() -> Self {
        Self {
            messages: 100_000,
            arriving: 25,
            down: 200..3_800,
            limit: 100,
            call: Duration::from_millis(20),
            keys: 0,
            policy: Arc::new(Policy::default()),
            patience: 6 * 3_600,
        }
    }
}

/// One call of the endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// When it began.
    pub at: Duration,
    /// The message's number, by its arrival.
    pub message: u32,
    /// The attempt that the flow said it was.
    pub attempt: u32,
    /// Whether it succeeded.
    pub ok: bool,
    /// How many calls were under way, this one included.
    pub at_once: u32,
}

/// What was seen at the end of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Second {
    /// Messages that had arrived and were not delivered.
    pub waiting: u64,
    /// The flow's breaker.
    pub breaker: Option<BreakerState>,
}

/// What was seen.
#[derive(Debug)]
pub struct Story {
    /// Every call, in the order in which they began.
    pub calls: Vec<Call>,
    /// Every second.
    pub seconds: Vec<Second>,
    /// What the ledger holds in the end, by state.
    pub ledger: Vec<(EntryState, u64)>,
    /// What the ledger finds wrong with itself in the end.
    pub problems: Vec<String>,
}

impl Outage {
    /// Runs it.
    ///
    /// # Panics
    /// When the flow does not start: there is nothing to tell then.
    pub fn simulate(&self) -> Story {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(self.run())
    }

    async fn run(&self) -> Story {
        let clock = Arc::new(TestClock::default());
        let store = MemoryStore::shared(clock.clone());
        let began = Instant::now();
        let endpoint = Arc::new(Endpoint { began, outage: self.clone(), seen: Mutex::default() });
        let spec = FlowSpec {
            rate: Rate::per_second(self.limit),
            order_by: if self.keys > 0 { OrderBy::Key } else { OrderBy::None },
            policy: Arc::clone(&self.policy),
            ..FlowSpec::new(NAME, NAME, endpoint.clone())
        };
        let (broker, ledger) = (store.broker(), store.ledger());
        let flow = Flow::start(spec, broker.clone(), ledger.clone(), clock.clone()).await;
        let flow = flow.expect("the flow starts");
        let mut seconds = Vec::new();
        let mut arrived = 0;
        for second in 1..=self.patience {
            let next = (arrived + self.arriving).min(self.messages);
            if next > arrived {
                let messages = (arrived..next).map(|number| self.message(number)).collect();
                broker.publish(NAME, messages).await.expect("published");
                arrived = next;
            }
            tokio::time::sleep_until(began + SECOND * u32::try_from(second).unwrap_or(u32::MAX)).await;
            let waiting = u64::from(arrived).saturating_sub(endpoint.seen().delivered);
            seconds.push(Second { waiting, breaker: flow.breaker() });
            if arrived == self.messages && waiting == 0 && flow.in_hand() == 0 {
                break;
            }
        }
        flow.stop().await;
        let mut counted = Vec::new();
        for state in EntryState::ALL.iter().copied() {
            counted.push((state, ledger.count(NAME, state).await.expect("the ledger")));
        }
        let problems = ledger.check().await.expect("the ledger");
        let problems = problems.iter().map(|problem| format!("{}: {}", problem.invariant, problem.found));
        let calls = std::mem::take(&mut endpoint.seen().calls);
        Story { calls, seconds, ledger: counted, problems: problems.collect() }
    }

    fn message(&self, number: u32) -> NewMessage {
        let key = number.checked_rem(self.keys).map(|key| key.to_string().into());
        NewMessage { id: Some(number.to_string()), key, body: Some("{}".into()), ..NewMessage::default() }
    }
}

impl Story {
    /// When the last message was delivered that was.
    pub fn drained_at(&self) -> Duration {
        let delivered = self.calls.iter().rev().find(|call| call.ok);
        delivered.map_or(Duration::ZERO, |call| call.at)
    }

    /// Calls that began in each second.
    pub fn calls_each_second(&self) -> Vec<u32> {
        let mut each = vec![0; self.seconds.len()];
        for call in &self.calls {
            if let Some(second) = each.get_mut(call.at.as_secs() as usize) {
                *second += 1;
            }
        }
        each
    }

    /// How long the rest takes from the moment the endpoint is back, and how long it would at the endpoint's limit.
    pub fn recovery(&self, outage: &Outage) -> (Duration, Duration) {
        let back = Duration::from_secs(outage.down.end);
        let before = self.calls.iter().filter(|call| call.ok && call.at < back).count();
        let left = f64::from(outage.messages) - before as f64;
        let at_limit = Duration::from_secs_f64(left.max(0.0) / f64::from(outage.limit.max(1)));
        let last_arrival = Duration::from_secs(u64::from(outage.messages.div_ceil(outage.arriving.max(1))));
        (self.drained_at().saturating_sub(back), at_limit.max(last_arrival.saturating_sub(back)))
    }
}

/// The endpoint: down for its time, and counting.
#[derive(Debug)]
struct Endpoint {
    began: Instant,
    outage: Outage,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    calls: Vec<Call>,
    at_once: u32,
    delivered: u64,
}

impl Endpoint {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Handler for Endpoint {
    async fn call(&self, message: &Message, context: Context) -> Attempted {
        let at = self.began.elapsed();
        let ok = !self.outage.down.contains(&at.as_secs());
        {
            let mut seen = self.seen();
            seen.at_once += 1;
            let at_once = seen.at_once;
            let number = message.id.as_str().parse().unwrap_or(u32::MAX);
            seen.calls.push(Call { at, message: number, attempt: context.attempt, ok, at_once });
        }
        tokio::time::sleep(self.outage.call).await;
        let mut seen = self.seen();
        seen.at_once -= 1;
        if ok {
            seen.delivered += 1;
            return Attempted::success();
        }
        Attempted::failure(Failure::from_message("the endpoint is down").with_status(503))
    }
}
