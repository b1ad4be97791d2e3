//! `exec:`, one process per message.
//!
//! The body is the process's standard input; what it is about stands in the environment. Its exit code is the
//! answer, and the last lines that it wrote to its standard error are kept with a failure. Its standard output goes
//! nowhere.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done; whether it read its input does not matter |
//! | 75 | try again (`EX_TEMPFAIL`) |
//! | 65 | bad data (`EX_DATAERR`) |
//! | any other, a signal as 128 and its number | unknown |
//!
//! | variable | value |
//! |---|---|
//! | `REDRIVE_ID` | the message id |
//! | `REDRIVE_ATTEMPT` | the attempt, from 1 |
//! | `REDRIVE_KEY` | the key, when it is text without null characters |
//! | `REDRIVE_KEY_BASE64` | the key otherwise |
//! | `REDRIVE_HEADER_<NAME>` | a header: letters in upper case, all but letters and digits as `_` |
//! | `REDRIVE_FLOW`, `REDRIVE_IDEMPOTENCY_KEY`, `REDRIVE_DEADLINE`, `REDRIVE_WILL_RETRY`, `REDRIVE_CALLS_LEFT` | as told to an HTTP handler |
//! | `REDRIVE_TOMBSTONE` | `true` when the body is null, which an empty input cannot say |
//!
//! No header becomes a variable of another name, so a message cannot set `PATH` or `LD_PRELOAD`. A header whose value
//! is longer than 4 KB, null, or has null characters is left out, and so is everything past 64 KB in all. Of two
//! headers that become one variable (`a-b` and `a_b`) the last one counts.
//!
//! A process that runs when its time is over is killed with everything it started, and what it left running in its
//! process group is killed when it ends.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use redrive_core::Message;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};

use super::process::{CommandLine, Group};
use super::tail::Tail;
use super::{Attempted, Context, Handler};

/// The longest header that becomes a variable, in bytes.
const MAX_VALUE: usize = 4 * 1024;
/// How much of a message's headers becomes variables in all.
const MAX_TOTAL: usize = 64 * 1024;
const MAX_NAME: usize = 128;
/// How long the last words of a process may take to arrive after its end.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Variables that are set for some messages only, and must not come from an outer Redrive for the others.
const SOMETIMES: [&str; 4] = ["REDRIVE_KEY", "REDRIVE_KEY_BASE64", "REDRIVE_CALLS_LEFT", "REDRIVE_TOMBSTONE"];

/// A command that is run once for each message.
#[derive(Debug, Clone)]
pub struct CommandHandler {
    line: CommandLine,
}

impl CommandHandler {
    /// A handler that runs this command. Nothing is started yet.
    pub fn new(line: CommandLine) -> Self {
        Self { line }
    }
}

#[async_trait]
impl Handler for CommandHandler {
    async fn call(&self, message: &Message, context: Context) -> Attempted {
        let mut command = self.line.command();
        command.stdout(Stdio::null());
        describe(&mut command, message, &context);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Attempted::failure(self.line.not_started(&error)),
        };
        // Dropped before the child: when the attempt is given up, the whole group goes.
        let group = Group::of(&child);
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let mut tail = Tail::default();
        let status = {
            let mut feeding = pin!(feed(stdin, message.body.as_deref().unwrap_or_default()));
            let mut listening = pin!(tail.read(stderr));
            let (mut fed, mut heard) = (false, false);
            let status = loop {
                tokio::select! {
                    status = child.wait() => break status,
                    () = &mut feeding, if !fed => fed = true,
                    () = &mut listening, if !heard => heard = true,
                }
            };
            group.end();
            if !heard {
                // A process that left the group may still hold the pipe.
                let _ = tokio::time::timeout(LAST_WORDS, listening).await;
            }
            status
        };
        if status.as_ref().is_ok_and(ExitStatus::success) {
            return Attempted::success();
        }
        let failure = self.line.ended(&status, &tail.text()).with_type("command");
        let code = status.ok().and_then(|status| {
            status.code().or_else(|| status.signal().map(|signal| signal.saturating_add(128)))
        });
        Attempted::failure(match code {
            Some(code) => failure.with_exit_code(code),
            None => failure,
        })
    }
}

