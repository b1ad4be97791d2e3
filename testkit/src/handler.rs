//! A handler that does as it is told, and remembers every call.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use redrive_core::{Failure, Message, Verdict};
use redrive_engine::handler::{Attempted, Charge, Context, Handler};
use tokio::sync::Notify;

/// What a call does.
#[derive(Clone)]
pub enum Step {
    /// Succeeds.
    Succeed,
    /// Fails.
    Fail(Failure),
    /// Fails and charges more than one call.
    FailCharged(Failure, Charge),
    /// Panics with this text.
    Panic(String),
    /// Never returns.
    Hang,
    /// Takes so long, then goes on with the next step.
    Take(Duration, Box<Step>),
    /// Waits until somebody opens the door, then goes on with the next step.
    Wait(Arc<Door>, Box<Step>),
    /// Runs this.
    Run(Run),
}

/// Code that a call runs.
pub type Run = Arc<dyn Fn(Message, Context) -> BoxFuture<'static, Attempted> + Send + Sync>;

/// A door that calls wait at until a test opens it.
#[derive(Debug, Default)]
pub struct Door {
    open: std::sync::atomic::AtomicBool,
    opened: Notify,
}

impl Door {
    /// A closed door.
    pub fn closed() -> Arc<Self> {
        Arc::default()
    }

    /// Opens it for all.
    pub fn open(&self) {
        self.open.store(true, std::sync::atomic::Ordering::SeqCst);
        self.opened.notify_waiters();
    }

    async fn pass(&self) {
        loop {
            let opened = self.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            if self.open.load(std::sync::atomic::Ordering::SeqCst) {
                return;
            }
            opened.await;
        }
    }
}

impl Step {
    /// Fails with an HTTP status.
    pub fn status(status: u16) -> Self {
        Self::Fail(Failure::from_message(format!("the handler answered {status}")).with_status(status))
    }

    /// Fails with a message that no rule knows.
    pub fn unknown(message: &str) -> Self {
        Self::Fail(Failure::from_message(message))
    }

    /// Answers with a verdict.
    pub fn verdict(verdict: Verdict) -> Self {
        Self::Fail(Failure::from_message("the handler says so").with_verdict(verdict))
    }

    /// Runs code.
    pub fn run<F, R>(run: F) -> Self
    where
        F: Fn(Message, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Attempted> + Send + 'static,
    {
        Self::Run(Arc::new(move |message, context| Box::pin(run(message, context))))
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Succeed => "Succeed",
            Self::Fail(_) => "Fail",
            Self::FailCharged(..) => "FailCharged",
            Self::Panic(_) => "Panic",
            Self::Hang => "Hang",
            Self::Take(..) => "Take",
            Self::Wait(..) => "Wait",
            Self::Run(_) => "Run",
        })
    }
}

/// One call of the handler.
#[derive(Debug, Clone)]
pub struct Call {
    /// The message as the handler got it.
    pub message: Message,
    /// What it was told beside it.
    pub context: Context,
    /// Whether the call came to its end; a call that was dropped did not.
    pub ended: bool,
}

/// A handler with a script: a queue of steps for each message id, and one step for everything else.
#[derive(Debug, Default)]
pub struct Scripted {
    state: Mutex<Script>,
}

#[derive(Debug)]
struct Script {
    by_id: BTreeMap<String, VecDeque<Step>>,
    otherwise: Step,
    calls: Vec<Call>,
}

impl Default for Script {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), otherwise: Step::Succeed, calls: Vec::new() }
    }
}

impl Scripted {
    /// A handler that succeeds until it is told otherwise.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next calls with this message do these steps, one after the other; then it is handled like any other.
    pub fn on(&self, id: &str, steps: impl IntoIterator<Item = Step>) {
        self.script().by_id.entry(id.to_owned()).or_default().extend(steps);
    }

    /// What a call does that no script names.
    pub fn otherwise(&self, step: Step) {
        self.script().otherwise = step;
    }

    /// Every call so far, in the order in which they began.
    pub fn calls(&self) -> Vec<Call> {
        self.script().calls.clone()
    }

    /// The calls with one message.
    pub fn calls_of(&self, id: &str) -> Vec<Call> {
        self.script().calls.iter().filter(|call| call.message.id == *id).cloned().collect()
    }

    /// The attempt numbers with which one message came.
    pub fn attempts_of(&self, id: &str) -> Vec<u32> {
        self.calls_of(id).iter().map(|call| call.context.attempt).collect()
    }

    /// The ids of all calls, in the order in which they began.
    pub fn order(&self) -> Vec<String> {
        self.script().calls.iter().map(|call| call.message.id.to_string()).collect()
    }
}

/// What the context says, without its way to the ledger: what a test remembers must not keep a store open.
fn apart(context: &Context) -> Context {
    let mut told = Context::detached(&context.flow, context.attempt, context.timeout, context.started_at());
    told.will_retry = context.will_retry;
    told.calls_left = context.calls_left;
    told.idempotency_key = context.idempotency_key.clone();
    told.source = Arc::clone(&context.source);
    told.message_type.clone_from(&context.message_type);
    told.first_failure_at = context.first_failure_at;
    told.diverted = context.diverted.clone();
    told.replay.clone_from(&context.replay);
    told
}

#[async_trait]
impl Handler for Scripted {
    async fn call(&self, message: &Message, context: Context) -> Attempted {
        let (number, mut step) = {
            let mut script = self.script();
            let next = script.by_id.get_mut(message.id.as_str()).and_then(VecDeque::pop_front);
            let step = next.unwrap_or_else(|| script.otherwise.clone());
            script.calls.push(Call { message: message.clone(), context: apart(&context), ended: false });
            (script.calls.len() - 1, step)
        };
        let attempted = loop {
            step = match step {
                Step::Succeed => break Attempted::success(),
                Step::Fail(failure) => break Attempted::failure(failure),
                Step::FailCharged(failure, charge) => {
                    break Attempted { result: Err(Box::new(failure)), charge };
                }
                Step::Panic(text) => std::panic::panic_any(text),
                Step::Hang => std::future::pending().await,
                Step::Take(time, next) => {
                    tokio::time::sleep(time).await;
                    *next
                }
                Step::Wait(door, next) => {
                    door.pass().await;
                    *next
                }
                Step::Run(run) => break run(message.clone(), context.clone()).await,
            };
        };
        self.script().calls[number].ended = true;
        attempted
    }

    fn version(&self) -> Option<Arc<str>> {
        Some("scripted-1".into())
    }
}
