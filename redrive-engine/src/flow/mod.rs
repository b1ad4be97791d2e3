//! A flow at run time.
//!
//! ```text
//! Source ─▶ intake ─▶ order: lanes ─▶ desk: guards ─▶ worker: attempt, decide ─▶ settler ─▶ Broker::settle
//!                                      ▲                │
//!                                      └──── aside ◀────┘  waits in hand that are longer than a slot should be kept
//! ```
//! Each part is one task (the workers are as many as calls may run at once) and hands values on; nothing reaches
//! back. What is in hand is bounded by messages and by bytes.
#![allow(clippy::vec_box, reason = "a job goes through many hands; what is moved is its address")]

mod alarms;
mod aside;
mod attempt;
mod controls;
mod desk;
mod divert;
mod doubt;
mod earlier;
mod forwarding;
mod gates;
mod guards;
mod heads;
mod held;
mod instead;
mod intake;
mod job;
mod lanes;
mod log;
mod metrics;
mod order;
mod revoking;
mod settler;
mod shared;
mod spec;
mod telling;
mod times;
mod trouble;
mod untried;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use redrive_core::guard::{BreakerState, GuardError};
use redrive_core::{Random as _, SplitMix64};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

pub use spec::FlowSpec;

use crate::handler::Marks;
use crate::mint::seed;
use crate::port::{Broker, Capabilities, Clock, Delivery, Ledger, PortError, Subscription};
use shared::Shared;

/// What a message weighs, for a limit on bytes.
pub(crate) fn weight(delivery: &Delivery) -> usize {
    job::Job::weight(delivery)
}

/// How long a stop waits for a broker that does not settle, when the calls have used its time up.
const LEAST_PATIENCE: Duration = Duration::from_secs(5);

/// Why a flow did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A guard's settings are wrong.
    #[error("flow `{flow}`: {source}")]
    Guard {
        /// The flow.
        flow: Arc<str>,
        /// What is wrong.
        source: GuardError,
    },
    /// Nobody can keep the order that it asks for.
    #[error(
        "flow `{flow}`: order_by needs a ledger that keeps lanes, and {kind} has none here; leave order_by out"
    )]
    Order {
        /// The flow.
        flow: Arc<str>,
        /// The broker's kind.
        kind: &'static str,
    },
    /// The broker did not let it in.
    #[error("flow `{flow}`: {source}")]
    Port {
        /// The flow.
        flow: Arc<str>,
        /// What it said.
        source: PortError,
    },
}

/// A running flow. Dropping it stops it without waiting; [`stop`](Self::stop) waits.
#[derive(Debug)]
pub struct Flow {
    view: FlowView,
    workers: JoinSet<()>,
    intake: JoinHandle<()>,
    aside: JoinHandle<()>,
    controls: JoinHandle<()>,
    telling: JoinHandle<()>,
    revoking: JoinHandle<()>,
    settler: JoinHandle<()>,
    nothing_more: CancellationToken,
}

