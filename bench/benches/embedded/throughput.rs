//! Durable throughput from publish to acknowledgement, against SQLite alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bench::{Aim, Figure, Report, Unit};
use redrive::Context;
use redrive::engine::handler::{FunctionHandler, Handler};

use crate::arguments::Arguments;
use crate::load::{self, Load, Progress, Ran};
use crate::{Measured, floor};

/// Messages of a round.
const MESSAGES: u64 = 200_000;

/// A batch size, and the flows that are held against SQLite alone at that size.
struct Against {
    batch: u64,
    sides: &'static [Side],
}

/// One flow: one message in how many fails once, and what it should reach.
struct Side {
    failing: Option<u64>,
    aim: Option<Aim>,
}

const PLAN: [Against; 2] = [
    Against {
        batch: 512,
        sides: &[
            Side { failing: None, aim: Some(Aim::AtLeast(0.6)) },
            Side { failing: Some(100), aim: None },
            Side { failing: Some(10), aim: None },
        ],
    },
    Against { batch: 4_096, sides: &[Side { failing: None, aim: None }] },
];

pub(crate) async fn measure(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    for against in &PLAN {
        let load = Load::new(arguments.scaled(MESSAGES), against.batch);
        let mut floors = Vec::new();
        let mut rates: Vec<Vec<f64>> = against.sides.iter().map(|_| Vec::new()).collect();
        for _ in 0..arguments.rounds() {
            let rate = |took: std::time::Duration| load.messages as f64 / took.as_secs_f64();
            floors.push(rate(tokio::task::spawn_blocking(move || floor::run(&load)).await??));
            for (side, rates) in against.sides.iter().zip(&mut rates) {
                rates.push(rate(flow(load, side.failing).await?.took));
            }
        }
        tell(report, against, &floors, rates);
    }
    Ok(())
}

fn tell(report: &mut Report, against: &Against, floors: &[f64], rates: Vec<Vec<f64>>) {
    let batch = against.batch;
    report.add(Figure {
        name: format!("floor_{batch}"),
        what: format!("SQLite alone: batches of {batch}"),
        unit: Unit::PerSecond,
        spread: floors.iter().copied().collect(),
        aim: None,
    });
    for (side, rates) in against.sides.iter().zip(rates) {
        let (mut name, mut failing) = (format!("throughput_{batch}"), String::new());
        if let Some(percent) = side.failing.and_then(|every| 100_u64.checked_div(every)) {
            name = format!("{name}_failing_{percent}");
            failing = format!(", {percent} % fail once");
        }
        let what = format!("publish, handle, ack: batches of {batch}{failing}");
        report.add(Figure {
            name: format!("{name}_rate"),
            what: what.clone(),
            unit: Unit::PerSecond,
            spread: rates.iter().copied().collect(),
            aim: None,
        });
        report.add(Figure {
            name,
            what: format!("{what}; against SQLite alone"),
            unit: Unit::Ratio,
            spread: rates.iter().zip(floors).map(|(rate, floor)| rate / floor).collect(),
            aim: side.aim,
        });
    }
}

async fn flow(load: Load, failing: Option<u64>) -> Measured<Ran> {
    let progress = Arc::new(Progress::default());
    let ran = load::run(load, handler(failing, progress.clone()), progress).await?;
    let expected = failing.map_or(0, |every| load.messages.div_ceil(every));
    if ran.failed != expected {
        return Err(format!("{} messages failed, not {expected}", ran.failed).into());
    }
    Ok(ran)
}

/// A handler that does nothing; the first attempt of one message in so many fails.
fn handler(failing: Option<u64>, progress: Arc<Progress>) -> Arc<dyn Handler> {
    let Some(every) = failing else {
        return Arc::new(FunctionHandler::new(move |_, _| {
            progress.one();
            async { Ok::<(), std::io::Error>(()) }
        }));
    };
    let calls = AtomicU64::new(0);
    Arc::new(FunctionHandler::new(move |_, context: Context| {
        let fails = context.attempt == 1 && calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(every);
        if !fails {
            progress.one();
        }
        async move { if fails { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) } else { Ok(()) } }
    }))
}
