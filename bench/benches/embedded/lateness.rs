//! How late messages are handed to their handler when thousands come due every second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::{Aim, Figure, Report, Spread, Unit};
use bytes::Bytes;
use redrive::engine::handler::FunctionHandler;
use redrive::engine::port::{Broker as _, NewMessage};
use redrive::sqlite::{Options, Store};
use redrive::{Context, Message, Timestamp};

use crate::Measured;
use crate::arguments::Arguments;
use crate::load;
use crate::place;

const DUE_PER_SECOND: u64 = 5_000;
/// How long messages come due in one round.
const SECONDS: u64 = 4;
/// How long before the first is due they are all published.
const AHEAD: Duration = Duration::from_secs(2);

pub(crate) async fn measure(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let messages = arguments.scaled(DUE_PER_SECOND * SECONDS);
    let mut rounds = Vec::new();
    for _ in 0..arguments.rounds() {
        rounds.push(round(messages).await?);
    }
    let shares = [
        ("lateness_p50", "p50", 0.5, None),
        ("lateness_p99", "p99", 0.99, Some(Aim::AtMost(20.0))),
        ("lateness_max", "most", 1.0, None),
    ];
    for (name, label, share, aim) in shares {
        report.add(Figure {
            name: name.to_owned(),
            what: format!("lateness at {DUE_PER_SECOND} due a second: {label}"),
            unit: Unit::Millis,
            spread: rounds.iter().filter_map(|round| round.at(share)).collect(),
            aim,
        });
    }
    Ok(())
}

/// The lateness of each message, in milliseconds.
async fn round(messages: u64) -> Measured<Spread> {
    let place = place()?;
    let store = Store::open(&place.data, Options::default())?;
    let first = now_us()? / 1_000 + AHEAD.as_millis() as u64;
    let mut batch = Vec::new();
    for number in 0..messages {
        let due = first + number * 1_000 / DUE_PER_SECOND;
        batch.push(NewMessage {
            body: Some(Bytes::copy_from_slice(&due.to_le_bytes())),
            due: Some(Timestamp::from_millis(due.cast_signed())),
            ..NewMessage::default()
        });
    }
    store.publish("orders", batch).await?;

    let late = Arc::new(Mutex::new(Vec::with_capacity(messages as usize)));
    let told = late.clone();
    let handler = Arc::new(FunctionHandler::new(move |message: Message, _: Context| {
        let by = lateness(&message);
        told.lock().unwrap_or_else(PoisonError::into_inner).extend(by);
        async { Ok::<(), std::io::Error>(()) }
    }));
    let flow = load::start(&store, handler).await?;
    let count = || late.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    while count() < messages {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    flow.stop().await;
    let late = late.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(late.iter().copied().collect())
}

/// How many milliseconds after its due time a message is handled.
fn lateness(message: &Message) -> Option<f64> {
    let due = u64::from_le_bytes(message.body.as_deref()?.try_into().ok()?);
    Some((now_us().ok()? as f64 - due as f64 * 1_000.0) / 1_000.0)
}

fn now_us() -> Measured<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64)
}
