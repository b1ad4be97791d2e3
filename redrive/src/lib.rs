//! The library that people depend on.
//!
//! It speaks the words of [`redrive_core`], which is re-exported here, and adds what a program needs around them:
//! the configuration file ([`config`]), the one-line addresses of sources and handlers ([`address`]) and the codes
//! of every error that a person can meet ([`codes`]). A flow around an `async fn` is a [`Flow`].
//!
//! Two examples run to an end by themselves: `order_projector` (optimistic locking, contention retried in place) and
//! `payment_capture` (a payment service that answers too late, and the idempotency key that saves the customer).

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

pub mod address;
pub mod codes;
pub mod config;
mod error;
mod flow;
mod inflight;
mod instance;
pub mod setup;
pub mod signals;

pub use error::{Error, Result};
pub use flow::{Flow, Ready};
pub use instance::{Instance, InstanceOptions};
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
pub use redrive_server as server;
pub use redrive_sqlite as sqlite;
