//! What a person should know about a flow.

use std::borrow::Cow;

use redrive_core::Timestamp;
use serde::{Deserialize, Serialize};

/// Something about a flow that a person should know, for as long as it lasts.
///
/// ```
/// use redrive_core::Timestamp;
/// use redrive_engine::Alarm;
///
/// let since = Timestamp::from_millis(1_782_896_400_000);
/// let alarm = Alarm::new("breaker_open", since, "the handler fails; messages are held, and none is charged");
/// assert_eq!(
///     serde_json::to_value(&alarm)?,
///     serde_json::json!({
///         "name": "breaker_open",
///         "since": "2026-07-01T09:00:00Z",
///         "text": "the handler fails; messages are held, and none is charged",
///     })
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alarm {
    /// Its short name, which is also the label of the gauge `redrive_alarm`; one of a few.
    pub name: Cow<'static, str>,
    /// Since when.
    pub since: Timestamp,
    /// What is the matter, and what becomes of the messages meanwhile.
    pub text: String,
}

impl Alarm {
    /// An alarm.
    pub fn new(name: &'static str, since: Timestamp, text: impl Into<String>) -> Self {
        Self { name: Cow::Borrowed(name), since, text: text.into() }
    }
}
