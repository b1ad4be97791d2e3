//! RabbitMQ under Redrive.
//!
//! One [`RabbitFlow`] says what a flow is at a RabbitMQ server: which queue it reads, where its messages wait, where its
//! dead letters and parked messages lie. [`RabbitBroker`] is the engine's port to it. Delayed retries need no plug-in: they
//! wait in queues of constant time to live.
//!
//! The original is acknowledged after the broker has confirmed its copy, and never before.
//!
//! ```
//! use redrive_rabbitmq::{Login, RabbitBroker, RabbitFlow};
//!
//! let flow = RabbitFlow::new("orders", Login::new("localhost", 5672), "orders");
//! let broker = RabbitBroker::new(flow)?;
//! assert!(broker.permissions()[0].starts_with("rabbitmqctl set_permissions -p '/' 'guest'"));
//! # Ok::<(), redrive_engine::port::PortError>(())
//! ```

mod amqp;
mod blocked;
mod broker;
mod circles;
mod copy;
mod deaths;
mod delay;
mod likeness;
mod link;
mod look;
mod mending;
mod metrics;
mod names;
mod not_adopted;
mod options;
mod outbox;
mod positions;
mod reader;
mod resolved;
mod settle;
mod shelves;
mod stream;
mod streams;
mod stuck;
mod things;
mod tls;
mod topology;
mod trouble;
mod version;
mod watch;
mod wire;

pub use broker::RabbitBroker;
pub use circles::refuse_circles;
pub use options::{
    Adopt, DeadLetter, DeadLetterFormat, DelayMode, Login, Parking, QueueKind, RabbitFlow, SettleMode,
    Suffixes, Tls,
};
pub use positions::{Positions, positions_in};
