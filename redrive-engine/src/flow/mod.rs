//! A flow at run time.
//!
//! ```text
//! Source ─▶ intake ─▶ jobs ─▶ worker: gate, guards, attempt, decide ─▶ settler ─▶ Broker::settle
//!                      ▲         │
//!                      └─ aside ◀┘  waits in hand that are longer than a slot should be kept
//! ```
//! Each part is one task (the workers are as many as calls may run at once) and hands values on; nothing reaches
//! back. What is in hand is bounded by messages and by bytes.

mod aside;
mod attempt;
mod divert;
mod earlier;
mod gate;
mod guards;
mod instead;
mod intake;
mod job;
mod log;
mod metrics;
mod projection;
mod settler;
mod shared;
mod spec;
mod trouble;
mod worker;

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use redrive_core::SplitMix64;
use redrive_core::guard::{BreakerState, GuardError};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

pub use spec::FlowSpec;

use crate::port::{Broker, Clock, Ledger, PortError, Subscription};
use shared::Shared;

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
        let guards = guards::Guards::new(&spec)
            .map_err(|source| StartError::Guard { flow: Arc::clone(&name), source })?;
        let subscription = Subscription { flow: Arc::clone(&spec.name), source: Arc::clone(&spec.source) };
        let topology = broker.plan(&subscription).await.map_err(port)?;
        broker.apply(&topology).await.map_err(port)?;
        let source = broker.subscribe(&subscription).await.map_err(port)?;

        let (to_jobs, jobs) = async_channel::unbounded();
        let (aside, arriving_aside) = mpsc::unbounded_channel();
        let (settlements, arriving) = mpsc::unbounded_channel();
        let seed = std::hash::RandomState::new().build_hasher().finish();
        let concurrency = spec.concurrency.max(1);
        let shared = Arc::new(Shared {
            metrics: metrics::FlowMetrics::new(&spec.name),
            spec,
            broker,
            ledger,
            clock,
            guards,
            gate: gate::Gate::default(),
            trouble: trouble::Trouble::default(),
            jobs,
            to_jobs,
            aside,
            settlements,
            in_hand: shared::InHand::default(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            force: CancellationToken::new(),
            nothing_diverted: Arc::new([]),
            seed: AtomicU64::new(seed),
        });
        let nothing_more = CancellationToken::new();
        let mut workers = JoinSet::new();
        for number in 0..concurrency as u64 {
            workers.spawn(worker::work(
                Arc::clone(&shared),
                SplitMix64::new(seed ^ number.wrapping_mul(0x9e37_79b9)),
            ));
        }
        Ok(Self {
            workers,
            intake: tokio::spawn(intake::take_in(Arc::clone(&shared), source)),
            aside: tokio::spawn(aside::wait_aside(Arc::clone(&shared), arriving_aside)),
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
        shared.stop.cancel();
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
        while let Ok(job) = shared.jobs.try_recv() {
            shared.put_down(job, Duration::ZERO);
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
        self.shared.guards.breaker(self.shared.clock.monotonic())
    }

    /// Whether the flow stands still for one message.
    pub fn is_blocked(&self) -> bool {
        self.shared.gate.is_closed()
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
        self.view.shared.stop.cancel();
        self.view.shared.abort.cancel();
        self.view.shared.force.cancel();
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
