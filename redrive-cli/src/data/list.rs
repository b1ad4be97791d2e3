//! Lists of the API: one JSON object per line for programs, a table for people.

use std::process::ExitCode;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::shown;
use crate::problem::Problem;
use crate::{table, terminal};

/// How a list is shown to people.
pub(crate) struct Shape<'a, T, const N: usize> {
    /// What is said when there is nothing.
    pub(crate) empty: &'a str,
    pub(crate) heads: [&'a str; N],
    /// Columns that may be wrapped.
    pub(crate) flexible: &'a [usize],
    pub(crate) row: fn(&T) -> [String; N],
}

/// Prints a list.
pub(crate) fn print<T: DeserializeOwned, const N: usize>(
    items: &[Value],
    json: bool,
    shape: &Shape<'_, T, N>,
) -> Result<ExitCode, Problem> {
    if json {
        return terminal::print(&shown::json_lines(items));
    }
    terminal::print(&text(&shown::all_typed(items)?, shape))
}

/// A list as text.
pub(crate) fn text<T, const N: usize>(items: &[T], shape: &Shape<'_, T, N>) -> String {
    if items.is_empty() {
        return format!("{}\n", shape.empty);
    }
    let rows: Vec<_> = items.iter().map(shape.row).collect();
    table::laid_out(shape.heads, &rows, shape.flexible, terminal::width())
}
