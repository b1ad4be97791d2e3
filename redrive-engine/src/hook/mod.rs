//! Who is told when a message is diverted: a Rust function, or an HTTP endpoint.
//!
//! A hook looks on. Whatever becomes of it (an error, a panic, no answer in time) is logged and counted, and the
//! diversion goes on as it was decided.

mod function;
mod message;
mod web;

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use redrive_core::{Class, Reason, Timestamp};
use serde::{Deserialize, Serialize};

pub use function::FunctionHook;
pub use message::shown;
pub use web::WebHook;

use crate::handler::panic_text;
use crate::port::{EntryId, EntryState, MessageShown};

/// Whether the diversion is about to be made, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// It is decided, and nothing has been written yet.
    Before,
    /// It is settled, or could not be: `problem` says so.
    After,
}

impl When {
    /// The name as it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A message that leaves its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diverted {
    /// Whether it is about to be diverted, or was.
    pub when: When,
    /// When this was told.
    pub at: Timestamp,
    /// The flow.
    pub flow: Arc<str>,
    /// The entry in the ledger.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub entry_id: EntryId,
    /// The message, without its body; masked where the flow's `redact` says. [`shown`] makes it.
    pub message: MessageShown,
    /// Attempts made.
    pub attempt: u32,
    /// The class of the failure.
    pub class: Class,
    /// Its reason.
    pub reason: Reason,
    /// What was decided: the action's name, such as `delay`, `dead_letter` or `park`.
    pub decision: Cow<'static, str>,
    /// Why, for people.
    pub because: String,
    /// Where the message goes: its entry's state.
    pub state: EntryState,
    /// The address it goes to, where that is another one.
    pub target: Option<String>,
    /// When it is tried again.
    pub due_at: Option<Timestamp>,
    /// What the handler's error says.
    pub error: String,
    /// The HTTP status of the handler's answer.
    pub http_status: Option<u16>,
    /// What went wrong while it was diverted.
    pub problem: Option<String>,
}

/// Somebody who is told when a message is diverted.
#[async_trait]
pub trait Hook: std::fmt::Debug + Send + Sync {
    /// Hears of it. An error is for the log alone.
    async fn told(&self, diverted: &Diverted) -> Result<(), String>;
}

/// The hooks of a flow.
///
/// ```
/// use std::sync::Arc;
///
/// use redrive_engine::hook::{Diverted, FunctionHook, Hooks};
///
/// let parked = FunctionHook::new(|diverted: Diverted| async move {
///     println!("{} was parked: {}", diverted.message.id, diverted.because);
///     Ok::<(), std::convert::Infallible>(())
/// });
/// let hooks = Hooks { after: Some(Arc::new(parked)), ..Hooks::default() };
/// assert!(!hooks.is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    /// Told before a diversion is made.
    pub before: Option<Arc<dyn Hook>>,
    /// Told after it was made, or could not be.
    pub after: Option<Arc<dyn Hook>>,
}

impl Hooks {
    /// The longest that a diversion waits for a hook of any kind.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// Whether there is none, so that nothing has to be put together for it.
    pub const fn is_empty(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }

    /// The hook for a moment.
    pub fn at(&self, when: When) -> Option<&Arc<dyn Hook>> {
        match when {
            When::Before => self.before.as_ref(),
            When::After => self.after.as_ref(),
        }
    }

    /// Tells the hook of that moment, when there is one. What goes wrong with it has been logged and counted
    /// (`redrive_hook_failures_total`) when this answers, and need not be looked at.
    pub async fn tell(&self, diverted: &Diverted) -> Result<(), String> {
        let Some(hook) = self.at(diverted.when) else { return Ok(()) };
        // A panic leaves nothing behind that is used again: the hook's own state is its own business.
        let told = AssertUnwindSafe(hook.told(diverted)).catch_unwind();
        let told = match tokio::time::timeout(Self::PATIENCE, told).await {
            Ok(Ok(told)) => told,
            Ok(Err(panic)) => {
                Err(format!("the hook panicked: {}", panic_text(panic.as_ref()).unwrap_or("no text")))
            }
            Err(_) => {
                Err(format!("the hook took longer than {}", redrive_core::duration::print(Self::PATIENCE)))
            }
        };
        if let Err(error) = &told {
            let hook = diverted.when.as_str();
            let flow = diverted.flow.to_string();
            metrics::counter!("redrive_hook_failures_total", "flow" => flow, "hook" => hook).increment(1);
            tracing::warn!(
                flow = &*diverted.flow,
                message_id = diverted.message.id.as_str(),
                hook,
                %error,
                "hook failed; the message is diverted all the same"
            );
        }
        told
    }
}
