//! Where a scenario plays: an open store, a handler that does as it is told, and words for what to do and to expect.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::{Headers, Policy, PolicySpec};
use redrive_engine::port::{
    Actor, Deed, DeedReport, Depth, Entry, EntryId, EntryState, Filter, NewMessage, NewReplay, Published,
    Selection, home_of,
};
use redrive_engine::{Flow, FlowSpec, StartError};
use serde_json::Value;

use super::{Fixture, Ports, eventually};
use crate::handler::{Call, Scripted};

/// The queue and the flow of every scenario.
pub(super) const FLOW: &str = "orders";

/// Where a scenario plays.
pub struct Stage<'f> {
    /// The adapter.
    pub fixture: &'f dyn Fixture,
    /// The open store.
    pub ports: Ports,
    /// The handler.
    pub handler: Arc<Scripted>,
    /// The unit of time.
    pub tick: Duration,
}

impl<'f> Stage<'f> {
    /// An empty store and a handler that succeeds.
    pub async fn open(fixture: &'f dyn Fixture) -> Self {
        let ports = fixture.open().await;
        Self { fixture, ports, handler: Scripted::new(), tick: fixture.tick() }
    }

    /// The same store after a restart.
    pub async fn reopen(self) -> Self {
        let Self { fixture, ports, handler, tick } = self;
        let ports = fixture.reopen(ports).await;
        Self { fixture, ports, handler, tick }
    }

    /// So many ticks, as text for a policy.
    pub fn ticks(&self, n: u32) -> String {
        format!("{}ms", (self.tick * n).as_millis())
    }

    /// A policy, written as in a configuration file.
    pub fn policy(&self, written: Value) -> Arc<Policy> {
        let spec: PolicySpec = serde_json::from_value(written).expect("a policy");
        Arc::new(spec.build().expect("a policy without errors"))
    }

    /// A flow with this policy and no breaker.
    pub fn flow(&self, policy: Value) -> FlowSpec {
        let mut spec = FlowSpec::new(FLOW, &self.address(FLOW), Arc::clone(&self.handler) as _);
        spec.policy = self.policy(policy);
        spec.breaker = None;
        spec.timeout = self.tick * 100;
        spec.shutdown = self.tick * 200;
        spec
    }

    /// Starts a flow.
    pub async fn start(&self, spec: FlowSpec) -> Flow {
        self.try_start(spec).await.expect("the flow starts")
    }

    /// Starts a flow, if the broker lets it in.
    pub async fn try_start(&self, spec: FlowSpec) -> Result<Flow, StartError> {
        let Ports { ledger, clock, .. } = self.ports.clone();
        let broker = self.fixture.broker_for(&self.ports, &spec);
        Flow::start(spec, broker, ledger, clock).await
    }

    /// Starts a flow with this policy.
    pub async fn run(&self, policy: Value) -> Flow {
        self.start(self.flow(policy)).await
    }

    /// The address of a queue or topic.
    pub fn address(&self, name: &str) -> String {
        self.fixture.address(name)
    }

    /// Headers without those that the adapter itself carries.
    pub fn brought(&self, headers: &Headers) -> Headers {
        headers.iter().filter(|header| !self.fixture.carries(header.name.as_str())).cloned().collect()
    }

    /// Publishes messages to the flow's source, all of which have to be taken.
    pub async fn publish_batch(&self, messages: Vec<NewMessage>) {
        for published in self.try_publish(messages).await {
            assert!(matches!(published, Published::Accepted(_)), "not taken: {published:?}");
        }
    }

    /// Publishes messages to the flow's source.
    pub async fn try_publish(&self, messages: Vec<NewMessage>) -> Vec<Published> {
        self.ports.broker.publish(&self.address(FLOW), messages).await.expect("published")
    }

    /// Publishes a message with this id.
    pub async fn publish(&self, id: &str) {
        self.publish_message(named(id)).await;
    }

    /// Publishes messages with these ids.
    pub async fn publish_all(&self, ids: &[String]) {
        for chunk in ids.chunks(500) {
            self.publish_batch(chunk.iter().map(|id| named(id)).collect()).await;
        }
    }

    /// Publishes a message; it has to be taken.
    pub async fn publish_message(&self, message: NewMessage) -> String {
        match self.try_publish(vec![message]).await.remove(0) {
            Published::Accepted(id) => id,
            Published::Refused(refusal) => panic!("not taken: {refusal}"),
        }
    }

