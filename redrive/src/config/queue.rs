//! The queue of RabbitMQ that a flow reads, as a person writes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The queue of RabbitMQ that a flow reads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSpec {
    /// What it is, and what the flow's own queues are made as. Default quorum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<QueueKind>,
    /// Whether it is made when it is missing; else it is only looked at. Default true, with `settle: nack` false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owned: Option<bool>,
    /// Whether one consumer at a time reads it, and others stand by. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_active: Option<bool>,
    /// How many messages the broker hands out before it waits for an answer. Default four times `concurrency`, at least
    /// 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub prefetch: Option<u16>,
}

/// What a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// Replicated and durable.
    Quorum,
    /// On one node; durable.
    Classic,
    /// A stream: messages stay when they are handled.
    Stream,
}
