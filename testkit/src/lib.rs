//! What the tests of this workspace share.
//!
//! An adapter is only as good as its behaviour on the real thing, restarts and kills included. So there is one suite
//! of scenarios that every adapter has to pass ([`contract`]), written against the engine's ports alone; ports in
//! memory ([`memory`]) with a clock that follows tokio's ([`clock`]), on which an hour runs in a moment; a handler
//! that does as it is told ([`handler`]); a broker that does not answer when it is told so ([`faulty`]); an outage in virtual time ([`outage`]); real servers ([`services`]), handed to the test that asks for one, so
//! that a test which could not have its server does not pass in silence; a real Spring Kafka ([`spring`]) and Spring AMQP
//! ([`spring_amqp`]) to exchange dead letters with; and, with the feature `kafka`, a client that makes topics and reads them.

pub mod clock;
pub mod code;
pub mod contract;
pub mod faulty;
pub mod handler;
mod java;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;
pub mod outage;
pub mod services;
pub mod spring;
pub mod spring_amqp;

pub use services::{Server, Services};
pub use spring::Spring;
pub use spring_amqp::SpringAmqp;
