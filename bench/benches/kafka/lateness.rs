//! How long after its due time a message is handled again that has waited in a delay topic.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bench::numbered::number_of;
use bench::{Aim, Measured, Report, Spread, Tally, Unit};
use redrive::engine::handler::FunctionHandler;
use redrive::{Context, Message};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::flow::{self, Described};

/// The header that says when a message is due.
const DUE: &str = "x-process-after";

/// The number of a message that waits before the others: whatever is made at the first retry is there after it.
const FIRST: u64 = u64::MAX;

/// Messages that fail once and wait so long.
#[derive(Clone, Copy)]
struct Waits {
    name: &'static str,
    schedule: &'static str,
    per_second: u64,
    seconds: u64,
}

/// One after the other: each has the machine for itself.
const SHORT: [Waits; 3] = [
    Waits { name: "1s", schedule: "1s", per_second: 1_000, seconds: 5 },
    Waits { name: "100ms", schedule: "100ms", per_second: 1_000, seconds: 5 },
    Waits { name: "jittered", schedule: "1s jitter 10%", per_second: 1_000, seconds: 5 },
];
/// All at once: they do nothing but wait.
const LONG: [Waits; 2] = [
    Waits { name: "17s", schedule: "17s", per_second: 200, seconds: 3 },
    Waits { name: "60s", schedule: "60s", per_second: 200, seconds: 3 },
];

pub(crate) async fn measure(
    arguments: &Arguments,
    cluster: &Arc<Cluster>,
    report: &mut Report,
) -> Measured<()> {
    for waits in SHORT {
        let late = round(cluster, waits, arguments.quick).await?;
        tell(report, waits, &late);
    }
    if arguments.quick {
        return Ok(());
    }
    let mut at_once = tokio::task::JoinSet::new();
    for waits in LONG {
        let cluster = Arc::clone(cluster);
        at_once.spawn(async move { round(&cluster, waits, false).await.map(|late| (waits, late)) });
    }
    let mut ended = Vec::new();
    while let Some(round) = at_once.join_next().await {
        ended.push(round??);
    }
    ended.sort_by_key(|(waits, _)| waits.name);
    for (waits, late) in ended {
        tell(report, waits, &late);
    }
    Ok(())
}

fn tell(report: &mut Report, waits: Waits, late: &Spread) {
    let shares =
        [("p50", 0.5, Some(Aim::AtMost(2.0))), ("p99", 0.99, Some(Aim::AtMost(20.0))), ("most", 1.0, None)];
    for (label, share, aim) in shares {
        let name = format!("lateness_{}_{label}", waits.name);
        let what = format!("lateness of `{}` at {} a second: {label}", waits.schedule, waits.per_second);
        let value: Vec<f64> = late.at(share).into_iter().collect();
        report.tell(&name, &what, Unit::Millis, &value, aim);
    }
}

/// The lateness of each message, in milliseconds.
async fn round(cluster: &Cluster, waits: Waits, quick: bool) -> Measured<Spread> {
    let seconds = if quick { 1 } else { waits.seconds };
    let messages = waits.per_second * seconds;
    let topic = cluster.name("late");
    cluster.topics(&[&topic]).await?;
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
        Described { cluster, topic: &topic, retry: waits.schedule, ledger: true, more: Value::Null };
    let running = flow::start(described, handler, flow::unguarded).await?;
    let writer = cluster.writer()?;
    writer.write(&topic, FIRST)?;
    warm.until(1).await;
    let writing = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        for number in 0..messages {
            let at = began + Duration::from_micros(number * 1_000_000 / waits.per_second);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            writer.write(&topic, number)?;
        }
        writer.end()
    });
    writing.await??;
    while (late.lock().unwrap_or_else(PoisonError::into_inner).len() as u64) < messages {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.stop().await;
    let late = late.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(late.iter().copied().collect())
}

/// How many milliseconds after its due time a message is handled.
fn lateness(message: &Message) -> Option<f64> {
    let due: f64 = message.headers.get_text(DUE, 64)?.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64() * 1e3;
    Some(now - due)
}