/// Writes the body. A process need not read it: what its exit code says counts, not a broken pipe.
async fn feed(stdin: Option<ChildStdin>, body: &[u8]) {
    let Some(mut stdin) = stdin else { return };
    let _ = stdin.write_all(body).await;
}

/// Puts into the environment what the message is about.
fn describe(command: &mut Command, message: &Message, context: &Context) {
    for name in SOMETIMES {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"REDRIVE_HEADER_") {
            command.env_remove(name);
        }
    }
    command.env("REDRIVE_ID", without_null(&message.id));
    command.env("REDRIVE_FLOW", without_null(&context.flow));
    command.env("REDRIVE_ATTEMPT", context.attempt.to_string());
    command.env("REDRIVE_WILL_RETRY", context.will_retry.to_string());
    command.env("REDRIVE_DEADLINE", context.deadline.to_string());
    let idempotency_key =
        if context.idempotency_key.is_empty() { &message.id } else { &*context.idempotency_key };
    command.env("REDRIVE_IDEMPOTENCY_KEY", without_null(idempotency_key));
    if let Some(calls) = context.calls_left {
        command.env("REDRIVE_CALLS_LEFT", calls.to_string());
    }
    if message.body.is_none() {
        command.env("REDRIVE_TOMBSTONE", "true");
    }
    if let Some(key) = message.key.as_ref().filter(|key| key.len() <= MAX_TOTAL) {
        match std::str::from_utf8(key) {
            Ok(text) if !text.contains('\0') => command.env("REDRIVE_KEY", text),
            _ => command.env("REDRIVE_KEY_BASE64", STANDARD.encode(key)),
        };
    }
    for (name, value) in variables(message) {
        command.env(name, OsStr::from_bytes(value));
    }
}

/// The message's headers as variables.
fn variables(message: &Message) -> BTreeMap<String, &[u8]> {
    let mut variables = BTreeMap::new();
    let mut left = MAX_TOTAL;
    for header in message.headers.iter().rev() {
        let Some(value) = &header.value else { continue };
        let name = header.name.as_str();
        let size = name.len() + value.len();
        let fits = size <= left && value.len() <= MAX_VALUE && (1..=MAX_NAME).contains(&name.len());
        if !fits || value.contains(&0) {
            continue;
        }
        let upper =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
        let name = format!("REDRIVE_HEADER_{}", upper.collect::<String>());
        // Backwards, so the first one met is the last one written.
        if let Entry::Vacant(vacant) = variables.entry(name) {
            left -= size;
            vacant.insert(&value[..]);
        }
    }
    variables
}

/// A null character ends a variable, and a process with one in its environment cannot be started.
fn without_null(text: &str) -> String {
    text.replace('\0', "")
}

#[cfg(test)]
mod tests {
    use redrive_core::Headers;

    use super::*;

    #[test]
    fn headers_become_bounded_variables() {
        let mut headers = Headers::new();
        headers.push("LD_PRELOAD", "evil.so");
        headers.push("a-b", "first");
        headers.push("a_b", "last");
        headers.push("größe", "1");
        headers.push("x=y", "2");
        headers.push("null", "a\0b");
        headers.push("long", vec![b'x'; MAX_VALUE + 1]);
        headers.push("", "no name");
        headers.push_header("absent", None);
        let message = Message { headers, ..Message::default() };
        let variables = variables(&message);
        let names: Vec<_> = variables.keys().map(String::as_str).collect();
        let expected =
            ["REDRIVE_HEADER_A_B", "REDRIVE_HEADER_GR__E", "REDRIVE_HEADER_LD_PRELOAD", "REDRIVE_HEADER_X_Y"];
        assert_eq!(names, expected);
        assert_eq!(variables["REDRIVE_HEADER_A_B"], b"last");
    }

    #[test]
    fn ten_thousand_headers_stay_within_the_bound() {
        let mut headers = Headers::new();
        for number in 0..10_000 {
            headers.push(format!("header-{number}"), vec![b'x'; 1_000]);
        }
        let message = Message { headers, ..Message::default() };
        let total: usize = variables(&message).values().map(|value| value.len()).sum();
        assert!((MAX_TOTAL - 2_000..=MAX_TOTAL).contains(&total), "{total}");
    }
}
