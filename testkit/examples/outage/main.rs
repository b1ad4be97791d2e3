//! Draws an hour without the endpoint: `cargo xtask plots` writes it to `docs/outage.svg`.

mod plot;

use std::process::ExitCode;

use plot::{Band, Panel, Plot};
use redrive_core::guard::BreakerState;
use testkit::outage::{Outage, Story};

/// Seconds that become one point.
const STEP: usize = 10;

fn main() -> ExitCode {
    let outage = Outage::default();
    let story = outage.simulate();
    let (took, at_limit) = story.recovery(&outage);
    let (took, at_limit) = (took.as_secs(), at_limit.as_secs());
    eprintln!("the backlog left in {took} s; at the endpoint's limit it takes {at_limit} s");
    let drawn = draw(&outage, &story);
    let Some(path) = std::env::args_os().nth(1) else {
        println!("{drawn}");
        return ExitCode::SUCCESS;
    };
    match std::fs::write(&path, drawn.to_string()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

fn draw(outage: &Outage, story: &Story) -> Plot {
    let minutes = |point: usize| (point * STEP) as f64 / 60.0;
    let calls = story.calls_each_second();
    let calls = calls.chunks(STEP).map(|some| f64::from(some.iter().sum::<u32>()) / some.len() as f64);
    let waiting = story.seconds.chunks(STEP).filter_map(|some| some.last()).map(|last| last.waiting as f64);
    let points =
        |values: Vec<f64>| values.into_iter().enumerate().map(|(n, value)| (minutes(n), value)).collect();
    Plot {
        title: "An hour without the endpoint".to_owned(),
        until: story.seconds.len() as f64 / 60.0,
        bands: vec![
            Band {
                name: "endpoint down".to_owned(),
                colour: "#c62828",
                spans: vec![(outage.down.start as f64 / 60.0, outage.down.end as f64 / 60.0)],
            },
            Band { name: "breaker open".to_owned(), colour: "#ef6c00", spans: not_closed(story) },
        ],
        panels: vec![
            Panel {
                name: "calls a second".to_owned(),
                colour: "#1565c0",
                most: f64::from(outage.limit) * 1.2,
                mark: Some((f64::from(outage.limit), "the endpoint's limit".to_owned())),
                points: points(calls.collect()),
            },
            Panel {
                name: "messages waiting".to_owned(),
                colour: "#2e7d32",
                most: f64::from(outage.messages),
                mark: None,
                points: points(waiting.collect()),
            },
        ],
    }
}

/// The stretches in which the breaker was not closed, in minutes.
fn not_closed(story: &Story) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for (second, seen) in story.seconds.iter().enumerate() {
        if seen.breaker == Some(BreakerState::Closed) {
            continue;
        }
        let (from, to) = (second as f64 / 60.0, (second + 1) as f64 / 60.0);
        match spans.last_mut() {
            Some(last) if (from - last.1).abs() < 1e-9 => last.1 = to,
            _ => spans.push((from, to)),
        }
    }
    spans
}
