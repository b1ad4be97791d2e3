//! What the tests of this workspace share.
//!
//! An adapter is only as good as its behaviour on the real thing, restarts and kills included. So there is one suite
//! of scenarios that every adapter has to pass ([`contract`]), written against the engine's ports alone; ports in
//! memory ([`memory`]) with a clock that follows tokio's ([`clock`]), on which an hour runs in a moment; a handler
//! that does as it is told ([`handler`]); an outage in virtual time ([`outage`]); and real servers ([`services`]), handed to the test that asks for one, so
//! that a test which could not have its server does not pass in silence.

pub mod clock;
pub mod code;
pub mod contract;
pub mod handler;
pub mod memory;
pub mod outage;
pub mod services;

pub use services::{Server, Services};
