//! Real servers for tests.
//!
//! An adapter is only as good as its behaviour on the real thing, restarts and kills included. This crate hands a
//! test the server it asks for and makes sure that a test which could not have one does not pass in silence.

pub mod services;

pub use services::{Server, Services};
