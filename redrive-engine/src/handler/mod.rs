//! What is done with a message: a Rust function, an HTTP endpoint, a command.

pub mod command;
mod forward;
mod function;
pub mod http;
pub mod jsonl;
mod process;
mod tail;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::headers::Trail;
use redrive_core::{Failure, Message, Text, Timestamp};

pub use self::command::CommandHandler;
pub use self::forward::{Forward, LONGEST as LONGEST_FORWARD};
pub(crate) use self::function::panic_text;
pub use self::function::{FunctionHandler, catch};
pub use self::jsonl::JsonlHandler;
pub use self::process::{CommandLine, CommandLineError};
use crate::port::{Ledger, PortError};

/// The error type of a handler that could not even be called, which a default rule takes for the endpoint's fault.
const ENDPOINT_MISCONFIGURED: &str = "EndpointMisconfigured";

/// What a handler is told beside the message.
#[derive(Debug, Clone)]
pub struct Context {
    /// The flow.
    pub flow: Arc<str>,
    /// The number of this attempt, from 1, over all layers.
    pub attempt: u32,
    /// Whether a transient failure of this attempt would be retried.
    pub will_retry: bool,
    /// Downstream calls left in the message's budget; nothing means without limit.
    pub calls_left: Option<u32>,
    /// When this attempt is given up.
    pub deadline: Timestamp,
    /// How long that is.
    pub timeout: Duration,
    /// The key by which a downstream system can tell a repetition: the same across attempts and replays.
    pub idempotency_key: Text,
    /// The source's address without credentials.
    pub source: Arc<str>,
    /// The message type, found where the flow says; nothing leaves it to the message's own headers.
    pub message_type: Option<Text>,
    /// When the message failed first.
    pub first_failure_at: Option<Timestamp>,
    /// Ids of diverted predecessors in the message's lane.
    pub diverted: Vec<String>,
    /// The replay that sent it, when one did.
    pub replay: Option<Arc<str>>,
    pub(crate) marks: Option<Arc<Marks>>,
}

/// Where `once` keeps its marks.
#[derive(Debug)]
pub(crate) struct Marks {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) handler: Arc<str>,
}

impl Context {
    /// A context for calling a handler outside a flow, as tests do.
    pub fn detached(flow: &str, attempt: u32, timeout: Duration, now: Timestamp) -> Self {
        Self {
            flow: flow.into(),
            attempt,
            will_retry: true,
            calls_left: None,
            deadline: now + timeout,
            timeout,
            idempotency_key: Text::default(),
            source: "queue:detached".into(),
            message_type: None,
            first_failure_at: None,
            diverted: Vec::new(),
            replay: None,
            marks: None,
        }
    }

    /// When the attempt began.
    pub fn started_at(&self) -> Timestamp {
        let timeout = i64::try_from(self.timeout.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(self.deadline.as_millis().saturating_sub(timeout))
    }

    /// Runs a step unless it ran to its end before for this message; marks it after it succeeded, never before.
    ///
    /// The name tells the steps of one message apart: `charge` of one message and `charge` of another are two steps.
    /// A crash between the step's end and the mark runs it again: the step itself has to bear that, or be keyed by
    /// [`idempotency_key`](Self::idempotency_key) downstream. Answers with what it gave, or nothing when it did not
    /// run.
    pub async fn once<F, T, E>(&self, step_name: &str, step: F) -> Result<Option<T>, OnceError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let Some(marks) = &self.marks else { return step.await.map(Some).map_err(OnceError::Step) };
        // An id has no control characters, so no two pairs of an id and a name make one mark.
        let mark = format!("{}\n{step_name}", self.idempotency_key);
        if marks.ledger.processed(&marks.handler, &[&mark]).await?.first() == Some(&true) {
            return Ok(None);
        }
        let value = step.await.map_err(OnceError::Step)?;
        marks.ledger.mark_processed(&marks.handler, &[&mark], self.started_at()).await?;
        Ok(Some(value))
    }
}

/// Why a step that runs once did not end well.
#[derive(Debug, thiserror::Error)]
pub enum OnceError<E> {
    /// The step failed; it is not marked.
    #[error(transparent)]
    Step(E),
    /// The mark could not be read or written.
    #[error("the mark of a step that runs once is not available: {0}")]
    Marks(#[from] PortError),
}

/// What an attempt used up beside itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Downstream calls, at least 1.
    pub calls: u32,
    /// What the business entity is charged.
    pub cost: u32,
}

impl Default for Charge {
    fn default() -> Self {
        Self { calls: 1, cost: 0 }
    }
}

impl Charge {
    /// The largest charge that a handler can ask for; a larger one is held to it.
    pub const MAX: u32 = 1_000_000;

    /// A number as a handler wrote it; nothing when it is none.
    fn read(text: &str) -> Option<u32> {
        let digits = text.trim();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Only a number that is too large is left to fail.
        Some(digits.parse().map_or(Self::MAX, Self::bounded))
    }

    fn bounded(number: u64) -> u32 {
        u32::try_from(number).map_or(Self::MAX, |number| number.min(Self::MAX))
    }
}

/// How one call of a handler ended.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// Success, or what went wrong. A verdict other than `ack` counts as a failure, whatever the status.
    pub result: Result<(), Box<Failure>>,
    /// What it used up.
    pub charge: Charge,
}

impl Attempted {
    /// It worked.
    pub fn success() -> Self {
        Self { result: Ok(()), charge: Charge::default() }
    }

    /// It did not.
    pub fn failure(failure: Failure) -> Self {
        Self { result: Err(Box::new(failure)), charge: Charge::default() }
    }
}

/// What a flow does with a message in place of a call.
#[derive(Debug, Clone)]
pub enum Instead {
    /// It comes again then. That is no attempt: nothing is charged.
    Later {
        /// When.
        until: Timestamp,
        /// Why, for people.
        because: String,
    },
    /// It goes to another queue or topic of the same broker, with its own headers alone.
    SendOn {
        /// The name of the queue or topic.
        target: String,
    },
    /// It is taken for a failed attempt.
    Refuse(Box<Failure>),
}

/// What is done with a message.
///
/// An implementation needs no timeout of its own: the engine drops the future when the attempt's time is over. It
/// may panic; the engine catches it.
#[async_trait]
pub trait Handler: std::fmt::Debug + Send + Sync + 'static {
    /// Handles one message.
    async fn call(&self, message: &Message, context: Context) -> Attempted;

    /// What the flow does in place of a call; nothing, as usual, when it calls.
    fn instead(&self, message: &Message, trail: &Trail, now: Timestamp) -> Option<Instead> {
        let _ = (message, trail, now);
        None
    }

    /// The handler's version, for the ledger and the headers.
    fn version(&self) -> Option<Arc<str>> {
        None
    }

    /// How much in the handler's answers was not understood and passed over since the start: unknown verdicts,
    /// charges that are no number, lines that answer nothing.
    fn ignored(&self) -> u64 {
        0
    }

    /// Ends what the handler keeps running between calls, and waits for it, at most this long.
    ///
    /// Called once, when no call is in flight any more.
    async fn shutdown(&self, _grace: Duration) {}
}
