//! The producers of what is written without a transaction: one for all, and one for dead letters and parked messages where
//! those have options of their own.

use std::sync::Arc;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;

use crate::client;
use crate::delay::names;
use crate::options::KafkaFlow;
use crate::settle::{Home, Producer};

/// Producers that are made when they are needed, and anew when they have failed.
pub(crate) struct Producers {
    flow: KafkaFlow,
    all: Option<Arc<Producer>>,
    shelves: Option<Arc<Producer>>,
}

/// The producers in force.
pub(crate) struct InForce {
    all: Arc<Producer>,
    /// The topics that have one of their own, and it.
    shelves: Option<([String; 2], Arc<Producer>)>,
}

impl InForce {
    /// Who writes to a topic.
    pub(crate) fn of(&self, topic: &str) -> &Producer {
        match &self.shelves {
            Some((topics, producer)) if topics.iter().any(|shelf| shelf == topic) => producer,
            _ => &self.all,
        }
    }
}

impl Producers {
    pub(crate) fn new(flow: &KafkaFlow) -> Self {
        Self { flow: flow.clone(), all: None, shelves: None }
    }

    /// Those that are in force now.
    pub(crate) fn get(&mut self) -> Result<InForce, KafkaError> {
        let all = kept(&mut self.all, || client::producer(&self.flow, None))?;
        let shelves = if client::has_own_producer(&self.flow) {
            let topics = [self.flow.dead_letter.topic.clone(), names::parking(&self.flow).to_owned()];
            Some((topics, kept(&mut self.shelves, || client::shelf_producer(&self.flow))?))
        } else {
            None
        };
        Ok(InForce { all, shelves })
    }
}

fn kept(
    known: &mut Option<Arc<Producer>>,
    config: impl FnOnce() -> rdkafka::ClientConfig,
) -> Result<Arc<Producer>, KafkaError> {
    match known.as_ref().filter(|producer| producer.client().fatal_error().is_none()) {
        Some(producer) => Ok(Arc::clone(producer)),
        None => {
            let producer = Producer::from_config_and_context(&config(), Home)?;
            Ok(Arc::clone(known.insert(Arc::new(producer))))
        }
    }
}
