//! Columns for a terminal: each as wide as its widest cell, some of them wrapped when the line is too long.

use std::fmt::Write;

use crate::terminal::BOLD;

/// Between two columns.
const GAP: &str = "  ";
/// In front of each line.
const INDENT: &str = "  ";
/// No column is wrapped to less than this.
const NARROWEST: usize = 16;

/// Lays out rows under their heads. The cells of the `flexible` columns are wrapped between words until a line fits
/// the width, the widest column first.
pub(crate) fn laid_out<const N: usize>(
    heads: [&str; N],
    rows: &[[String; N]],
    flexible: &[usize],
    width: usize,
) -> String {
    let mut widths = heads.map(|head| head.chars().count());
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(cell.chars().count());
        }
    }
    let gaps = INDENT.len() + GAP.len() * N.saturating_sub(1);
    let longest_words: [usize; N] = std::array::from_fn(|i| {
        let words = rows.iter().flat_map(|row| row[i].split(' ')).map(|word| word.chars().count());
        words.max().unwrap_or(0).max(NARROWEST)
    });
    // Words stick out of their column only where lines would be too long otherwise.
    for narrowest in [longest_words, [NARROWEST; N]] {
        while widths.iter().sum::<usize>() + gaps > width {
            let narrower = flexible.iter().filter(|i| widths[**i] > narrowest[**i]);
            match narrower.max_by_key(|i| widths[**i]) {
                Some(i) => widths[*i] -= 1,
                None => break,
            }
        }
    }
    let mut text = String::new();
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}", line(&heads.map(str::to_owned), &widths));
    for row in rows {
        let mut columns: [_; N] = std::array::from_fn(|i| {
            let wraps = flexible.contains(&i);
            if wraps { wrapped(&row[i], widths[i]) } else { vec![row[i].clone()] }.into_iter()
        });
        loop {
            let cells = columns.each_mut().map(Iterator::next);
            if cells.iter().all(Option::is_none) {
                break;
            }
            let _ = writeln!(text, "{}", line(&cells.map(Option::unwrap_or_default), &widths));
        }
    }
    text
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_whole() {
        assert_eq!(wrapped("a bb ccc dddd", 6), ["a bb", "ccc", "dddd"]);
        assert_eq!(wrapped("a bbbbbbbbb c", 4), ["a", "bbbbbbbbb", "c"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("abcd efgh", 4), ["abcd", "efgh"]);
    }

    #[test]
    fn the_widest_flexible_column_gives_way_first() {
        let row = |a: &str, b: &str| [a.to_owned(), "fixed".to_owned(), b.to_owned()];
        let rows = [row(&"one two ".repeat(10), "three four five six"), row("x", "y")];
        let text = laid_out(["a", "b", "c"], &rows, &[0, 2], 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("three four five six"), "only the first is wrapped: {text}");
        let narrow = laid_out(["a", "b", "c"], &rows, &[0, 2], 10);
        assert!(narrow.contains("three four five\n"), "both to no less than is readable: {narrow}");
    }
}
