//! Flows at run time, and the ports through which they reach a broker and a ledger.
//!
//! The engine decides nothing (that is `redrive-core`) and stores nothing (that is an adapter). It takes deliveries
//! in, calls the handler, hands the decision on, and settles in batches.

pub mod adapter;
mod alarm;
pub mod apart;
mod bodies;
pub mod fail;
mod flow;
pub mod handler;
pub mod hook;
pub mod journal;
mod mint;
mod no_ledger;
pub mod port;
mod replay;
mod replay_figures;
mod upkeep;

pub use alarm::Alarm;
pub use apart::{Apart, ApartOptions};
pub use bodies::bring_bodies;
pub use flow::{Flow, FlowSpec, FlowView, Force, StartError};
pub use hook::{Diverted, Hook, Hooks};
pub use journal::Journal;
pub use no_ledger::NoLedger;
pub use replay::ReplayDriver;
pub use upkeep::Upkeep;
