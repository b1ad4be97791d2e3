//! Requests to a real server that delays, resets, refuses, and answers by halves.
#![cfg(all(feature = "reqwest-middleware", feature = "tower"))]

mod clients;
mod faults;
mod keys;
mod layer;
mod replay;
mod server;
