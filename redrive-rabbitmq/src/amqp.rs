//! AMQP's own values: their encoding, and how they are shown to handlers as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use bytes::Bytes;
use lapin::BasicProperties;
use lapin::protocol::basic::{gen_properties, parse_properties};
use lapin::types::{AMQPValue, FieldTable};
use serde_json::{Value, json};

/// How deep tables in tables are shown.
const DEEPEST: usize = 16;
/// How deep tables in carried properties are read: reading takes room on the stack for each.
const NESTED: usize = 64;
/// The longest text of carried properties that is read.
const LONGEST: usize = 256 << 10;

/// Properties as bytes, as AMQP encodes them.
pub(crate) fn encoded(properties: &BasicProperties) -> Option<Vec<u8>> {
    cookie_factory::gen_simple(gen_properties(properties), Vec::with_capacity(256)).ok()
}

/// No fewer bytes than properties have when they are encoded; nothing when only encoding tells.
pub(crate) fn at_most(properties: &BasicProperties) -> Option<usize> {
    // Every property but the headers is a short string or a number.
    const PROPERTIES: usize = 14 * 256;
    let mut size = PROPERTIES;
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        let value = match value {
            AMQPValue::LongString(text) => text.len(),
            AMQPValue::ByteArray(bytes) => bytes.len(),
            AMQPValue::ShortString(_) => 255,
            AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_) => return None,
            _ => 8,
        };
        size += 1 + name.as_str().len() + 1 + 4 + value;
    }
    Some(size)
}

/// Properties as the text of a header.
pub(crate) fn to_text(properties: &BasicProperties) -> Option<String> {
    encoded(properties).map(|bytes| BASE64.encode(bytes))
}

/// Properties that a header carries. What is not readable is an error that names the place.
pub(crate) fn from_text(text: &[u8]) -> Result<BasicProperties, String> {
    if text.len() > LONGEST {
        return Err(format!("{} bytes are more than the {LONGEST} that are read", text.len()));
    }
    let bytes = BASE64.decode(text).map_err(|error| error.to_string())?;
    if let Some(place) = too_deep(&bytes) {
        return Err(format!("tables are nested deeper than {NESTED} at byte {place}"));
    }
    let (rest, properties) = parse_properties(&bytes[..]).map_err(|_| "no properties of AMQP".to_owned())?;
    if rest.is_empty() { Ok(properties) } else { Err(format!("{} bytes are left over", rest.len())) }
}

/// Where properties have a table or an array that is nested too deep; found without recursion.
pub(crate) fn too_deep(bytes: &[u8]) -> Option<usize> {
    const CONTENT_TYPE: u16 = 1 << 15;
    const CONTENT_ENCODING: u16 = 1 << 14;
    const HEADERS: u16 = 1 << 13;
    let flags = u16::from_be_bytes(bytes.get(..2)?.try_into().ok()?);
    let mut at = 2;
    for flag in [CONTENT_TYPE, CONTENT_ENCODING] {
        if flags & flag != 0 {
            at += 1 + usize::from(*bytes.get(at)?);
        }
    }
    if flags & HEADERS == 0 {
        return None;
    }
    let size = |at: usize| {
        let size = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(size)).ok()
    };
    // The ends of the tables and arrays that stand open, and whether their values have names.
    let mut open = vec![(at + 4 + size(at)?, true)];
    at += 4;
    while let Some((end, named)) = open.last().copied() {
        if at >= end {
            open.pop();
            continue;
        }
        if named {
            at += 1 + usize::from(*bytes.get(at)?);
        }
        let kind = *bytes.get(at)?;
        at += 1;
        at += match kind {
            b'F' | b'A' => {
                if open.len() >= NESTED {
                    return Some(at);
                }
                open.push((at + 4 + size(at)?, kind == b'F'));
                4
            }
            b'S' | b'x' => 4 + size(at)?,
            b'V' => 0,
            b't' | b'b' | b'B' => 1,
            b's' | b'u' | b'U' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'L' | b'l' | b'd' | b'T' => 8,
            // Nobody reads on from here.
            _ => return None,
        };
    }
    None
}

/// A value as a handler sees it. Text and bytes are themselves; nothing is nothing.
pub(crate) fn shown(value: &AMQPValue) -> Option<Bytes> {
    Some(match value {
        AMQPValue::LongString(text) => Bytes::copy_from_slice(text.as_bytes()),
        AMQPValue::ShortString(text) => Bytes::copy_from_slice(text.as_str().as_bytes()),
        AMQPValue::ByteArray(bytes) => Bytes::copy_from_slice(bytes.as_slice()),
        AMQPValue::Void => return None,
        other => match json_of(other, DEEPEST) {
            Value::String(text) => text.into(),
            value => value.to_string().into(),
        },
    })
}

/// The whole number that a value is.
pub(crate) fn number(value: &AMQPValue) -> Option<i64> {
    Some(match value {
        AMQPValue::ShortShortInt(number) => (*number).into(),
        AMQPValue::ShortShortUInt(number) => (*number).into(),
        AMQPValue::ShortInt(number) => (*number).into(),
        AMQPValue::ShortUInt(number) => (*number).into(),
        AMQPValue::LongInt(number) => (*number).into(),
        AMQPValue::LongUInt(number) => (*number).into(),
        AMQPValue::LongLongInt(number) => *number,
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok()?.parse().ok()?,
        _ => return None,
    })
}

/// The text that a value is.
pub(crate) fn text(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str().to_owned()),
        _ => None,
    }
}

/// A time of the broker, which counts seconds, in milliseconds.
pub(crate) fn in_millis(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000)
}