    /// Waits until the handler was called so often with this message.
    pub async fn called(&self, id: &str, times: usize) -> Vec<Call> {
        eventually(self.fixture, &format!("{times} calls with {id}"), || async {
            let calls = self.handler.calls_of(id);
            if calls.len() >= times { Ok(calls) } else { Err(format!("{} calls", calls.len())) }
        })
        .await
    }

    /// Waits until the message's entry stands in this state.
    pub async fn stands(&self, id: &str, state: EntryState) -> Entry {
        eventually(self.fixture, &format!("{id} to be {state}"), || async {
            match self.ports.ledger.entry(id).await {
                Ok(Some(entry)) if entry.state == state => Ok(entry),
                Ok(Some(entry)) => Err(format!("{} because {}", entry.state, entry.because)),
                Ok(None) => Err("no entry".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    /// The ids of all entries that fit, the one that failed last first.
    pub async fn found(&self, filter: &Filter) -> Vec<String> {
        let page = redrive_engine::port::Page::default();
        let found = self.ports.ledger.search(filter, &page).await.expect("a search");
        found.entries.into_iter().map(|entry| entry.message.id).collect()
    }

    /// How much lies in a queue; nothing where there is none.
    pub async fn depth(&self, name: &str) -> Depth {
        self.fixture.depth(&self.ports, &self.address(name)).await
    }

    /// Waits until nothing is ready, in hand or waiting.
    pub async fn drained(&self) {
        eventually(self.fixture, "an empty queue", || async {
            // With a ledger apart there are two queues that a flow reads.
            let home = self.fixture.depth(&self.ports, &home_of(FLOW)).await;
            let depth = self.depth(FLOW).await;
            let left = depth.ready + depth.waiting + home.ready + home.waiting;
            if left == 0 { Ok(()) } else { Err(format!("{depth:?}, {home:?} in the ledger's queue")) }
        })
        .await;
    }

    /// Lets so many ticks go by.
    pub async fn pass(&self, ticks: u32) {
        self.fixture.pass(self.tick * ticks).await;
    }

    /// Does something to one message.
    pub async fn act(&self, deed: Deed, id: &str) -> DeedReport {
        let selection = Selection::Ids(vec![id.to_owned()]);
        self.ports.ledger.act(&deed, &selection, &operator(), self.now()).await.expect("a deed")
    }

    /// Does something to one message that has to be possible.
    pub async fn done(&self, deed: Deed, id: &str) {
        let report = self.act(deed.clone(), id).await;
        assert_eq!(report.done, 1, "{} {id}: {report:?}", deed.name());
    }

    /// Begins a replay of the entries that fit.
    pub async fn replay(&self, filter: Filter) -> EntryId {
        let id = uuid::Builder::from_unix_timestamp_millis(
            u64::try_from(self.now().as_millis()).unwrap_or(0),
            &[7; 10],
        )
        .into_uuid();
        let new = NewReplay { filter, ids: Vec::new(), rate: None, max: None, canary: None };
        self.ports.ledger.begin_replay(id, &new, &operator(), self.now()).await.expect("a replay").id
    }

    /// The wall clock.
    pub fn now(&self) -> redrive_core::Timestamp {
        use redrive_engine::port::Clock as _;
        self.ports.clock.now()
    }

    /// Nothing in the ledger contradicts itself.
    pub async fn is_sound(&self) {
        let problems = self.ports.ledger.check().await.expect("a check");
        assert!(problems.is_empty(), "{problems:?}");
    }

    /// Stops the flow, then looks whether the ledger contradicts itself.
    pub async fn ends(&self, flow: Flow) {
        flow.stop().await;
        self.is_sound().await;
    }
}

/// A message with this id and a small body.
pub(super) fn named(id: &str) -> NewMessage {
    NewMessage {
        id: Some(id.to_owned()),
        body: Some(format!("{{\"order\":\"{id}\"}}").into()),
        ..NewMessage::default()
    }
}

/// A message with headers.
pub(super) fn with_headers(id: &str, pairs: &[(&str, &str)]) -> NewMessage {
    let mut headers = Headers::new();
    for (name, value) in pairs {
        headers.push(*name, (*value).to_owned());
    }
    NewMessage { headers, ..named(id) }
}

/// Who does things in the scenarios, and why.
pub(super) fn operator() -> Actor {
    Actor { who: "ada".to_owned(), why: "the warehouse is back".to_owned() }
}

/// The entries of one state.
pub(super) fn in_state(state: EntryState) -> Filter {
    Filter { state: vec![state], ..Filter::default() }
}
