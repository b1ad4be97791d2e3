//! Durable throughput from publish to acknowledgement, against SQLite alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bench::{Aim, Figure, Report, Unit};
use redrive::engine::handler::{FunctionHandler, Handler};

use crate::arguments::Arguments;
use crate::load::{self, Load, Progress};
use crate::{Measured, floor};

/// Messages of a round.
const MESSAGES: u64 = 100_000;

/// One side of a ratio: how many of a thousand messages fail once, in which batches, and under which name.
struct Side {
    batch: u64,
    failing: u64,
    name: &'static str,
    aim: Option<Aim>,
}

const SIDES: [Side; 4] = [
    Side { batch: 512, failing: 0, name: "throughput", aim: Some(Aim::AtLeast(0.6)) },
    Side { batch: 512, failing: 10, name: "throughput_failing_1", aim: None },
    Side { batch: 512, failing: 100, name: "throughput_failing_10", aim: None },
    Side { batch: 4_096, failing: 0, name: "throughput_large_batches", aim: None },
];

pub(crate) async fn measure(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let messages = arguments.scaled(MESSAGES);
    let mut ratios: [Vec<f64>; SIDES.len()] = Default::default();
    let mut rates: [Vec<f64>; SIDES.len()] = Default::default();
    let mut floors: [Vec<f64>; 2] = Default::default();
    for _ in 0..arguments.rounds() {
        let mut bare = 0.0;
        for (side, rules) in SIDES.iter().enumerate() {
            let load = Load::new(messages, rules.batch);
            let rate = |took: std::time::Duration| load.messages as f64 / took.as_secs_f64();
            if rules.failing == 0 {
                bare = rate(tokio::task::spawn_blocking(move || floor::run(&load)).await??);
                floors[usize::from(rules.batch > 512)].push(bare);
            }
            let progress = Arc::new(Progress::default());
            let handler = handler(rules.failing, progress.clone());
            let flow = rate(load::run(load, handler, progress).await?);
            ratios[side].push(flow / bare);
            rates[side].push(flow);
        }
    }
    for (batch, floor) in [512, 4_096].into_iter().zip(floors) {
        report.add(Figure {
            name: if batch == 512 { "floor" } else { "floor_large_batches" },
            what: format!("SQLite alone, batches of {batch}"),
            unit: Unit::PerSecond,
            spread: floor.into_iter().collect(),
            aim: None,
        });
    }
    for ((rules, ratio), rate) in SIDES.iter().zip(ratios).zip(rates) {
        let failing = match rules.failing {
            0 => String::new(),
            failing => format!(", {} % fail once", failing / 10),
        };
        let what = format!("publish, handle, ack: batches of {}{failing}", rules.batch);
        report.add(Figure {
            name: rules.name,
            what: format!("{what}; against SQLite alone"),
            unit: Unit::Ratio,
            spread: ratio.into_iter().collect(),
            aim: rules.aim,
        });
        report.add(Figure { name: rules.name, what, unit: Unit::PerSecond, spread: rate.into_iter().collect(), aim: None });
    }
    Ok(())
}

/// A handler that does nothing, but for so many of a thousand messages whose first attempt fails.
fn handler(failing: u64, progress: Arc<Progress>) -> Arc<dyn Handler> {
    let calls = AtomicU64::new(0);
    Arc::new(FunctionHandler::new(move |_, context: redrive::Context| {
        let fails = failing > 0
            && context.attempt == 1
            && calls.fetch_add(1, Ordering::Relaxed) % 1_000 % (1_000 / failing) == 0;
        if !fails {
            progress.one();
        }
        async move {
            if fails { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) } else { Ok(()) }
        }
    }))
}
