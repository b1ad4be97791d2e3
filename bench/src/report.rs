//! What was measured, side by side with what was aimed for: a table for people, a line of JSON each for scripts.

use std::fmt;

use serde_json::{Value, json};

use crate::Spread;

/// What a figure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A share of what it is measured against.
    Ratio,
    /// A second's worth.
    PerSecond,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Megabytes.
    Megabytes,
    /// Messages, or anything else that is counted.
    Count,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::PerSecond => "per_second",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Megabytes => "mb",
            Self::Count => "count",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.2}"),
            Self::PerSecond => format!("{:.1} k/s", value / 1_000.0),
            Self::Millis => format!("{value:.1} ms"),
            Self::Micros => format!("{value:.1} µs"),
            Self::Megabytes => format!("{value:.0} MB"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

/// What a figure should reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// Not less.
    AtLeast(f64),
    /// Not more.
    AtMost(f64),
}

impl Aim {
    fn met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

/// One figure over all its rounds.
#[derive(Debug, Clone)]
pub struct Figure {
    /// A name for scripts.
    pub name: String,
    /// What it is, for people.
    pub what: String,
    /// What it is counted in.
    pub unit: Unit,
    /// The rounds.
    pub spread: Spread,
    /// What it should reach, if anything.
    pub aim: Option<Aim>,
}

impl Figure {
    /// Whether the middle round reaches the aim; nothing without an aim or a round.
    fn met(&self) -> Option<bool> {
        Some(self.aim?.met(self.spread.median()?))
    }

    fn json(&self) -> Value {
        let (min, max) = self.spread.range().unzip();
        let mut line = json!({
            "figure": self.name,
            "what": self.what,
            "unit": self.unit.name(),
            "median": self.spread.median(),
            "min": min,
            "max": max,
            "rounds": self.spread.rounds(),
        });
        if let Some(aim) = self.aim {
            let (key, value) = match aim {
                Aim::AtLeast(value) => ("at_least", value),
                Aim::AtMost(value) => ("at_most", value),
            };
            line["aim"] = json!({ key: value });
            line["met"] = json!(self.met());
        }
        line
    }
}

/// All figures of a run.
#[derive(Debug, Default)]
pub struct Report {
    figures: Vec<Figure>,
}

impl Report {
    /// Adds a figure.
    pub fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Adds a figure of these rounds.
    pub fn tell(&mut self, name: &str, what: &str, unit: Unit, rounds: &[f64], aim: Option<Aim>) {
        let (name, what) = (name.to_owned(), what.to_owned());
        self.add(Figure { name, what, unit, spread: rounds.iter().copied().collect(), aim });
    }

    /// Adds what each round was against that of another.
    pub fn tell_ratio(&mut self, name: &str, what: &str, rounds: (&[f64], &[f64]), aim: Option<Aim>) {
        let ratios: Vec<f64> = rounds.0.iter().zip(rounds.1).map(|(one, other)| one / other).collect();
        self.tell(name, what, Unit::Ratio, &ratios, aim);
    }

    /// One object a figure.
    pub fn json_lines(&self) -> impl Iterator<Item = String> {
        self.figures.iter().map(|figure| figure.json().to_string())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN);
        table.set_header(["what", "median", "min to max", "rounds", "aim", ""]);
        for figure in &self.figures {
            let show = |value: f64| figure.unit.show(value);
            let range = figure.spread.range().map(|(min, max)| format!("{} to {}", show(min), show(max)));
            let aim = figure.aim.map(|aim| match aim {
                Aim::AtLeast(value) => format!("at least {}", show(value)),
                Aim::AtMost(value) => format!("at most {}", show(value)),
            });
            let verdict = match figure.met() {
                Some(true) => "met",
                Some(false) => "missed",
                None => "",
            };
            table.add_row([
                figure.what.clone(),
                figure.spread.median().map_or_else(|| "not measured".to_owned(), show),
                range.unwrap_or_default(),
                figure.spread.rounds().to_string(),
                aim.unwrap_or_default(),
                verdict.to_owned(),
            ]);
        }
        write!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(rounds: &[f64], aim: Aim) -> Figure {
        Figure {
            name: "throughput".into(),
            what: "end to end".into(),
            unit: Unit::Ratio,
            spread: rounds.iter().copied().collect(),
            aim: Some(aim),
        }
    }

    #[test]
    fn the_middle_round_decides_about_the_aim() {
        assert_eq!(figure(&[0.1, 0.6, 0.7], Aim::AtLeast(0.6)).met(), Some(true));
        assert_eq!(figure(&[0.1, 0.6, 0.7], Aim::AtMost(0.5)).met(), Some(false));
        assert_eq!(figure(&[], Aim::AtMost(0.5)).met(), None);
    }

    #[test]
    fn a_line_says_everything_a_script_needs() {
        let mut report = Report::default();
        report.add(figure(&[0.5, 0.75, 1.0], Aim::AtLeast(0.6)));
        let lines: Vec<Value> =
            report.json_lines().map(|line| serde_json::from_str(&line).unwrap()).collect();
        assert_eq!(
            lines,
            [json!({
                "figure": "throughput", "what": "end to end", "unit": "ratio", "median": 0.75, "min": 0.5,
                "max": 1.0, "rounds": 3, "aim": { "at_least": 0.6 }, "met": true,
            })]
        );
    }
}
