//! Two requests of Kafka's protocol, enough to see that a broker serves clients, without a client library.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
/// No answer to these requests is longer.
const MAX_ANSWER: usize = 1 << 20;

/// How many brokers the one on this port knows; an error while it does not answer or has no controller.
pub(super) fn brokers(port: u16) -> io::Result<usize> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;

    let versions = call(&mut stream, API_VERSIONS, 0, &[])?;
    if Reader(&versions).i16()? != 0 {
        return Err(io::Error::other("the broker refused to tell its versions"));
    }
    // An empty list of topics: only the brokers are of interest.
    let metadata = call(&mut stream, METADATA, 1, &0_i32.to_be_bytes())?;
    count_brokers(&metadata)
}

fn count_brokers(metadata: &[u8]) -> io::Result<usize> {
    let mut reader = Reader(metadata);
    let count = reader.i32()?;
    for _ in 0..count {
        reader.i32()?;
        reader.text()?;
        reader.i32()?;
        reader.text()?;
    }
    if reader.i32()? < 0 {
        return Err(io::Error::other("the cluster has no controller yet"));
    }
    usize::try_from(count).map_err(io::Error::other)
}

fn call(stream: &mut TcpStream, api: i16, version: i16, body: &[u8]) -> io::Result<Vec<u8>> {
    const CORRELATION: i32 = 7;
    let mut request = Vec::new();
    request.extend(api.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(CORRELATION.to_be_bytes());
    request.extend((-1_i16).to_be_bytes());
    request.extend(body);
    stream.write_all(&u32::try_from(request.len()).map_err(io::Error::other)?.to_be_bytes())?;
    stream.write_all(&request)?;

    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if !(4..=MAX_ANSWER).contains(&length) {
        return Err(io::Error::other("not a Kafka answer"));
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    if Reader(&answer).i32()? != CORRELATION {
        return Err(io::Error::other("an answer to something else"));
    }
    Ok(answer.split_off(4))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(*head)
    }

    fn i16(&mut self) -> io::Result<i16> {
        Ok(i16::from_be_bytes(self.take()?))
    }

    fn i32(&mut self) -> io::Result<i32> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    /// Passes over a text, which may be null.
    fn text(&mut self) -> io::Result<()> {
        let length = usize::try_from(self.i16()?).unwrap_or(0);
        self.0 = self.0.get(length..).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(brokers: i32, controller: i32) -> Vec<u8> {
        let mut bytes = brokers.to_be_bytes().to_vec();
        for id in 0..brokers {
            bytes.extend(id.to_be_bytes());
            bytes.extend([0, 1, b'h']);
            bytes.extend(9092_i32.to_be_bytes());
            bytes.extend((-1_i16).to_be_bytes());
        }
        bytes.extend(controller.to_be_bytes());
        bytes
    }

    #[test]
    fn brokers_are_counted_once_there_is_a_controller() {
        assert_eq!(count_brokers(&answer(3, 1)).unwrap(), 3);
        assert!(count_brokers(&answer(1, -1)).is_err());
    }

    #[test]
    fn a_short_or_hostile_answer_is_an_error() {
        let whole = answer(2, 1);
        for length in 0..whole.len() {
            assert!(count_brokers(&whole[..length]).is_err(), "{length}");
        }
        assert!(count_brokers(&i32::MAX.to_be_bytes()).is_err());
    }

    #[test]
    fn a_closed_port_is_an_error() {
        let port = super::super::ports::free().unwrap();
        assert!(brokers(port).is_err());
    }
}
