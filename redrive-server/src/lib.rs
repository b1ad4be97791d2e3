//! The HTTP API of Redrive: one set of calls for programs, for the console and for the command line.
//!
//! Every command is one call of this API (or a few pages of one). When an instance runs, the command line reaches
//! it over the socket in the data folder; when none does, it calls the same [`router`] in its own process, over the
//! file. So there is one way to do each thing, and it is checked, limited and audited in one place.
//!
//! Three kinds of callers are told apart by how they come, never by what they say:
//! - over TCP: `Authorization: Bearer` with the token, a `Host` that is this listener's, no foreign `Origin`;
//! - over `cli.sock`, which lies in a folder that only its owner can enter: no token;
//! - in the same process: no token.

mod access;
mod api;
mod body;
mod client;
pub mod codes;
mod figures;
mod filter;
mod flows;
mod listener;
mod metrics;
mod openapi;
mod params;
mod problem;
mod publish;
mod routes;
mod serve;
mod socket;
mod token;

pub use access::Access;
pub use api::{Api, Limits, router};
/// The requests and answers of [`Client::call`].
pub use axum::http;
pub use client::{Client, ClientError};
pub use figures::{Figures, Recorder, install, keep_figures};
pub use flows::{
    BreakerShown, FlowControlled, FlowShown, FlowState, FlowTopology, Flows, NoFlows, QueueShown,
    RebuiltFlow, SourceReplayed,
};
pub use listener::{ListenError, ListenOptions, Listener, Running};
pub use publish::HEADER_PREFIX;
pub use token::{Token, TokenError};
