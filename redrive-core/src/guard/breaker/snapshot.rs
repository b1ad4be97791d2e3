//! What a breaker shows of itself.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The three states of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// Nothing passes.
    Open,
    /// A few probes pass.
    HalfOpen,
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        })
    }
}

/// Why a breaker last opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TripCause {
    /// Too many failures in a row.
    Consecutive,
    /// Too large a share of the window's calls failed.
    FailureShare,
    /// Too large a share of the window's calls was slow.
    SlowShare,
    /// The probes failed or were slow.
    Probes,
    /// A person opened it.
    Forced,
}

/// What a breaker shows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreakerSnapshot {
    /// The state.
    pub state: BreakerState,
    /// Whether a person holds it in that state.
    pub forced: bool,
    /// The window's calls, message-caused failures left out.
    pub calls: u64,
    /// Those that failed.
    pub failures: u64,
    /// Those that were slow.
    pub slow: u64,
    /// The endpoint's failures since its last success.
    pub failures_in_a_row: u32,
    /// How often it has opened.
    pub trips: u64,
    /// Why it opened last.
    pub cause: Option<TripCause>,
}
