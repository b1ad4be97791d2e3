//! The library that people depend on.
//!
//! It speaks the words of [`redrive_core`], which is re-exported here, and adds what a program needs around them:
//! the configuration file ([`config`]), the one-line addresses of sources and handlers ([`address`]) and the codes
//! of every error that a person can meet ([`codes`]). A flow around an `async fn` is a [`Flow`].
//!
//! With the feature `retry`, [`retry`] is the crate `redrive-retry`: what a handler calls is retried within the budget and
//! the deadline of its message. `retry-tower`, `retry-http`, `retry-hyper`, `retry-reqwest`, `retry-reqwest-middleware`,
//! `retry-idempotency` and `retry-telemetry` add its parts.
//!
//! Two examples run to an end by themselves: `order_projector` (optimistic locking, contention retried in place) and
//! `payment_capture` (a payment service that answers too late, and the idempotency key that saves the customer). A third,
//! `payment_drill`, needs a RabbitMQ: five things go wrong, and no payment is lost or taken twice.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

pub mod address;
pub mod brokers;
pub mod codes;
pub mod config;
mod error;
mod flow;
mod inflight;
mod instance;
mod live;
pub mod setup;
pub mod signals;
pub mod topology;

pub use error::{Error, Result};
pub use flow::{Flow, Ready};
pub use instance::{Instance, InstanceOptions, Started};
pub use redrive_core as core;
pub use redrive_core::Message;
pub use redrive_core::{
    Action, Because, Class, Decision, Exit, FactSource, Failure, Handling, History, Policy, PolicySpec,
    Reason, Schedule, Timestamp, Verdict, decide, explain,
};
pub use redrive_engine as engine;
pub use redrive_engine::handler::Context;
pub use redrive_engine::hook::Diverted;
pub use redrive_engine::port::NewMessage;
#[cfg(feature = "kafka")]
pub use redrive_kafka as kafka;
#[cfg(feature = "rabbitmq")]
pub use redrive_rabbitmq as rabbitmq;
#[cfg(feature = "retry")]
pub use redrive_retry as retry;
pub use redrive_server as server;
pub use redrive_sqlite as sqlite;
