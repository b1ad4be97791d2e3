//! Bodies of 512 bytes, each with a number in it.

/// Bytes of every body. The first eight are the number.
const BODY: usize = 512;

/// The body of this number.
pub fn body(number: u64) -> [u8; BODY] {
    let mut body = [b'x'; BODY];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body
}

/// The number in a body.
pub fn number_of(body: Option<&[u8]>) -> Option<u64> {
    body?.first_chunk().copied().map(u64::from_le_bytes)
}
