//! Apache Kafka under Redrive.
//!
//! [`KafkaBroker`] is the engine's port to a broker, for one flow: it reads the flow's
//! topics and its delay topics, and settles in transactions, or plainly. What a flow may choose is in [`KafkaFlow`].

mod aliases;
mod alone;
mod bodies;
mod broker;
mod circles;
mod client;
mod copy;
mod delay;
mod depth;
mod earlier;
mod facts;
mod fetch;
mod finished;
mod look;
mod metrics;
mod options;
mod outbox;
mod partition;
mod passed;
mod position;
mod producers;
mod read_back;
mod reader;
mod record;
mod replay;
mod resolved;
mod settle;
mod shelves;
mod topics;
mod topology;

pub use broker::KafkaBroker;
pub use circles::{refuse_circles, waits_in, writes_into};
pub use client::is_producers as is_producer_option;
pub use options::{
    Bodies, ClientOptions, DeadLetter, DeadLetterFormat, DelayMode, Groups, KafkaFlow, NewTopics, Parking,
    PartitionBy, Role, SettleMode, Suffixes, Window,
};
pub use topology::refuse_losing;
