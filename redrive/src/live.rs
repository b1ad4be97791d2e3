//! What the API tells of the flows, and what it has them do.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use redrive_core::guard::BreakerState;
use redrive_engine::FlowView;
use redrive_engine::port::{Actor, PortError, Refusal, SourceRange};
use redrive_server::{
    BreakerShown, FlowShown, FlowState, FlowTopology, Flows, QueueShown, RebuiltFlow, SourceReplayed,
};

use crate::brokers::Reader;

/// What the API tells of the flows.
#[derive(Debug, Default)]
pub(crate) struct Live {
    state: Mutex<LiveState>,
}

#[derive(Debug, Default)]
struct LiveState {
    flows: Vec<LiveFlow>,
    ready: bool,
}

/// A flow that runs.
#[derive(Debug, Clone)]
struct LiveFlow {
    view: FlowView,
    to: String,
    reader: Reader,
}

impl LiveFlow {
    fn name(&self) -> &str {
        &self.view.spec().name
    }
}

impl Live {
    fn state(&self) -> std::sync::MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, view: FlowView, to: &str, reader: Reader) {
        self.state().flows.push(LiveFlow { view, to: to.to_owned(), reader });
    }

    pub(crate) fn ready(&self) {
        self.state().ready = true;
    }

    pub(crate) fn views(&self) -> Vec<FlowView> {
        self.state().flows.iter().map(|flow| flow.view.clone()).collect()
    }

    pub(crate) fn readers(&self) -> Vec<Reader> {
        self.state().flows.iter().map(|flow| flow.reader.clone()).collect()
    }

    fn all(&self) -> Vec<LiveFlow> {
        self.state().flows.clone()
    }
}

#[async_trait]
impl Flows for Live {
    fn flows(&self) -> Vec<FlowShown> {
        self.state().flows.iter().map(|flow| shown(&flow.view, &flow.to)).collect()
    }

    fn ready(&self) -> bool {
        self.state().ready
    }

    async fn with_lag(&self, mut flows: Vec<FlowShown>) -> Vec<FlowShown> {
        let mut own = None;
        for flow in self.all() {
            let queues = match (&own, flow.reader.is_own()) {
                (Some(queues), true) => Some(Clone::clone(queues)),
                _ => flow.reader.queues().await,
            };
            let Some(queues) = queues else { continue };
            if let Some(shown) = flows.iter_mut().find(|shown| shown.name == flow.name()) {
                shown.lag = Some(flow.reader.lag(&queues));
            }
            if flow.reader.is_own() {
                own = Some(queues);
            }
        }
        flows
    }

    fn obeys(&self, flow: &str) -> bool {
        let state = self.state();
        let of_flow = state.flows.iter().find(|known| known.name() == flow);
        of_flow.is_none_or(|flow| flow.reader.is_own() || flow.reader.apart.is_some())
    }

    async fn out_of_reach(&self) -> Vec<(String, PortError)> {
        let mut all = Vec::new();
        for flow in self.all().iter().filter(|flow| !flow.reader.is_own()) {
            if let Err(error) = flow.reader.broker.alone().await {
                all.push((flow.name().to_owned(), error));
            }
        }
        all
    }

    async fn queues(&self) -> Vec<QueueShown> {
        let mut all: Vec<QueueShown> = Vec::new();
        for flow in self.all().iter().filter(|flow| !flow.reader.is_own()) {
            let home = redrive_engine::port::home_of(flow.name());
            let queues = flow.reader.queues().await.unwrap_or_default();
            // The ledger's own queue stands among those of the data file.
            all.extend(
                queues
                    .into_iter()
                    .filter(|queue| queue.name != home)
                    .map(|queue| QueueShown { queue, flow: Some(flow.name().to_owned()) }),
            );
        }
        all
    }

    async fn topology(&self) -> Result<Vec<FlowTopology>, PortError> {
        let mut all = Vec::new();
        for flow in self.all() {
            let needed = flow.reader.broker.plan(&flow.reader.subscription).await?;
            let of_flow = |topology| FlowTopology { flow: flow.name().to_owned(), topology };
            all.extend(needed.into_iter().map(of_flow));
        }
        Ok(all)
    }

    async fn rebuild(&self, flow: Option<&str>, actor: &Actor) -> Result<Vec<RebuiltFlow>, PortError> {
        let mut flows = self.all();
        if let Some(name) = flow {
            flows.retain(|flow| flow.name() == name);
            if flows.is_empty() {
                return Err(Refusal::NotFound { what: "flow", name: name.to_owned() }.into());
            }
        }
        let mut rebuilt = Vec::new();
        for flow in flows {
            let Some(apart) = &flow.reader.apart else { continue };
            let done = apart.rebuild(&flow.reader.subscription, actor).await?;
            rebuilt.push(RebuiltFlow {
                flow: flow.name().to_owned(),
                looked_at: done.looked_at,
                told: done.told,
                resolved: done.resolved,
            });
        }
        if rebuilt.is_empty() {
            let why = "there is nothing to rebuild from: the data file is the only record of these queues, \
                       or the flow runs without a ledger";
            return Err(Refusal::State(why.to_owned()).into());
        }
        Ok(rebuilt)
    }

    async fn replay_source(
        &self,
        flow: &str,
        range: &SourceRange,
        actor: &Actor,
    ) -> Result<SourceReplayed, PortError> {
        let found = self.all().into_iter().find(|known| known.name() == flow);
        let found = found.ok_or_else(|| Refusal::NotFound { what: "flow", name: flow.to_owned() })?;
        let Some(apart) = &found.reader.apart else {
            let why = format!(
                "flow `{flow}` reads a source that does not keep what was read, or runs without a ledger"
            );
            return Err(Refusal::State(why).into());
        };
        let done = apart.replay_source(&found.reader.subscription, range, actor).await?;
        Ok(SourceReplayed { id: done.id, flow: flow.to_owned(), messages: done.messages })
    }
}

fn shown(view: &FlowView, to: &str) -> FlowShown {
    let spec = view.spec();
    let breaker = view.breaker().map(|state| match state {
        BreakerState::Closed => BreakerShown::Closed,
        BreakerState::HalfOpen => BreakerShown::HalfOpen,
        BreakerState::Open => BreakerShown::Open,
    });
    let holding = view.holding();
    FlowShown {
        name: spec.name.to_string(),
        state: match () {
            () if view.is_stopping() => FlowState::Stopping,
            () if view.is_blocked() => FlowState::Blocked,
            () if holding.is_some() => FlowState::Holding,
            () => FlowState::Running,
        },
        holding,
        from: Some(spec.address.to_string()),
        to: Some(to.to_owned()),
        in_hand: view.in_hand() as u64,
        lag: None,
        breaker,
        alarms: view.alarms(),
        owner: spec.owner.as_deref().map(str::to_owned),
    }
}
