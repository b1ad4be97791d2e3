//! Lines of a stream, each of a bounded length.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// One line, or word of one that was too long to be kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The line without its end.
    Whole(Vec<u8>),
    /// A line longer than the bound, stepped over.
    TooLong,
}

/// The next line, nothing at the end of the stream. The last line needs no line end.
pub(super) async fn next_line<R: AsyncBufRead + Unpin>(
    stream: &mut R,
    max: usize,
) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    let mut began = false;
    loop {
        let buffer = stream.fill_buf().await?;
        if buffer.is_empty() {
            break;
        }
        began = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        if line.len() + part.len() > max {
            too_long = true;
            line = Vec::new();
        }
        if !too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        stream.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(began.then_some(if too_long { Line::TooLong } else { Line::Whole(line) }))
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    #[tokio::test]
    async fn steps_over_what_is_too_long() {
        let text = format!("one\n\n{}\nfour\n{}", "x".repeat(100), "last");
        let mut stream = BufReader::with_capacity(7, text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut stream, 10).await.unwrap() {
            lines.push(line);
        }
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(lines, [whole("one"), whole(""), Line::TooLong, whole("four"), whole("last")]);
    }
}
