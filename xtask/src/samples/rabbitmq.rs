//! Writers on RabbitMQ: what each leaves in its dead-letter queue, as a listener of Spring AMQP reads it.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::error::{Context, Result, failed};
use crate::progress::Steps;
use crate::services::{Kind, Program, Supervisor, Workshop};

use super::{Running, java, write};

/// A writer that is made to fail. What it gives up lies in its queue's `-dead` then.
struct Writer {
    /// The sample's name.
    name: &'static str,
    mode: &'static str,
    queue: &'static str,
    how: &'static str,
}

const WRITERS: &[Writer] = &[
    Writer {
        name: "spring-amqp-republished",
        mode: "republish",
        queue: "orders",
        how: "spring-rabbit 4.1.0, a stateless retry interceptor with a RepublishMessageRecoverer",
    },
    Writer {
        name: "rabbitmq-rejected",
        mode: "reject",
        queue: "returns",
        how: "RabbitMQ, a quorum queue with a dead-letter exchange whose consumer rejects",
    },
];

/// How many steps there are.
pub(super) const STEPS: usize = 2 + WRITERS.len();

pub(super) fn sample(steps: &mut Steps, workshop: &Workshop, supervisor: &Supervisor) -> Result<()> {
    let spring = steps.run("build the writers on rabbitmq", || workshop.built(Program::SpringAmqp))?;
    let address = steps.run("rabbitmq", || supervisor.need(Kind::Rabbitmq))?;
    for writer in WRITERS {
        steps.run(writer.name, || capture(&spring, &address, writer))?;
    }
    Ok(())
}

fn capture(spring: &str, address: &str, writer: &Writer) -> Result<()> {
    let queue = writer.queue;
    let program = |words: &[&str]| {
        let mut command = java(spring, "redrive.SpringAmqp");
        command.args(words);
        command
    };
    let _failing = Running::start(&mut program(&[writer.mode, address, queue]))?.unheard();
    let words = ["send", address, &format!("{queue}-in"), "order.placed", "{\"order\":1}"];
    let sent = program(&words).stdin(Stdio::null()).output().context("cannot run java")?;
    if !sent.status.success() {
        return Err(failed(String::from_utf8_lossy(&sent.stderr).into_owned()));
    }
    let line = Running::start(&mut program(&["read", address, &format!("{queue}-dead")]))?.line()?;
    let mut message: Value = serde_json::from_str(&line).context("a captured message is no JSON")?;
    if let Some(headers) = message["headers"].as_array_mut() {
        headers.sort_by_key(|header| header["name"].to_string());
    }
    write("messages", writer.name, &json!({ "how": writer.how, "message": message }))
}