impl Flow {
    /// Starts a flow.
    pub async fn start(
        spec: FlowSpec,
        broker: Arc<dyn Broker>,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let name = Arc::clone(&spec.name);
        let port = |source| StartError::Port { flow: Arc::clone(&name), source };
        if !spec.order_by.is_none() && !broker.capabilities().lanes {
            return Err(StartError::Order { flow: name, kind: broker.capabilities().kind });
        }
        let guards = guards::Guards::new(&spec)
            .map_err(|source| StartError::Guard { flow: Arc::clone(&name), source })?;
        let subscription = Subscription {
            flow: Arc::clone(&spec.name),
            source: Arc::clone(&spec.source),
            headers: spec.headers.clone(),
        };
        let topology = broker.plan(&subscription).await.map_err(port)?;
        broker.apply(&topology).await.map_err(port)?;
        let mut source = broker.subscribe(&subscription).await.map_err(port)?;
        let losses = source.revoked();

        let (aside, arriving_aside) = mpsc::unbounded_channel();
        let (settlements, arriving) = mpsc::unbounded_channel();
        let (after, to_tell) = mpsc::channel(telling::WAITING);
        // Nobody's numbers are those of another: ids are made of them.
        let mut seeds = SplitMix64::new(seed());
        let Capabilities { partitions: by_partition, records_in_settle, .. } = broker.capabilities();
        let concurrency = spec.concurrency.max(1);
        let marks = Arc::new(Marks { ledger: Arc::clone(&ledger), handler: Arc::clone(&spec.name) });
        let shared = Arc::new(Shared {
            metrics: metrics::FlowMetrics::new(&spec.name),
            alarms: alarms::Alarms::new(&spec.name),
            desk: desk::Desk::new(guards, gates::Gates::new(by_partition), spec.long_hold),
            revoked: revoking::Lost::default(),
            heads: Arc::new(heads::Heads::new(&spec.name, by_partition && records_in_settle)),
            lanes: (!spec.order_by.is_none()).then(lanes::Lanes::default),
            controls: controls::Controls::default(),
            doubts: doubt::Doubts::default(),
            after: spec.hooks.after.is_some().then_some(after),
            spec,
            broker,
            ledger,
            clock,
            trouble: trouble::Trouble::default(),
            settled_all: CancellationToken::new(),
            aside,
            settlements,
            in_hand: shared::InHand::default(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            force: CancellationToken::new(),
            marks,
            stopping: AtomicBool::new(false),
            seed: AtomicU64::new(seeds.next_u64()),
        });
        // A pause that was ordered while nobody ran is in force from the start.
        controls::look(&shared).await.map_err(port)?;
        let nothing_more = CancellationToken::new();
        let mut workers = JoinSet::new();
        for _ in 0..concurrency {
            workers.spawn(worker::work(Arc::clone(&shared), SplitMix64::new(seeds.next_u64())));
        }
        Ok(Self {
            workers,
            intake: tokio::spawn(intake::take_in(Arc::clone(&shared), source)),
            aside: tokio::spawn(aside::wait_aside(Arc::clone(&shared), arriving_aside)),
            telling: tokio::spawn(telling::tell_all(Arc::clone(&shared), to_tell)),
            controls: tokio::spawn(controls::watch(Arc::clone(&shared))),
            revoking: tokio::spawn(revoking::give_back(Arc::clone(&shared), losses)),
            settler: tokio::spawn(settler::settle(Arc::clone(&shared), arriving, nothing_more.clone())),
            nothing_more,
            view: FlowView { shared },
        })
    }

    /// The flow's name.
    pub fn name(&self) -> &str {
        &self.view.shared.spec.name
    }

    /// A look at the flow from elsewhere, for as long as it runs.
    pub fn view(&self) -> FlowView {
        self.view.clone()
    }

    /// A handle by which a stop can be hurried while [`stop`](Self::stop) waits.
    pub fn force(&self) -> Force {
        Force { abort: self.view.shared.abort.clone(), force: self.view.shared.force.clone() }
    }

    /// Stops: intake ends, running attempts get the flow's deadline, what has finished is settled, and everything
    /// else goes back uncharged. What a broker that is away does not settle within that time is delivered again.
    pub async fn stop(mut self) {
        let shared = Arc::clone(&self.view.shared);
        shared.begin_stop();
        let _ = (&mut self.intake).await;
        let until = tokio::time::Instant::now() + shared.spec.shutdown;
        let deadline = tokio::time::sleep_until(until);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                ended = self.workers.join_next() => {
                    if ended.is_none() {
                        break;
                    }
                }
                () = &mut deadline, if !shared.abort.is_cancelled() => shared.abort.cancel(),
            }
        }
        let _ = (&mut self.aside).await;
        let _ = (&mut self.controls).await;
        let _ = (&mut self.revoking).await;
        for job in shared.desk.clear() {
            shared.put_down(job, std::time::Duration::ZERO);
        }
        self.nothing_more.cancel();
        // No call is in flight any more, so what the handler keeps running can end while the rest is settled.
        tokio::join!(shared.end_handler(until), async {
            let until = until.max(tokio::time::Instant::now() + LEAST_PATIENCE);
            if tokio::time::timeout_at(until, &mut self.settler).await.is_err() {
                shared.force.cancel();
                let _ = (&mut self.settler).await;
            }
        });
        shared.settled_all.cancel();
        shared.metrics.in_flight(shared.desk.running());
        tokio::select! {
            () = shared.force.cancelled() => {}
            () = shared.broker.flush(shared.spec.shutdown) => {}
        }
        let _ = (&mut self.telling).await;
    }
}

/// A look at a running flow from elsewhere.
#[derive(Debug, Clone)]
pub struct FlowView {
    shared: Arc<Shared>,
}

impl FlowView {
    /// The flow's specification.
    pub fn spec(&self) -> &FlowSpec {
        &self.shared.spec
    }

    /// Messages in hand.
    pub fn in_hand(&self) -> usize {
        self.shared.in_hand.messages()
    }

    /// The breaker's state; nothing when it is turned off.
    pub fn breaker(&self) -> Option<BreakerState> {
        self.shared.desk.breaker(self.shared.clock.monotonic())
    }

    /// Whether the flow, or one of its partitions, stands still for one message.
    pub fn is_blocked(&self) -> bool {
        self.shared.desk.is_gated()
    }

    /// What a person should know, for as long as it lasts.
    pub fn alarms(&self) -> Vec<crate::Alarm> {
        self.shared.alarms.all()
    }

    /// What holds the flow, in a few words for people; nothing when nothing does.
    pub fn holding(&self) -> Option<String> {
        match self.breaker() {
            Some(BreakerState::Open) => Some("breaker open".to_owned()),
            Some(BreakerState::HalfOpen) => Some("breaker half-open".to_owned()),
            _ => self.trouble().map(|why| format!("broker away: {why}")),
        }
    }

    /// Whether a person has paused the flow, and whether its retries alone.
    pub fn paused(&self) -> (bool, bool) {
        let pauses = self.shared.desk.pauses();
        (pauses.all, pauses.retries)
    }

    /// Lanes with a message in hand; nothing in a flow that keeps no order.
    pub fn lanes_in_hand(&self) -> usize {
        self.shared.lanes.as_ref().map_or(0, |lanes| lanes.book().len())
    }

    /// What keeps the flow from its broker, when something does. While nothing can be settled, no call begins.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.shared.trouble.why()
    }

    /// Whether the flow has been told to stop.
    pub fn is_stopping(&self) -> bool {
        self.shared.stop.is_cancelled()
    }
}

/// A running flow shows what its view shows.
impl std::ops::Deref for Flow {
    type Target = FlowView;

    fn deref(&self) -> &FlowView {
        &self.view
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.view.shared.begin_stop();
        self.view.shared.abort.cancel();
        self.view.shared.force.cancel();
        self.view.shared.settled_all.cancel();
        self.nothing_more.cancel();
    }
}

/// Hurries a stop: running attempts are given up, and a broker that is away is not waited for.
#[derive(Debug, Clone)]
pub struct Force {
    abort: CancellationToken,
    force: CancellationToken,
}

impl Force {
    /// Does it.
    pub fn now(&self) {
        self.abort.cancel();
        self.force.cancel();
    }
}
