//! From the start of the binary to the moment it is ready.

use bench::{Aim, Figure, Report, Unit};

use crate::Measured;
use crate::arguments::Arguments;
use crate::binary::Binary;
use crate::place;

/// Starts for each round of the other figures: one takes milliseconds.
const STARTS: u32 = 4;
/// Nobody is called: there is nothing in the queue.
const ENDPOINT: &str = "http://127.0.0.1:9/orders";

pub(crate) fn measure(arguments: &Arguments, report: &mut Report) -> Measured<()> {
    let binary = Binary::find()?;
    let (mut fresh, mut again) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds() * STARTS {
        let place = place()?;
        fresh.push(binary.run(&place.data, ENDPOINT)?.took.as_secs_f64() * 1e3);
        again.push(binary.run(&place.data, ENDPOINT)?.took.as_secs_f64() * 1e3);
    }
    let figures = [("start", "with a new data file", fresh), ("start_again", "with an old one", again)];
    for (name, label, rounds) in figures {
        report.add(Figure {
            name: name.to_owned(),
            what: format!("start to ready, {label}"),
            unit: Unit::Millis,
            spread: rounds.into_iter().collect(),
            aim: Some(Aim::AtMost(100.0)),
        });
    }
    Ok(())
}
