//! Writers on Kafka: what each leaves in its dead-letter topic.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::error::{Context, Result, failed};
use crate::progress::Steps;
use crate::services::{Kind, Program, Supervisor, Workshop};

use super::{Running, java, write};

/// Which program a writer is part of.
#[derive(Clone, Copy)]
enum Part {
    Spring,
    Writers,
}

/// A writer that is made to fail, and what it leaves where.
struct Writer {
    /// The step's name.
    name: &'static str,
    part: Part,
    mode: &'static str,
    topic: &'static str,
    /// Keys and values.
    sent: &'static [(&'static str, &'static str)],
    /// Topics, and the names of the samples that their first records become.
    captured: &'static [(&'static str, &'static [&'static str])],
    how: &'static str,
}

const WRITERS: &[Writer] = &[
    Writer {
        name: "spring, dead letters",
        part: Part::Spring,
        mode: "fail",
        topic: "orders",
        sent: &[("order-1", "{\"order\":1}")],
        captured: &[("orders-dlt", &["spring-kafka-dead-letter"])],
        how: "spring-kafka 4.1.0, DefaultErrorHandler with a DeadLetterPublishingRecoverer",
    },
    Writer {
        name: "spring, retry topics",
        part: Part::Spring,
        mode: "retry",
        topic: "returns",
        sent: &[("order-1", "{\"order\":1}")],
        captured: &[
            ("returns-retry", &["spring-kafka-retry-first", "spring-kafka-retry-second"]),
            ("returns-dlt", &["spring-kafka-retry-dead-letter"]),
        ],
        how: "spring-kafka 4.1.0, @RetryableTopic with three attempts",
    },
    Writer {
        name: "spring, deserializer",
        part: Part::Spring,
        mode: "deserialize",
        topic: "numbers",
        sent: &[("hex:00000001", "not a number"), ("not a number", "hex:00000001")],
        captured: &[("numbers-dlt", &["spring-deserializer-value", "spring-deserializer-key"])],
        how: "spring-kafka 4.1.0, ErrorHandlingDeserializer and a DeadLetterPublishingRecoverer that keeps its header",
    },
    Writer {
        name: "kafka connect",
        part: Part::Writers,
        mode: "connect",
        topic: "sunk",
        sent: &[
            ("order-1", "no JSON"),
            ("order-2", "{\"schema\":{\"type\":\"string\"},\"payload\":\"no number\"}"),
        ],
        captured: &[("sunk-dlq", &["kafka-connect-converter", "kafka-connect-transformation"])],
        how: "Kafka Connect 4.3.0, FileStreamSink with errors.deadletterqueue.context.headers.enable",
    },
    Writer {
        name: "kafka streams",
        part: Part::Writers,
        mode: "streams",
        topic: "divided",
        sent: &[("order-1", "no number"), ("order-2", "hex:00000000")],
        captured: &[("divided-dlq", &["kafka-streams-deserialization", "kafka-streams-processing"])],
        how: "Kafka Streams 4.3.0 with errors.dead.letter.queue.topic.name",
    },
];

/// How many steps there are.
pub(super) const STEPS: usize = 2 + WRITERS.len();

pub(super) fn sample(steps: &mut Steps, workshop: &Workshop, supervisor: &Supervisor) -> Result<()> {
    let (spring, writers) = steps.run("build the writers on kafka", || {
        Ok((workshop.built(Program::Spring)?, workshop.built(Program::Writers)?))
    })?;
    let kafka = steps.run("kafka", || supervisor.need(Kind::Kafka))?;
    let desk = Desk { spring, writers, kafka };
    for writer in WRITERS {
        steps.run(writer.name, || desk.sample(writer))?;
    }
    Ok(())
}

/// Class paths, and where Kafka is.
struct Desk {
    spring: String,
    writers: String,
    kafka: String,
}

impl Desk {
    fn sample(&self, writer: &Writer) -> Result<()> {
        let scratch = tempfile::tempdir().context("cannot create a folder")?;
        let mut command = match writer.part {
            Part::Spring => java(&self.spring, "redrive.Spring"),
            Part::Writers => java(&self.writers, "redrive.Writers"),
        };
        command.args([writer.mode, &self.kafka, writer.topic]);
        match writer.part {
            Part::Spring => command.arg("workers"),
            Part::Writers => command.arg(scratch.path()),
        };
        let _running = Running::start(&mut command)?.unheard();
        for (key, value) in writer.sent {
            self.writers(&["produce", &self.kafka, writer.topic, key, value])?;
        }
        for (topic, names) in writer.captured {
            self.capture(topic, names, writer.how)?;
        }
        Ok(())
    }

    /// Writes the first records of a topic down, each under its name.
    fn capture(&self, topic: &str, names: &[&str], how: &str) -> Result<()> {
        let output = self.writers(&["capture", &self.kafka, topic, &names.len().to_string()])?;
        for (name, line) in names.iter().zip(output.lines()) {
            let record: Value = serde_json::from_str(line).context("a captured record is no JSON")?;
            write("samples", name, &json!({ "how": how, "record": record }))?;
        }
        Ok(())
    }

    fn writers(&self, arguments: &[&str]) -> Result<String> {
        let output = java(&self.writers, "redrive.Writers")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("cannot run java")?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        String::from_utf8(output.stdout).context("java wrote no text")
    }
}
