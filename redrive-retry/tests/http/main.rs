//! Requests to a real server that delays, resets, refuses, and answers by halves.
#![cfg(all(feature = "reqwest-middleware", feature = "tower"))]

mod around;
mod broken_body;
mod clients;
mod extensions;
mod faults;
mod going_away;
mod guards_inside;
mod judges;
mod keeping;
mod keys;
mod last_answer;
mod layer;
mod leases;
mod redirects;
mod replay;
mod replay_wakes;
mod reqwest_settings;
mod server;
mod unsent;
