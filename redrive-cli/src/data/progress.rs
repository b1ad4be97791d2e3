//! How far long work is: one line on stderr that is written over, where stderr is a terminal.

use std::io::{IsTerminal as _, Write as _};

/// A line that is written over. Gone when this is dropped, so that what is said next stands alone.
pub(crate) struct Progress {
    wanted: bool,
    last: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { wanted: std::io::stderr().is_terminal(), last: String::new() }
    }

    pub(crate) fn show(&mut self, text: String) {
        if self.wanted && text != self.last {
            // Where nobody listens, nothing is left to do.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}");
            self.last = text;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.last.is_empty() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
