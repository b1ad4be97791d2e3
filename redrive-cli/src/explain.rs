//! `policy explain`: a policy told attempt by attempt.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use redrive::core::duration::print;
use redrive::core::{Explained, Row};
use redrive::{Class, codes, explain};

use crate::arguments::ExplainArguments;
use crate::problem::{FAILED, Problem};
use crate::terminal::{BOLD, DIM};
use crate::which_policy::{self, Chosen};
use crate::{files, plot, table, terminal, try_command};

pub(crate) fn run(arguments: &ExplainArguments) -> Result<ExitCode, Problem> {
    let chosen = choose(arguments)?;
    let now = arguments.now.unwrap_or_else(try_command::wall_clock);
    let told = explain(&chosen.policy, arguments.class, now);
    let text = if arguments.json { json(&told)? } else { for_people(&chosen, arguments.class, &told) };
    terminal::print(&text)
}

fn choose(arguments: &ExplainArguments) -> Result<Chosen, Problem> {
    let message_type = arguments.message_type.as_deref();
    let name = arguments.name.as_deref();
    match (&arguments.what, &arguments.config) {
        (what, Some(config)) => which_policy::from_file(config, what.as_deref().or(name), message_type),
        (None, None) => {
            let config = files::config(None).ok_or_else(files::no_config)?;
            which_policy::from_file(&config, None, message_type)
        }
        (Some(what), None) => match which_policy::from_text(what, name, message_type) {
            // What is no schedule may be the name of a flow in the configuration there is.
            Err(problem) if problem.code.as_deref() == Some(codes::WRONG_ARGUMENT.id()) => {
                match files::config(None) {
                    Some(config) if is_name(what) && name.is_none() => {
                        which_policy::from_file(&config, Some(what), message_type)
                    }
                    _ => Err(problem),
                }
            }
            chosen => chosen,
        },
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

fn json(told: &Explained) -> Result<String, Problem> {
    let mut text = String::new();
    let rows = told.rows.iter().map(serde_json::to_string);
    for line in rows.chain(told.ending.iter().map(serde_json::to_string)) {
        let line = line.map_err(|error| Problem::new(codes::WRONG_ARGUMENT, FAILED, error.to_string()))?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// A duration to three significant figures, which is as much as a table is read for.
pub(crate) fn rounded(duration: Duration) -> String {
    let micros = duration.as_micros();
    let unit: u128 = match micros {
        0..1_000 => 1,
        1_000..1_000_000 => 1_000,
        1_000_000..60_000_000 => 100_000,
        60_000_000..3_600_000_000 => 1_000_000,
        3_600_000_000..86_400_000_000 => 60_000_000,
        _ => 3_600_000_000,
    };
    let nearest = (micros + unit / 2) / unit * unit;
    print(Duration::from_micros(u64::try_from(nearest).unwrap_or(u64::MAX))).to_string()
}

fn for_people(chosen: &Chosen, class: Class, told: &Explained) -> String {
    let mut text = String::new();
    let attempts = match chosen.policy.attempts() {
        Some(1) => "1 attempt".to_owned(),
        Some(attempts) => format!("{attempts} attempts"),
        None => "attempts without end".to_owned(),
    };
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}, class {class}, {attempts} allowed\n", chosen.title);
    let heads = ["attempt", "kind", "min", "mean", "max", "age at most", "may end by"];
    let rows: Vec<_> = told.rows.iter().map(cells).collect();
    let width = terminal::width();
    if told.rows.iter().any(|row| row.may_end_by.is_some()) {
        text.push_str(&table::laid_out(heads, &rows, &[6], width));
    } else {
        let [heads @ .., _] = heads;
        let rows: Vec<_> = rows.iter().cloned().map(|[cells @ .., _]| cells).collect();
        text.push_str(&table::laid_out(heads, &rows, &[5], width));
    }
    match &told.ending {
        Some(ending) => {
            let _ = writeln!(text, "\n  then {BOLD}{}{BOLD:#}: {}", ending.ends, ending.because);
        }
        None => {
            let _ = writeln!(text, "\n  {DIM}… and so on; the first {} are shown{DIM:#}", rows.len());
        }
    }
    text.push_str(&plot::timeline(&told.rows, width));
    text
}

fn cells(row: &Row) -> [String; 7] {
    let wait = |duration| if row.attempt == 1 { "-".to_owned() } else { rounded(duration) };
    [
        row.attempt.to_string(),
        row.kind.replace('_', " "),
        wait(row.min),
        wait(row.mean),
        wait(row.max),
        wait(row.age_max),
        row.may_end_by.unwrap_or_default().to_owned(),
    ]
}
