//! Writing to the terminal: colours only where they are wanted, and no panic when the reader has gone.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::Style;
use redrive::codes;

use crate::problem::{FAILED, Problem};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// How wide a line may be where there is no terminal to ask.
const WIDTH: usize = 100;

/// Prints data to stdout. A reader that has gone, as in `| head`, has seen enough.
pub(crate) fn print(text: &str) -> Result<ExitCode, Problem> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Problem::new(codes::NO_FILE, FAILED, format!("cannot write: {error}"))),
    }
}

/// Prints all else to stderr.
pub(crate) fn say(text: &str) {
    // Where nobody listens, nothing is left to do.
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// The width of the terminal that stdout goes to.
pub(crate) fn width() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    size.map_or(WIDTH, |(width, _)| usize::from(width.0).clamp(40, 200))
}

/// The width of the terminal that stderr goes to.
pub(crate) fn stderr_width() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(WIDTH, |(width, _)| usize::from(width.0).clamp(20, 200))
}

/// Whether stderr is a terminal that wants colours.
pub(crate) fn colours_on_stderr() -> bool {
    std::io::stderr().is_terminal()
        && anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}
