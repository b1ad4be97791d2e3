//! `cargo xtask demo`: the binary at work, with what was typed and what it answered.

use std::fmt::Write;

use crate::command::{cargo, quiet, show, tied};
use crate::error::{Context, Result, failed};
use crate::install;
use crate::metadata::Metadata;
use crate::place;
use crate::progress::Steps;

const PACKAGE: &str = "redrive-cli";
const PROGRAM: &str = "redrive";

/// What is shown: the arguments, and how many lines of the answer at most.
const SCENES: &[(&[&str], usize)] = &[
    (&["policy", "explain", "ladder"], usize::MAX),
    (&["policy", "explain", "exponential(5s, factor 2, max 5m, times 6) jitter full"], usize::MAX),
    (&["policy", "try", "--status", "503", "--retry-after", "30"], usize::MAX),
    (&["policy", "rules"], 20),
];

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::new(2);
    steps.run("install what is missing", || install::ensure(&[install::BUILD]))?;
    steps.run("build redrive", || {
        if Metadata::workspace()?.package(PACKAGE).is_none() {
            return Err(failed(format!("there is no package {PACKAGE} in this workspace to show")));
        }
        quiet("cargo build", cargo().args(["build", "--locked", "--package", PACKAGE, "--bin", PROGRAM]))
    })?;
    steps.clear();
    drop(steps);

    let program = place::target().join("debug").join(PROGRAM);
    for (arguments, lines) in SCENES {
        println!("$ {}", typed(arguments));
        let mut command = tied("TERM", &program);
        command.args(*arguments).current_dir(place::root());
        let status = if *lines == usize::MAX {
            show(&mut command)?
        } else {
            let output = command.output().context("cannot run the binary")?;
            print!("{}", head(&String::from_utf8_lossy(&output.stdout), *lines));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            output.status
        };
        if !status.success() {
            return Err(failed(format!("`{}` failed ({status})", typed(arguments))));
        }
        println!();
    }
    Ok(())
}

/// The command as one would type it.
fn typed(arguments: &[&str]) -> String {
    let quoted = arguments.iter().map(|argument| {
        if argument.contains([' ', '(', '*']) { format!("'{argument}'") } else { (*argument).to_owned() }
    });
    std::iter::once(PROGRAM.to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// The first lines of a text, and how many more there are.
fn head(text: &str, lines: usize) -> String {
    let mut shown: String = text.split_inclusive('\n').take(lines).collect();
    let more = text.lines().count().saturating_sub(lines);
    if more > 0 {
        let _ = writeln!(shown, "… and {more} more lines");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_split_is_quoted() {
        assert_eq!(
            typed(&["policy", "explain", "fixed(1s, times 2)"]),
            "redrive policy explain 'fixed(1s, times 2)'"
        );
    }

    #[test]
    fn a_long_answer_is_cut_and_says_so() {
        assert_eq!(head("a\nb\nc\n", 2), "a\nb\n… and 1 more lines\n");
        assert_eq!(head("a\nb\n", 2), "a\nb\n");
    }
}
