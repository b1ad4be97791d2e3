//! The streams under a connection: plain or encrypted, and never with a message that ends the process.
//!
//! The client library reads tables in tables by recursion, so that headers of a few kilobytes, nested deep enough, would
//! take the stack of its thread, and with that the process, each time that they are delivered. So the stream looks at the
//! headers of each message before the library does, and ends the connection in their place.
//!
//! The library can be given a stream; it takes one of the type that its runtime connects with. So there is a runtime with
//! streams of this type, which is tokio in all else.

use std::future::ready;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_util::{AsyncRead, AsyncWrite, Stream};
use tokio::net::TcpStream;
use tokio_util::compat::TokioAsyncReadCompatExt as _;

use crate::amqp;

/// A runtime with these streams.
pub(crate) type Streaming = Runtime<RuntimeParts<Tokio, Streams>>;

/// Makes streams. They are made by hand, so that nothing here is asked to connect.
#[derive(Debug, Clone)]
pub(crate) struct Streams(Tokio);

/// The runtime that this is called in.
pub(crate) fn runtime() -> Streaming {
    let tokio = Tokio::current();
    Runtime::new(RuntimeParts::new(tokio.clone(), Streams(tokio)))
}

fn by_hand() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "streams are made before they are given to the client library")
}

impl Reactor for Streams {
    type TcpStream = Watched;
    type Sleep = <Tokio as Reactor>::Sleep;

    #[expect(refining_impl_trait_internal, reason = "there is never one to be named")]
    fn register<H: Read + Write + Send + 'static>(&self, _socket: H) -> io::Result<Self::TcpStream> {
        Err(by_hand())
    }

    fn sleep(&self, dur: Duration) -> Self::Sleep {
        self.0.sleep(dur)
    }

    fn interval(&self, dur: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(dur)
    }

    fn tcp_connect_addr(
        &self,
        _addr: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        ready(Err(by_hand()))
    }
}

/// A plain stream to a server.
pub(crate) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

trait Both: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Both for S {}

/// A stream whose messages are looked at before they are read.
pub(crate) struct Watched {
    stream: Pin<Box<dyn Both>>,
    frames: Frames,
}

impl Watched {
    pub(crate) fn new(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + 'static) -> Self {
        Self { stream: Box::pin(stream.compat()), frames: Frames::default() }
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = ready!(self.stream.as_mut().poll_read(cx, into))?;
        self.frames.look(&into[..read])?;
        Poll::Ready(Ok(read))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_close(cx)
    }
}

/// Where a stream stands in its frames.
#[derive(Debug, Default)]
struct Frames {
    /// The first bytes of a frame: its type, its channel, its size.
    head: [u8; 7],
    has: usize,
    /// How much of the frame is to come, its last byte included.
    left: usize,
    /// Whether it is one with a message's properties, and what has come of those. One buffer for all of them.
    is_properties: bool,
    properties: Vec<u8>,
}

impl Frames {
    /// The type of a frame with a message's properties, and what stands before these in it.
    const PROPERTIES: u8 = 2;
    const BEFORE: usize = 12;

    /// Looks at what comes next. An error where the client library must not read it.
    fn look(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (some, rest) = bytes.split_at(bytes.len().min(self.left));
                bytes = rest;
                self.left -= some.len();
                if self.is_properties {
                    self.properties.extend_from_slice(some);
                }
                if self.left == 0 {
                    self.ends()?;
                }
                continue;
            }
            let (some, rest) = bytes.split_at(bytes.len().min(self.head.len() - self.has));
            bytes = rest;
            self.head[self.has..self.has + some.len()].copy_from_slice(some);
            self.has += some.len();
            if self.has == self.head.len() {
                let [kind, _, _, size @ ..] = self.head;
                self.has = 0;
                self.left = (u32::from_be_bytes(size) as usize).saturating_add(1);
                self.is_properties = kind == Self::PROPERTIES;
                self.properties.clear();
            }
        }
        Ok(())
    }

    fn ends(&mut self) -> io::Result<()> {
        // Of any other frame there is nothing to look at.
        match self.properties.get(Self::BEFORE..).and_then(amqp::too_deep) {
            None => Ok(()),
            Some(place) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the headers of a message are nested deeper than can be read, at byte {place}"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with the properties of a message whose one header is so many arrays in each other.
    fn nested(depth: usize) -> Vec<u8> {
        let mut value: Vec<u8> = Vec::new();
        for _ in 0..depth {
            let size = u32::try_from(value.len()).unwrap().to_be_bytes();
            value = [&b"A"[..], &size, &value].concat();
        }
        let table = [&[1, b'k'][..], &value].concat();
        let size = u32::try_from(table.len()).unwrap().to_be_bytes();
        let payload = [&[0; Frames::BEFORE][..], &[0x20, 0], &size, &table].concat();
        let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&[2, 0, 1][..], &size, &payload, &[0xce]].concat()
    }

    #[test]
    fn what_is_nested_too_deep_is_found_however_it_comes_in_pieces() {
        // A method's frame, a heartbeat and a body between them are none of its business.
        let between = [
            &[1, 0, 1, 0, 0, 0, 2, 9, 9, 0xce][..],
            &[8, 0, 0, 0, 0, 0, 0, 0xce],
            &[3, 0, 1, 0, 0, 0, 1, 2, 0xce],
        ]
        .concat();
        let good = [nested(1), between.clone(), nested(40), between].concat();
        for piece in [1, 2, 7, 64, 100_000] {
            let mut frames = Frames::default();
            for some in good.chunks(piece) {
                frames.look(some).expect("it can be read");
            }
            let bad = nested(5_000);
            let found = bad.chunks(piece).find_map(|some| frames.look(some).err());
            let found = found.expect("it cannot be read").to_string();
            assert!(found.contains("nested deeper"), "{found}");
        }
    }
}
