//! A broker that keeps what is published.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use redrive_engine::port::{
    Broker, Capabilities, Depth, NewMessage, PortError, Published, QueueInfo, Refusal, Settlement, Source,
    Subscription, Topology,
};

#[derive(Debug)]
pub(crate) struct FakeBroker {
    pub(crate) queued: Mutex<Vec<(String, NewMessage)>>,
    pub(crate) room: AtomicUsize,
}

impl Default for FakeBroker {
    fn default() -> Self {
        Self { queued: Mutex::default(), room: AtomicUsize::new(usize::MAX) }
    }
}

#[async_trait]
impl Broker for FakeBroker {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "fake",
            exact_delay: true,
            null_body: true,
            ordered: true,
            records_in_settle: true,
            waiting_is_reachable: true,
            unique_ids: true,
            lanes: false,
        }
    }

    async fn plan(&self, _: &Subscription) -> Result<Vec<Topology>, PortError> {
        Ok(Vec::new())
    }

    async fn apply(&self, _: &[Topology]) -> Result<(), PortError> {
        Ok(())
    }

    async fn subscribe(&self, _: &Subscription) -> Result<Box<dyn Source>, PortError> {
        Err(PortError::Unavailable("nothing is read here".into()))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<(), PortError>> {
        batch.iter().map(|_| Ok(())).collect()
    }

    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        if target == "away" {
            return Err(PortError::Unavailable("the disk is full".into()));
        }
        let mut queued = self.queued.lock().unwrap();
        let room = self.room.load(Ordering::Relaxed);
        Ok(messages
            .into_iter()
            .map(|message| {
                let id = message.id.clone().unwrap_or_else(|| format!("minted-{}", queued.len()));
                if queued.len() >= room {
                    return Published::Refused(Refusal::Limit(format!("the queue has {room} messages")));
                }
                if queued.iter().any(|(_, other)| other.id.as_ref() == Some(&id)) {
                    return Published::Refused(Refusal::Duplicate(id));
                }
                queued.push((target.to_owned(), message));
                Published::Accepted(id)
            })
            .collect())
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        let ready = self.queued.lock().unwrap().len() as u64;
        let depth = Depth { ready, waiting: 0 };
        Ok(vec![QueueInfo { name: "orders".into(), depth, limit: None, dedup_ms: None }])
    }
}
