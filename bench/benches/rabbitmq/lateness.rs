//! How long after its due time a message is handled again that has waited in the broker's queues, beside what the broker
//! itself takes for that.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::numbered::number_of;
use bench::{Aim, Measured, Report, Spread, Tally, Unit};
use futures_util::StreamExt as _;
use lapin::options::BasicAckOptions;
use lapin::types::AMQPValue;
use redrive::engine::handler::FunctionHandler;
use redrive::setup::{Place, Setup};
use redrive::{Context, Message};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::bare;
use crate::flow::{self, Described};
use crate::rabbit::Rabbit;

/// The header that says when a message is due.
const DUE: &str = "x-process-after";
/// The number of a message that waits before the others: whatever is slow the first time is over after it.
const FIRST: u64 = u64::MAX;
const PER_SECOND: u64 = 1_000;
const SECONDS: u64 = 10;

/// Messages that fail once and wait so long.
#[derive(Clone, Copy)]
struct Waits {
    name: &'static str,
    what: &'static str,
    schedule: &'static str,
    /// Whether they wait in binary levels also when their step could have a queue of its own.
    by_levels: bool,
    /// How many milliseconds a message of the bare loop stays in which queues; nothing when there is no bare loop.
    bare: &'static [u32],
    /// The aim of the 99th percentile, in milliseconds.
    aim: f64,
}

const WAITS: [Waits; 3] = [
    Waits {
        name: "one_level",
        what: "`1s` in the queue of its step",
        schedule: "1s",
        by_levels: false,
        bare: &[1_000],
        aim: 25.0,
    },
    Waits {
        name: "three_levels",
        what: "704 ms through three levels",
        schedule: "704ms",
        by_levels: true,
        bare: &[512, 128, 64],
        // When it takes up to 16 ms from the decision to the copy, these three are the way, and the copy comes as much later:
        // that is the stated rounding.
        aim: 50.0 + 16.0,
    },
    Waits {
        name: "jittered",
        what: "`1s jitter 10%` through up to six levels",
        schedule: "1s jitter 10%",
        by_levels: false,
        bare: &[],
        // Up to 32 ms of it are the stated rounding.
        aim: 50.0 + 32.0,
    },
];

pub(crate) async fn measure(arguments: &Arguments, rabbit: &Rabbit, report: &mut Report) -> Measured<()> {
    let messages = PER_SECOND * if arguments.quick { 1 } else { SECONDS };
    for waits in WAITS {
        let (mut bare, mut flow): (Vec<Spread>, Vec<Spread>) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds() {
            if !waits.bare.is_empty() {
                bare.push(wait(rabbit, waits.bare, messages).await?);
            }
            flow.push(handle(rabbit, waits, messages).await?);
        }
        if !bare.is_empty() {
            tell(report, &format!("{}_bare", waits.name), &format!("{}, bare loop", waits.what), &bare, None);
        }
        tell(report, waits.name, waits.what, &flow, Some(Aim::AtMost(waits.aim)));
    }
    Ok(())
}

fn tell(report: &mut Report, name: &str, what: &str, rounds: &[Spread], aim: Option<Aim>) {
    for (label, share, aim) in [("p50", 0.5, None), ("p99", 0.99, aim), ("most", 1.0, None)] {
        let what = format!("lateness of {what} at {PER_SECOND} a second: {label}");
        let values: Vec<f64> = rounds.iter().filter_map(|late| late.at(share)).collect();
        report.tell(&format!("lateness_{name}_{label}"), &what, Unit::Millis, &values, aim);
    }
}

/// What the broker itself takes: messages that go through queues in which each stays so long, and are read. The lateness of
/// each, in milliseconds.
async fn wait(rabbit: &Rabbit, stays: &[u32], messages: u64) -> Measured<Spread> {
    let last = rabbit.queue("late").await?;
    let mut queues = vec![last.clone()];
    for stay in stays.iter().rev() {
        let next = queues.last().cloned().unwrap_or_default();
        // As the queues that a flow makes.
        let arguments = [
            ("x-message-ttl", AMQPValue::LongLongInt(i64::from(*stay))),
            ("x-dead-letter-exchange", AMQPValue::LongString("".into())),
            ("x-dead-letter-routing-key", AMQPValue::LongString(next.into())),
            ("x-dead-letter-strategy", AMQPValue::LongString("at-least-once".into())),
            ("x-overflow", AMQPValue::LongString("reject-publish".into())),
        ];
        queues.push(rabbit.queue_with("waits", &arguments).await?);
    }
    let connection = rabbit.connect().await?;
    let (channel, mut consumer) = bare::consumer(&connection, &last).await?;
    let reading = tokio::spawn(async move {
        let mut late = Vec::new();
        while (late.len() as u64) < messages {
            let delivery = consumer.next().await.ok_or("the broker sends no more")??;
            let due = number_of(Some(&delivery.data)).ok_or("a message without a time")?;
            late.push(micros() as f64 / 1e3 - due as f64 / 1e3);
            delivery.ack(BasicAckOptions::default()).await?;
        }
        Measured::Ok(late.into_iter().collect())
    });
    let sum = u64::from(stays.iter().sum::<u32>()) * 1_000;
    let mut writer = rabbit.writer(queues.last().unwrap_or(&last)).await?;
    writer.write_paced(messages, PER_SECOND, |_| micros() + sum).await?;
    let late = reading.await??;
    drop(channel);
    drop(connection);
    rabbit.delete(&queues.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    Ok(late)
}

/// Now, since 1970.
fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Takes the queues of the steps away: the broker's levels alone are left.
fn levels_alone(set_up: &mut Setup) {
    flow::unguarded(set_up);
    if let Place::RabbitMq(flow) = &mut set_up.place {
        let steps = std::mem::take(&mut flow.steps);
        flow.other_delays = steps.first().copied().zip(steps.last().copied());
    }
}

/// The lateness of each message of a flow, in milliseconds.
async fn handle(rabbit: &Rabbit, waits: Waits, messages: u64) -> Measured<Spread> {
    let queue = rabbit.queue("late").await?;
    let late: Arc<Mutex<Vec<f64>>> = Arc::default();
    let warm = Arc::new(Tally::default());
    let (told, warmed) = (Arc::clone(&late), Arc::clone(&warm));
    let handler = Arc::new(FunctionHandler::new(move |message: Message, context: Context| {
        let fails = context.attempt == 1;
        if !fails && number_of(message.body.as_deref()) == Some(FIRST) {
            warmed.one();
        } else if !fails {
            told.lock().unwrap_or_else(PoisonError::into_inner).extend(lateness(&message));
        }
        async move { if fails { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) } else { Ok(()) } }
    }));
    let described =
        Described { rabbit, queue: &queue, retry: waits.schedule, ledger: true, more: Value::Null };
    let change = if waits.by_levels { levels_alone } else { flow::unguarded };
    let running = flow::start(described, handler, change).await?;
    let mut writer = rabbit.writer(&queue).await?;
    writer.write(FIRST).await?;
    warm.until(1).await;
    writer.write_paced(messages, PER_SECOND, |turn| turn).await?;
    while (late.lock().unwrap_or_else(PoisonError::into_inner).len() as u64) < messages {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.settled().await;
    running.stop(rabbit).await?;
    let late = late.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(late.iter().copied().collect())
}

/// How many milliseconds after its due time a message is handled.
fn lateness(message: &Message) -> Option<f64> {
    let due: f64 = message.headers.get_text(DUE, 64)?.parse().ok()?;
    Some(micros() as f64 / 1e3 - due)
}
