//! The guards in front of a handler, as a person writes them.

use redrive_core::duration::Period;
use redrive_core::guard::{BreakerConfig, Rate, RetryBudgetConfig, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the flow stops calling a handler that fails.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerSpec {
    /// The share of failed calls at which it opens. Default 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_share: Option<f64>,
    /// How many calls there have to be before a share says anything. Default 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_calls: Option<u32>,
    /// The calls that are looked at: those of a time such as `30s`, or so many. Default 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSpec>,
    /// How long it stays open before it probes. Default 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<Period>,
    /// How many probes decide whether the handler is back. Default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_open_probes: Option<u32>,
    /// A call that took longer than this is slow. Default: slowness does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_call: Option<Period>,
    /// The share of slow calls at which it opens. Default 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_share: Option<f64>,
    /// So many failures of the handler in a row open it, whatever the shares; 0 for never. Default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<u32>,
}

/// The calls that a breaker looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WindowSpec {
    /// The last so many calls.
    Calls(u32),
    /// The calls of the last so much time.
    Time(Period),
}

/// How many retries there may be beside first attempts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryBudgetSpec {
    /// Retries as a share of first attempts. Default 0.3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// So many are always allowed. Default 10/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Rate>,
    /// The time over which attempts are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Period>,
}

impl BreakerSpec {
    /// The settings, with the default where nothing is written.
    pub fn to_config(&self) -> BreakerConfig {
        let default = BreakerConfig::default();
        BreakerConfig {
            failure_share: self.failure_share.unwrap_or(default.failure_share),
            min_calls: self.min_calls.unwrap_or(default.min_calls),
            window: self.window.map_or(default.window, |window| match window {
                WindowSpec::Calls(calls) => Window::Count(calls),
                WindowSpec::Time(time) => Window::Time(time.0),
            }),
            open: self.open.map_or(default.open, |open| open.0),
            half_open_probes: self.half_open_probes.unwrap_or(default.half_open_probes),
            slow_call: self.slow_call.map_or(default.slow_call, |slow| Some(slow.0)),
            slow_share: self.slow_share.unwrap_or(default.slow_share),
            consecutive: self.consecutive.unwrap_or(default.consecutive),
        }
    }
}

impl RetryBudgetSpec {
    /// The settings, with the default where nothing is written.
    pub fn to_config(&self) -> RetryBudgetConfig {
        let default = RetryBudgetConfig::default();
        RetryBudgetConfig {
            share: self.share.unwrap_or(default.share),
            floor: self.floor.or(default.floor),
            window: self.window.map_or(default.window, |window| window.0),
        }
    }
}
