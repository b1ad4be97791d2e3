//! What a failed attempt left behind, bounded, whatever the handler threw.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::classify::{IoKind, SqlState, wrapped_handling};
use crate::{Handling, Reason, Verdict};

/// How much of one text of a failure is kept, in bytes.
pub const MAX_TEXT: usize = 16 * 1024;
/// How many links of a cause chain are kept.
pub const MAX_CHAIN: usize = 16;

/// One error of a cause chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErrorLink {
    /// The error's type: a Rust path, a Java class, whatever names it in its language.
    #[serde(rename = "type", default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// What it said.
    pub message: String,
}

/// What one failed attempt left: the error chain and every fact that a rule can match on.
///
/// Built with the constructors and the `with_` methods, which cut each text to [`MAX_TEXT`] bytes and the chain
/// to [`MAX_CHAIN`] links.
///
/// ```
/// use redrive_core::Failure;
///
/// let failure = Failure::from_message("503 from the warehouse").with_status(503);
/// assert_eq!(failure.status(), Some(503));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Failure {
    chain: Vec<ErrorLink>,
    error: Option<SharedError>,
    wrapped: Option<Handling>,
    status: Option<u16>,
    body: Option<String>,
    sqlstate: Option<SqlState>,
    io: Option<IoKind>,
    exit: Option<i32>,
    timed_out: bool,
    panicked: bool,
    retry_after: Option<Duration>,
    verdict: Option<Verdict>,
    reason: Option<Reason>,
}

/// An error that several readers share.
#[derive(Clone)]
struct SharedError(Arc<dyn Error + Send + Sync>);

impl fmt::Debug for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Failure {
    /// A failure of which only a message is known.
    pub fn from_message(message: impl Into<String>) -> Self {
        Self {
            chain: vec![ErrorLink { kind: String::new(), message: cut(message.into()) }],
            ..Self::default()
        }
    }

    /// A failure from a Rust error: its whole cause chain, the I/O kind in it and the wrapper around it.
    ///
    /// The type of the outermost error is its Rust path; of the causes only what their `Debug` form begins with
    /// can be known, and is taken.
    pub fn from_error<E>(error: E) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let boxed: Box<dyn Error + Send + Sync> = error.into();
        let shared: Arc<dyn Error + Send + Sync> = boxed.into();
        let mut failure = Self { wrapped: wrapped_handling(shared.as_ref()), ..Self::default() };
        for link in chain(shared.as_ref()) {
            if let Some(io) = link.downcast_ref::<std::io::Error>() {
                failure.io = failure.io.or(Some(IoKind::from(io.kind())));
            }
            failure.chain.push(ErrorLink { kind: type_from_debug(link), message: cut(link.to_string()) });
        }
        if let (Some(path), Some(outermost)) = (rust_path::<E>(), failure.chain.first_mut()) {
            path.clone_into(&mut outermost.kind);
        }
        failure.error = Some(SharedError(shared));
        failure
    }

    /// An attempt that did not end within its time.
    pub fn from_timeout(after: Duration) -> Self {
        let mut failure = Self::from_message(format!("no answer within {}", crate::duration::print(after)));
        failure.timed_out = true;
        failure
    }

    /// A handler that panicked, with what it said.
    pub fn from_panic(message: impl Into<String>) -> Self {
        let mut failure = Self::from_message(message);
        failure.panicked = true;
        failure
    }

    /// Names the type of the outermost error.
    #[must_use]
    pub fn with_type(mut self, kind: impl Into<String>) -> Self {
        let kind = cut(kind.into());
        match self.chain.first_mut() {
            Some(link) => link.kind = kind,
            None => self.chain.push(ErrorLink { kind, message: String::new() }),
        }
        self
    }

    /// Adds the next cause to the chain; what comes after [`MAX_CHAIN`] links is left out.
    #[must_use]
    pub fn with_cause(mut self, kind: impl Into<String>, message: impl Into<String>) -> Self {
        if self.chain.len() < MAX_CHAIN {
            self.chain.push(ErrorLink { kind: cut(kind.into()), message: cut(message.into()) });
        }
        self
    }

    /// Adds the HTTP status of the handler's answer.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds an excerpt of the answer's body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(cut(body.into()));
        self
    }

    /// Adds a database's SQLSTATE.
    #[must_use]
    pub fn with_sqlstate(mut self, state: SqlState) -> Self {
        self.sqlstate = Some(state);
        self
    }

    /// Adds the kind of an I/O error.
    #[must_use]
    pub fn with_io(mut self, kind: IoKind) -> Self {
        self.io = Some(kind);
        self
    }

    /// Adds a command's exit code.
    #[must_use]
    pub fn with_exit_code(mut self, code: i32) -> Self {
        self.exit = Some(code);
        self
    }

    /// Marks the attempt as one that did not end in time.
    #[must_use]
    pub fn with_timed_out(mut self) -> Self {
        self.timed_out = true;
        self
    }

    /// Adds the wait that the handler asked for (`Retry-After`).
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Adds the handler's own decision.
    #[must_use]
    pub fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// Adds the reason that the handler gave (`redrive-reason`); it takes the place of a rule's.
    #[must_use]
    pub fn with_reason(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The cause chain, outermost first.
    pub fn chain(&self) -> &[ErrorLink] {
        &self.chain
    }

    /// The outermost message, or an empty text.
    pub fn message(&self) -> &str {
        self.chain.first().map_or("", |link| link.message.as_str())
    }

    /// The outermost error's type, when known.
    pub fn error_type(&self) -> Option<&str> {
        self.chain.first().map(|link| link.kind.as_str()).filter(|kind| !kind.is_empty())
    }

    /// The Rust error itself, when the handler is a Rust function in this process.
    pub fn error(&self) -> Option<&(dyn Error + 'static)> {
        self.error.as_ref().map(|shared| shared.0.as_ref() as &(dyn Error + 'static))
    }

    /// The handling that a wrapper in the chain asks for.
    pub fn wrapped(&self) -> Option<Handling> {
        self.wrapped
    }

    /// The HTTP status.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The excerpt of the answer's body.
    pub fn body(&self) -> Option<&str> {
        self.body.as_deref()
    }

    /// The database's SQLSTATE.
    pub fn sqlstate(&self) -> Option<SqlState> {
        self.sqlstate
    }

    /// The kind of the I/O error.
    pub fn io(&self) -> Option<IoKind> {
        self.io
    }

    /// The command's exit code.
    pub fn exit_code(&self) -> Option<i32> {
        self.exit
    }

    /// Whether the attempt did not end in time.
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// Whether the handler panicked.
    pub fn panicked(&self) -> bool {
        self.panicked
    }

    /// The wait that the handler asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The handler's own decision.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The reason that the handler gave.
    pub fn reason(&self) -> Option<&Reason> {
        self.reason.as_ref()
    }
}

/// The error and its sources, outermost first, at most [`MAX_CHAIN`] of them.
pub(crate) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    // An error may name itself as its own source, through however many hands.
    std::iter::successors(Some(error), |link| (*link).source()).take(MAX_CHAIN)
}

/// The Rust path of an error type; nothing for texts and boxes, whose path says nothing about the error.
fn rust_path<E>() -> Option<&'static str> {
    let path = std::any::type_name::<E>();
    let says_nothing = path.contains("dyn ") || path.starts_with(['&', '(']) || path.starts_with("alloc::");
    (!says_nothing && path != "anyhow::Error").then_some(path)
}

