//! The last lines that a process wrote, however much it writes.

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is kept, in bytes.
const MAX_BYTES: usize = 4 * 1024;
/// How many lines are kept.
const MAX_LINES: usize = 20;

/// The end of a stream: at most 20 lines and 4 KB.
#[derive(Debug, Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(MAX_BYTES)..];
        // Twice the bound before anything moves, so that a stream of short lines is not moved at each of them.
        if self.0.len() + new.len() > 2 * MAX_BYTES {
            let keep = MAX_BYTES.saturating_sub(new.len()).min(self.0.len());
            self.0.drain(..self.0.len() - keep);
        }
        self.0.extend_from_slice(new);
    }

    /// Reads a stream to its end or to its first error.
    pub(super) async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = [0; 2048];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..read]);
        }
    }

    /// What is kept, as text.
    pub(super) fn text(&self) -> String {
        let bytes = &self.0[self.0.len().saturating_sub(MAX_BYTES)..];
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end();
        let from = text.rmatch_indices('\n').nth(MAX_LINES - 1).map_or(0, |(at, _)| at + 1);
        text[from..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_twenty_lines() {
        let mut tail = Tail::default();
        for number in 0..1_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let text = tail.text();
        assert_eq!((text.lines().next(), text.lines().count()), (Some("line 980"), 20));
        assert_eq!(text.lines().last(), Some("line 999"));
    }

    #[test]
    fn keeps_four_kilobytes_of_a_line_without_end() {
        let mut tail = Tail::default();
        for _ in 0..100 {
            tail.push(&[b'x'; 1_000]);
        }
        tail.push(&vec![b'y'; 100_000]);
        assert_eq!(tail.text(), "y".repeat(MAX_BYTES));
    }
}
