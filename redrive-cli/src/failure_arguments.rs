//! A failed attempt as it is told on the command line.

use std::time::Duration;

use clap::Args;
use redrive::core::classify::{IoKind, SqlState};
use redrive::core::{Headers, duration};
use redrive::{Failure, History, Reason, Timestamp, Verdict};

/// What went wrong, and what happened before.
#[derive(Debug, Args)]
pub(crate) struct FailureArguments {
    /// The HTTP status of the answer; 2xx is a success and acks
    #[arg(long, value_parser = clap::value_parser!(u16).range(100..=999), help_heading = "The failure")]
    status: Option<u16>,
    /// The body of the answer
    #[arg(long, value_name = "TEXT", help_heading = "The failure")]
    body: Option<String>,
    /// The type of the error; again for each cause
    #[arg(long, value_name = "TYPE", help_heading = "The failure")]
    error: Vec<String>,
    /// The message of the error; again for each cause
    #[arg(long, value_name = "TEXT", help_heading = "The failure")]
    message: Vec<String>,
    /// The SQLSTATE of a database
    #[arg(long, value_name = "STATE", help_heading = "The failure")]
    sqlstate: Option<SqlState>,
    /// The kind of an I/O error, such as connection_refused
    #[arg(long, value_name = "KIND", help_heading = "The failure")]
    io: Option<IoKind>,
    /// The exit code of a command; 0 is a success and acks
    #[arg(long, value_name = "CODE", allow_negative_numbers = true, help_heading = "The failure")]
    exit_code: Option<i32>,
    /// The attempt ran out of time
    #[arg(long, help_heading = "The failure")]
    timeout: bool,
    /// The handler panicked
    #[arg(long, help_heading = "The failure")]
    panic: bool,
    /// The wait that the handler asked for: 30 (seconds), 30s, 2m
    #[arg(long, value_name = "WAIT", value_parser = wait, help_heading = "The failure")]
    retry_after: Option<Duration>,
    /// The handler's verdict: ack, retry, retry-after=30s, park, dead, discard, reject, follow=ID
    #[arg(long, help_heading = "The failure")]
    verdict: Option<Verdict>,
    /// The reason that the handler gave
    #[arg(long, value_parser = reason, value_name = "CODE", help_heading = "The failure")]
    reason: Option<Reason>,
    /// The number of the attempt that failed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "The message and its past")]
    attempt: u32,
    /// How many delayed retries there were
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "The message and its past")]
    delayed: u32,
    /// How long ago it failed first
    #[arg(long, value_name = "WAIT", value_parser = wait, help_heading = "The message and its past")]
    first_failure_ago: Option<Duration>,
    /// How long it has waited in all
    #[arg(long, value_name = "WAIT", value_parser = wait, help_heading = "The message and its past")]
    waited: Option<Duration>,
    /// In how many crashes it was in flight
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "The message and its past")]
    crashes: u32,
    /// No call to the endpoint has succeeded lately
    #[arg(long, help_heading = "The message and its past")]
    unproven: bool,
    /// The type of the message
    #[arg(long = "type", value_name = "TYPE", help_heading = "The message and its past")]
    pub(crate) message_type: Option<String>,
    /// The schema version of the message
    #[arg(long, value_name = "VERSION", help_heading = "The message and its past")]
    pub(crate) schema: Option<String>,
    /// The producer of the message
    #[arg(long, value_name = "NAME", help_heading = "The message and its past")]
    pub(crate) producer: Option<String>,
    /// When handling it is of no more use
    #[arg(long, value_name = "TIME", help_heading = "The message and its past")]
    pub(crate) deadline: Option<Timestamp>,
    /// A header of the message; again for each
    #[arg(long, value_name = "NAME=VALUE", value_parser = header, help_heading = "The message and its past")]
    header: Vec<(String, String)>,
}

/// Seconds as in the HTTP header, or a duration with its unit.
fn wait(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => duration::parse(text).map_err(|error| format!("{error}\n{}", error.caret())),
    }
}

fn reason(text: &str) -> Result<Reason, String> {
    Reason::new(text).map_err(|error| error.to_string())
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=').filter(|(name, _)| !name.is_empty()) {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("expected NAME=VALUE".to_owned()),
    }
}

impl FailureArguments {
    /// What the handler said when it is no failure at all: a status of 2xx or the exit code 0, with nothing beside it
    /// that went wrong. A verdict beats both.
    pub(crate) fn success(&self) -> Option<String> {
        let went_wrong = self.timeout
            || self.panic
            || self.verdict.is_some()
            || self.sqlstate.is_some()
            || self.io.is_some()
            || !self.error.is_empty()
            || !self.message.is_empty();
        match (self.status, self.exit_code) {
            _ if went_wrong => None,
            (Some(status @ 200..=299), None | Some(0)) => Some(format!("status {status}")),
            (None, Some(0)) => Some("exit code 0".to_owned()),
            _ => None,
        }
    }

    /// The failure.
    pub(crate) fn failure(&self) -> Failure {
        let message = |i: usize| self.message.get(i).cloned().unwrap_or_default();
        let error = |i: usize| self.error.get(i).cloned().unwrap_or_default();
        let mut failure = if self.panic {
            Failure::from_panic(message(0))
        } else if self.error.is_empty() && self.message.is_empty() {
            Failure::default()
        } else {
            Failure::from_message(message(0))
        };
        if !self.error.is_empty() {
            failure = failure.with_type(error(0));
        }
        for i in 1..self.error.len().max(self.message.len()) {
            failure = failure.with_cause(error(i), message(i));
        }
        if let Some(status) = self.status {
            failure = failure.with_status(status);
        }
        if let Some(body) = &self.body {
            failure = failure.with_body(body.clone());
        }
        if let Some(state) = self.sqlstate {
            failure = failure.with_sqlstate(state);
        }
        if let Some(kind) = self.io {
            failure = failure.with_io(kind);
        }
        if let Some(code) = self.exit_code {
            failure = failure.with_exit_code(code);
        }
        if self.timeout {
            failure = failure.with_timed_out();
        }
        if let Some(wait) = self.retry_after {
            failure = failure.with_retry_after(wait);
        }
        if let Some(verdict) = &self.verdict {
            failure = failure.with_verdict(verdict.clone());
        }
        match &self.reason {
            Some(reason) => failure.with_reason(reason.clone()),
            None => failure,
        }
    }

    /// What happened before, seen from `now`.
    pub(crate) fn history(&self, now: Timestamp) -> History {
        let ago = |ago: Duration| {
            let millis = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.as_millis().saturating_sub(millis))
        };
        History {
            attempts: self.attempt,
            // A first attempt cannot have been a delayed one.
            delayed: self.delayed.min(self.attempt - 1),
            calls: self.attempt,
            first_failure: self.first_failure_ago.map(ago),
            waited: self.waited.unwrap_or_default(),
            crashes: self.crashes,
            endpoint_proven: !self.unproven,
            ..History::first()
        }
    }

    /// The headers.
    pub(crate) fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in &self.header {
            headers.push(name.as_str(), value.clone());
        }
        headers
    }
}