/// The name that a derived `Debug` form begins with: the only trace of a type behind `dyn Error`.
fn type_from_debug(error: &dyn Error) -> String {
    struct Name {
        text: String,
        ended: bool,
    }
    impl fmt::Write for Name {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            for c in part.chars() {
                if self.ended || self.text.len() >= 128 || !(c.is_alphanumeric() || c == '_' || c == ':') {
                    self.ended = true;
                    // An error stops the formatting: the rest of a 10 MB Debug form is never produced.
                    return Err(fmt::Error);
                }
                self.text.push(c);
            }
            Ok(())
        }
    }
    let mut name = Name { text: String::new(), ended: false };
    let _ = fmt::write(&mut name, format_args!("{error:?}"));
    if name.text.starts_with(char::is_alphabetic) { name.text } else { String::new() }
}

/// Cuts a text to [`MAX_TEXT`] bytes at a character's border.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the warehouse is closed")]
    struct WarehouseClosed {
        #[source]
        cause: std::io::Error,
    }

    #[test]
    fn reads_chain_types_and_io_kind_of_a_rust_error() {
        let cause = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
        let failure = Failure::from_error(WarehouseClosed { cause });
        let kinds: Vec<_> = failure.chain().iter().map(|link| link.kind.as_str()).collect();
        assert_eq!(kinds, ["redrive_core::failure::tests::WarehouseClosed", "Custom"]);
        assert_eq!(failure.message(), "the warehouse is closed");
        assert_eq!(failure.io(), Some(IoKind::ConnectionRefused));
        assert!(failure.error().is_some_and(<dyn Error>::is::<WarehouseClosed>));
    }

    #[test]
    fn bounds_ten_megabytes_of_text_and_a_long_chain() {
        let mut failure = Failure::from_message("é".repeat(5_000_000)).with_body("x".repeat(10_000_000));
        for i in 0..1_000 {
            failure = failure.with_cause("Cause", format!("number {i}"));
        }
        assert!(failure.message().len() <= MAX_TEXT);
        assert!(failure.body().is_some_and(|body| body.len() == MAX_TEXT));
        assert_eq!(failure.chain().len(), MAX_CHAIN);
    }

    #[test]
    fn text_alone_has_no_type() {
        let failure = Failure::from_error("just text");
        assert_eq!(failure.error_type(), None);
        assert_eq!(failure.message(), "just text");
    }
}
