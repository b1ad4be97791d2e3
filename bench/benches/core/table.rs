//! What was measured, side by side with what was aimed for.

use std::fmt;

use crate::measure::Measured;

/// What a figure should reach.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Aim {
    /// At most so many nanoseconds.
    pub(crate) nanos: Option<f64>,
    /// At most so many allocations.
    pub(crate) allocations: Option<f64>,
}

/// A table of costs.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(String, Measured, Aim)>,
}

impl Table {
    /// Adds a row.
    pub(crate) fn add(&mut self, name: &str, measured: Measured, aim: Aim) {
        self.rows.push((name.to_owned(), measured, aim));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
        table.set_header(["what", "ns", "noise", "allocations", "bytes", "aim", ""]);
        for (name, measured, aim) in &self.rows {
            // What was not counted met nothing.
            let missed = |figure: f64, aim: Option<f64>| {
                aim.is_some_and(|aim| figure.partial_cmp(&aim).is_none_or(std::cmp::Ordering::is_gt))
            };
            let counted = |figure: f64, digits: usize| {
                if figure.is_nan() { "–".to_owned() } else { format!("{figure:.digits$}") }
            };
            let verdict = match (aim.nanos, aim.allocations) {
                (None, None) => "",
                _ if missed(measured.nanos, aim.nanos) || missed(measured.allocations, aim.allocations) => {
                    "missed"
                }
                _ => "met",
            };
            let wanted = [
                aim.nanos.map(|nanos| format!("{nanos} ns")),
                aim.allocations.map(|count| format!("{count} allocations")),
            ];
            table.add_row([
                name.clone(),
                format!("{:.0}", measured.nanos),
                format!("±{:.0} %", measured.noise * 100.0),
                counted(measured.allocations, 1),
                counted(measured.bytes, 0),
                wanted.into_iter().flatten().collect::<Vec<_>>().join(", "),
                verdict.to_owned(),
            ]);
        }
        write!(f, "{table}")
    }
}
