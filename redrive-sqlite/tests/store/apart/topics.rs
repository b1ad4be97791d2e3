//! Topics of a broker apart, as far as bodies are read there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use redrive_core::Message;
use redrive_engine::bring_bodies;
use redrive_engine::port::{
    Broker, Capabilities, Ledger, NewMessage, Pointer, PortError, Published, QueueInfo, Settled, Settlement,
    Source, SourceRef, Subscription, Topology,
};
use redrive_sqlite::Store;

use super::world::FLOW;

#[derive(Debug, Default)]
struct Inner {
    records: Mutex<HashMap<String, Message>>,
    away: AtomicBool,
}

/// Records by their places.
pub(super) struct Topics(Arc<Inner>);

impl Topics {
    /// Topics that the store fetches bodies from, for as long as they are there.
    pub(super) fn of(store: &Store) -> Self {
        let topics = Self(Arc::default());
        topics.serve(store);
        topics
    }

    pub(super) fn serve(&self, store: &Store) {
        let broker: Arc<dyn Broker> = Arc::clone(&self.0) as Arc<dyn Broker>;
        store.fetches_from(FLOW, Arc::downgrade(&broker));
    }

    pub(super) fn put(&self, place: &SourceRef, message: &Message) {
        self.0.records.lock().unwrap().insert(place.to_string(), message.clone());
    }

    pub(super) fn lose(&self, place: &SourceRef) {
        self.0.records.lock().unwrap().remove(&place.to_string());
    }

    pub(super) fn away(&self, away: bool) {
        self.0.away.store(away, Ordering::Relaxed);
    }

    pub(super) async fn bring(&self, store: &Store, pointers: &[Pointer]) {
        bring_bodies(store, &*self.0, pointers).await.unwrap();
    }
}

fn not_asked<T>() -> Result<T, PortError> {
    Err(PortError::Unavailable("only bodies are asked for".to_owned()))
}

#[async_trait]
impl Broker for Inner {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "kafka",
            exact_delay: true,
            null_body: true,
            ordered: true,
            records_in_settle: false,
            waiting_is_reachable: false,
            unique_ids: false,
            lanes: false,
            partitions: true,
        }
    }

    async fn plan(&self, _subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        not_asked()
    }

    async fn apply(&self, _topology: &[Topology]) -> Result<(), PortError> {
        not_asked()
    }

    async fn subscribe(&self, _subscription: &Subscription) -> Result<Box<dyn Source>, PortError> {
        not_asked()
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        batch.iter().map(|_| not_asked()).collect()
    }

    async fn publish(&self, _target: &str, _messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        not_asked()
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        not_asked()
    }

    async fn fetch(&self, place: &SourceRef) -> Result<Option<Message>, PortError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(PortError::Unavailable("the topics do not answer".to_owned()));
        }
        Ok(self.records.lock().unwrap().get(&place.to_string()).cloned())
    }
}
