//! Headers as one blob: in their order, a name as often as it was written, null apart from empty.
//!
//! `count, (name length, name, value length + 1 or 0 for null, value)*`, numbers as LEB128. Read in place: the values
//! share the blob's memory.

use bytes::Bytes;
use redrive_core::headers::Field;
use redrive_core::{HeaderName, Headers};

/// Nothing for no headers, so that the usual message stores none.
pub(crate) fn encode(headers: &Headers) -> Option<Vec<u8>> {
    if headers.is_empty() {
        return None;
    }
    let size: usize = headers
        .iter()
        .map(|header| 6 + header.name.as_str().len() + header.value.as_ref().map_or(0, Bytes::len))
        .sum();
    let mut blob = Vec::with_capacity(size + 4);
    number(&mut blob, headers.len());
    for header in headers {
        let name = header.name.as_str().as_bytes();
        number(&mut blob, name.len());
        blob.extend_from_slice(name);
        match &header.value {
            None => number(&mut blob, 0),
            Some(value) => {
                number(&mut blob, value.len() + 1);
                blob.extend_from_slice(value);
            }
        }
    }
    Some(blob)
}

/// The headers of a blob; nothing when it is damaged.
pub(crate) fn decode(blob: &Bytes) -> Option<Headers> {
    let mut reader = Reader { blob, at: 0 };
    let count = reader.number()?;
    let mut headers = Headers::with_capacity(count.min(blob.len() / 2 + 1));
    for _ in 0..count {
        let length = reader.number()?;
        let name = reader.take(length)?;
        let name = std::str::from_utf8(&name).ok()?;
        let value = match reader.number()? {
            0 => None,
            more => Some(reader.take(more - 1)?),
        };
        // A name of Redrive's own is known; only others are copied.
        let name = Field::of(name)
            .map_or_else(|| HeaderName::from(name), |field| HeaderName::from_static(field.name()));
        headers.push_header(name, value);
    }
    (reader.at == blob.len()).then_some(headers)
}

fn number(blob: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        blob.push(value as u8 | 0x80);
        value >>= 7;
    }
    blob.push(value as u8);
}

struct Reader<'a> {
    blob: &'a Bytes,
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<usize> {
        let mut value: usize = 0;
        for shift in (0..35).step_by(7) {
            let byte = *self.blob.get(self.at)?;
            self.at += 1;
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<Bytes> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.blob.len())?;
        let part = self.blob.slice(self.at..end);
        self.at = end;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_come_back_as_they_were(
            list in prop::collection::vec((".{0,20}", prop::option::of(prop::collection::vec(any::<u8>(), 0..300))), 0..12)
        ) {
            let mut headers = Headers::new();
            for (name, value) in list {
                headers.push_header(name, value.map(Bytes::from));
            }
            match encode(&headers) {
                None => prop_assert!(headers.is_empty()),
                Some(blob) => prop_assert_eq!(decode(&Bytes::from(blob)), Some(headers)),
            }
        }

        #[test]
        fn a_damaged_blob_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&Bytes::from(bytes));
        }
    }
}
