//! Which version a server is.
//!
//! A server says it in its first frame, which the client library keeps to itself. So it is asked for on a connection that
//! goes no further.

use lapin::types::parsing::parse_field_table;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::amqp;

/// What a client says first.
const HELLO: &[u8] = b"AMQP\0\0\x09\x01";
/// What stands in front of a frame's content, and in front of the table in the first one: class, method, version.
const FRAME: usize = 7;
const BEFORE_TABLE: usize = 6;
/// The largest first frame that is read.
const LARGEST: usize = 64 << 10;

/// Asks a server.
pub(crate) async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<(u32, u32)> {
    stream.write_all(HELLO).await.ok()?;
    stream.flush().await.ok()?;
    let mut heard = Vec::new();
    while heard.len() < LARGEST {
        if stream.read_buf(&mut heard).await.ok()? == 0 {
            return None;
        }
        if let Some(content) = content(&heard) {
            return read(content);
        }
    }
    None
}

/// The content of the frame, when it is all there.
fn content(frame: &[u8]) -> Option<&[u8]> {
    let size = frame.get(3..FRAME)?.try_into().ok().map(u32::from_be_bytes)?;
    frame.get(FRAME..FRAME.checked_add(usize::try_from(size).ok()?)?)
}

fn read(content: &[u8]) -> Option<(u32, u32)> {
    let (_, properties) = parse_field_table(content.get(BEFORE_TABLE..)?).ok()?;
    let text = amqp::text(properties.inner().get("version")?)?;
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_in_the_first_frame() {
        let table = b"\x00\x00\x00\x13\x07versionS\x00\x00\x00\x063.10.8";
        let mut frame = b"\x01\x00\x00".to_vec();
        frame.extend(u32::try_from(BEFORE_TABLE + table.len()).expect("a size").to_be_bytes());
        frame.extend(b"\x00\x0a\x00\x0a\x00\x09");
        frame.extend(table);
        assert_eq!(content(&frame).and_then(read), Some((3, 10)));
        assert_eq!(content(&frame[..frame.len() - 1]), None, "it is not all there");
    }
}