fn json_of(value: &AMQPValue, deepest: usize) -> Value {
    match value {
        AMQPValue::Boolean(yes) => json!(yes),
        AMQPValue::Float(number) => json!(number),
        AMQPValue::Double(number) => json!(number),
        AMQPValue::DecimalValue(decimal) => {
            json!(f64::from(decimal.value) / 10_f64.powi(i32::from(decimal.scale)))
        }
        AMQPValue::Timestamp(seconds) => json!(in_millis(*seconds)),
        AMQPValue::LongString(text) => json!(String::from_utf8_lossy(text.as_bytes())),
        AMQPValue::ShortString(text) => json!(text.as_str()),
        AMQPValue::ByteArray(bytes) => json!(BASE64.encode(bytes.as_slice())),
        AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_) if deepest == 0 => json!("…"),
        AMQPValue::FieldArray(array) => {
            array.as_slice().iter().map(|value| json_of(value, deepest - 1)).collect()
        }
        AMQPValue::FieldTable(table) => json_of_table(table, deepest - 1),
        AMQPValue::Void => Value::Null,
        number_like => number(number_like).map_or(Value::Null, |number| json!(number)),
    }
}

fn json_of_table(table: &FieldTable, deepest: usize) -> Value {
    let entries = table.inner().iter();
    Value::Object(entries.map(|(name, value)| (name.as_str().to_owned(), json_of(value, deepest))).collect())
}

#[cfg(test)]
mod tests {
    use lapin::types::{DecimalValue, FieldArray};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_of_value_is_shown_as_text() {
        let array: FieldArray = vec![AMQPValue::LongInt(1), AMQPValue::Boolean(true)].into();
        let mut table = FieldTable::default();
        table.insert("a".into(), AMQPValue::FieldArray(array));
        for (value, text) in [
            (AMQPValue::LongInt(-3), "-3"),
            (AMQPValue::Boolean(true), "true"),
            (AMQPValue::Timestamp(1_700_000_000), "1700000000000"),
            (AMQPValue::Double(1.5), "1.5"),
            (AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 150 }), "1.5"),
            (AMQPValue::ByteArray(vec![104, 105].into()), "hi"),
            (AMQPValue::FieldTable(table), r#"{"a":[1,true]}"#),
        ] {
            assert_eq!(shown(&value).as_deref(), Some(text.as_bytes()), "{value:?}");
        }
        assert_eq!(shown(&AMQPValue::Void), None);
    }

    #[test]
    fn properties_come_back_as_they_were() {
        let mut table = FieldTable::default();
        table.insert("n".into(), AMQPValue::ShortShortUInt(7));
        let properties = BasicProperties::default()
            .with_headers(table)
            .with_priority(9)
            .with_timestamp(5)
            .with_type("t".into())
            .with_expiration("60000".into());
        let text = to_text(&properties).expect("text");
        assert_eq!(from_text(text.as_bytes()), Ok(properties));
    }

    #[test]
    fn tables_that_are_nested_without_an_end_are_not_read() {
        let nested = |depth: usize, array: bool| {
            let mut value = AMQPValue::Boolean(true);
            for _ in 1..depth {
                let mut table = FieldTable::default();
                table.insert("a".into(), value);
                value = AMQPValue::FieldTable(table);
                if array {
                    value = AMQPValue::FieldArray(vec![value].into());
                }
            }
            let mut table = FieldTable::default();
            table.insert("before".into(), AMQPValue::LongString("text".into()));
            table.insert("deep".into(), value);
            BasicProperties::default().with_content_type("t".into()).with_headers(table)
        };
        let read = |properties: &BasicProperties| from_text(to_text(properties).expect("text").as_bytes());
        assert_eq!(read(&nested(NESTED, false)), Ok(nested(NESTED, false)));
        for properties in [nested(NESTED + 1, false), nested(NESTED, true)] {
            let why = read(&properties).expect_err("it is too deep");
            assert!(why.starts_with("tables are nested deeper than 64 at byte "), "{why}");
        }
        // Written by hand: as deep as so long a text can be.
        let depth = 20_000_u32;
        let mut bytes = vec![0x20, 0];
        for level in 0..depth {
            let inner = (depth - level - 1) * 6;
            bytes.extend(inner.to_be_bytes());
            bytes.extend_from_slice(&[0, b'F'][..if level + 1 < depth { 2 } else { 0 }]);
        }
        let why = from_text(BASE64.encode(&bytes).as_bytes()).expect_err("it is too deep");
        assert!(why.contains("nested deeper"), "{why}");
    }

    proptest! {
        #[test]
        fn no_encoding_is_larger_than_it_may_be(
            texts in prop::collection::btree_map("[a-z]{0,255}", prop::collection::vec(any::<u8>(), 0..500), 0..20),
            number in any::<i64>(),
        ) {
            let mut table = FieldTable::default();
            for (name, value) in texts {
                table.insert(name.into(), AMQPValue::LongString(value.into()));
            }
            table.insert("n".into(), AMQPValue::LongLongInt(number));
            let long = || lapin::types::ShortString::from("x".repeat(255));
            let properties = BasicProperties::default()
                .with_headers(table)
                .with_content_type(long())
                .with_content_encoding(long())
                .with_correlation_id(long())
                .with_reply_to(long())
                .with_expiration(long())
                .with_message_id(long())
                .with_type(long())
                .with_user_id(long())
                .with_app_id(long())
                .with_cluster_id(long())
                .with_priority(1)
                .with_delivery_mode(2)
                .with_timestamp(3);
            let size = encoded(&properties).map(|bytes| bytes.len());
            prop_assert!(size <= at_most(&properties), "{:?}", size);
        }

        #[test]
        fn hostile_text_is_no_property(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = from_text(&text);
            let _ = from_text(BASE64.encode(&text).as_bytes());
        }
    }
}
