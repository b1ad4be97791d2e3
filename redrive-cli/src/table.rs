//! Columns for a terminal: each as wide as its widest cell, one of them wrapped when the line is too long.

use std::fmt::Write;

use crate::terminal::BOLD;

/// Between two columns.
const GAP: &str = "  ";
/// In front of each line.
const INDENT: &str = "  ";
/// No column is wrapped to less than this.
const NARROWEST: usize = 16;

/// Lays out rows under their heads. The cells of column `flexible` are wrapped between words to fit the width.
pub(crate) fn laid_out<const N: usize>(
    heads: [&str; N],
    rows: &[[String; N]],
    flexible: usize,
    width: usize,
) -> String {
    let mut widths = heads.map(|head| head.chars().count());
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(cell.chars().count());
        }
    }
    let others: usize =
        widths.iter().enumerate().filter(|(i, _)| *i != flexible).map(|(_, width)| width).sum();
    let gaps = INDENT.len() + GAP.len() * N.saturating_sub(1);
    if let Some(flexible) = widths.get_mut(flexible) {
        *flexible = (*flexible).min(width.saturating_sub(others + gaps).max(NARROWEST));
    }
    let mut text = String::new();
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}", line(&heads, &widths));
    for row in rows {
        let mut cells: [&str; N] = row.each_ref().map(String::as_str);
        let wrapped = wrapped(cells.get(flexible).copied().unwrap_or_default(), widths[flexible]);
        for (i, part) in wrapped.iter().enumerate() {
            if i > 0 {
                cells = [""; N];
            }
            cells[flexible] = part;
            let _ = writeln!(text, "{}", line(&cells, &widths));
        }
    }
    text
}

fn line<const N: usize>(cells: &[&str; N], widths: &[usize; N]) -> String {
    let padded: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    format!("{INDENT}{}", padded.join(GAP)).trim_end().to_owned()
}

fn wrapped(cell: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in cell.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else if let Some(line) = lines.last_mut() {
            if last > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
