//! JSON pointers, and finding what several of them point at in one pass over a body.
//!
//! A body belongs to the handler; Redrive looks at a few values of it and never keeps a tree. The finder walks the
//! bytes once with a serde visitor, goes down only where a wanted path goes, and skips all else.

use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Text;

const MAX_POINTER: usize = 512;
const MAX_DEPTH: usize = 32;
/// How many pointers one pass can look for: one bit each.
const MAX_POINTERS: usize = 64;

/// A text that is no JSON pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// It does not begin with a slash.
    #[error("expected a JSON pointer that begins with `/`, such as `/order/id`")]
    NoSlash,
    /// A tilde stands for nothing.
    #[error("expected `~0` (for `~`) or `~1` (for `/`) in a JSON pointer")]
    Tilde,
    /// It is longer or deeper than a body will be searched.
    #[error("expected a JSON pointer of at most 512 bytes and 32 steps")]
    TooLong,
}

/// A JSON pointer (RFC 6901) to a value below the root.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Step {
    name: String,
    index: Option<usize>,
}

impl Step {
    fn new(token: &str) -> Self {
        // As RFC 6901 has it: digits without a leading zero. Anything else names a member only.
        let is_index =
            token.bytes().all(|byte| byte.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
        let index = if is_index { token.parse().ok() } else { None };
        Self { name: token.replace("~1", "/").replace("~0", "~"), index }
    }
}

impl Pointer {
    /// The pointer as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        let rest = text.strip_prefix('/').ok_or(PointerError::NoSlash)?;
        if text.len() > MAX_POINTER || rest.split('/').count() > MAX_DEPTH {
            return Err(PointerError::TooLong);
        }
        if text.split('~').skip(1).any(|after| !after.starts_with(['0', '1'])) {
            return Err(PointerError::Tilde);
        }
        Ok(Self { text: text.to_owned(), steps: rest.split('/').map(Step::new).collect() })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// A body that was searched and is not JSON from its first byte to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;

/// The scalars that the pointers point at, as text of at most `max` characters, in the pointers' order.
///
/// Strings as they are, numbers as serde_json prints them, booleans as `true` and `false`; nothing for null,
/// arrays, objects and what is not there. Where a key is repeated its last value counts. Nothing at all is
/// returned from a body that is not JSON to its end.
pub(crate) fn find(body: &[u8], pointers: &[&Pointer], max: usize) -> Result<Vec<Option<Text>>, NotJson> {
    let mut found = Vec::with_capacity(pointers.len());
    for part in pointers.chunks(MAX_POINTERS) {
        let mut texts = vec![None; part.len()];
        let active = u64::MAX >> (MAX_POINTERS - part.len());
        let mut json = serde_json::Deserializer::from_slice(body);
        Search { pointers: part, depth: 0, active, max, found: &mut texts }
            .deserialize(&mut json)
            .and_then(|()| json.end())
            .map_err(|_| NotJson)?;
        found.append(&mut texts);
    }
    Ok(found)
}

/// A value on the way of the pointers in `active`, whose first `depth` steps led here.
struct Search<'a> {
    pointers: &'a [&'a Pointer],
    depth: usize,
    active: u64,
    max: usize,
    found: &'a mut [Option<Text>],
}

impl Search<'_> {
    fn wanted(&self) -> impl Iterator<Item = (usize, &Pointer)> {
        let active = self.active;
        self.pointers.iter().enumerate().filter(move |(i, _)| active >> i & 1 == 1).map(|(i, p)| (i, *p))
    }

    /// The pointers whose next step is this one.
    fn next(&self, leads: impl Fn(&Step) -> bool) -> u64 {
        let next = self.wanted().filter(|(_, pointer)| pointer.steps.get(self.depth).is_some_and(&leads));
        next.fold(0, |set, (i, _)| set | 1 << i)
    }

    fn below(&mut self, active: u64) -> Search<'_> {
        // A value found under an earlier member of the same name no longer counts.
        for (i, text) in self.found.iter_mut().enumerate() {
            if active >> i & 1 == 1 {
                *text = None;
            }
        }
        Search { pointers: self.pointers, depth: self.depth + 1, active, max: self.max, found: self.found }
    }

    fn scalar(self, value: &dyn fmt::Display) {
        let here: Vec<usize> =
            self.wanted().filter(|(_, pointer)| pointer.steps.len() == self.depth).map(|(i, _)| i).collect();
        if here.is_empty() {
            return;
        }
        let text = Text::from(value.to_string()).cut(self.max);
        for i in here {
            if let Some(found) = self.found.get_mut(i) {
                *found = Some(text.clone());
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(active) = map.next_key_seed(NextStep(&self))? {
            if active == 0 {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(self.below(active))?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        for place in 0.. {
            let active = self.next(|step| step.index == Some(place));
            let more = if active == 0 {
                seq.next_element::<IgnoredAny>()?.is_some()
            } else {
                seq.next_element_seed(self.below(active))?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        // A long string is cut before it is copied.
        let end = value.char_indices().nth(self.max).map_or(value.len(), |(end, _)| end);
        self.scalar(&&value[..end]);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.scalar(&value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.scalar(&value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalar(&value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        if let Some(number) = serde_json::Number::from_f64(value) {
            self.scalar(&number);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads a key without keeping it, as the set of pointers that go on under it.
struct NextStep<'a, 'b>(&'a Search<'b>);

impl<'de> DeserializeSeed<'de> for NextStep<'_, '_> {
    type Value = u64;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NextStep<'_, '_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<u64, E> {
        Ok(self.0.next(|step| step.name == key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn find_one(body: &str, pointer: &str) -> Option<String> {
        let pointer: Pointer = pointer.parse().unwrap();
        find(body.as_bytes(), &[&pointer], 256).unwrap().remove(0).map(|text| text.to_string())
    }

    #[test]
    fn finds_scalars_and_nothing_else() {
        let body = r#"{"a":{"b":[1,{"c~/d":"x"},true,null,-2.5]},"":{"":"e"},"0":"zero"}"#;
        for (pointer, expected) in [
            ("/a/b/0", Some("1")),
            ("/a/b/1/c~0~1d", Some("x")),
            ("/a/b/2", Some("true")),
            ("/a/b/3", None),
            ("/a/b/4", Some("-2.5")),
            ("/a/b/5", None),
            ("/a/b/00", None),
            ("/a/b/-", None),
            ("/a/b", None),
            ("/a/b/0/x", None),
            ("//", Some("e")),
            ("/0", Some("zero")),
        ] {
            assert_eq!(find_one(body, pointer).as_deref(), expected, "{pointer}");
        }
    }

    #[test]
    fn the_last_of_repeated_keys_counts() {
        assert_eq!(find_one(r#"{"a":1,"a":2}"#, "/a").as_deref(), Some("2"));
        assert_eq!(find_one(r#"{"a":{"b":1},"a":{}}"#, "/a/b"), None);
        assert_eq!(find_one(r#"{"a":1,"a":null}"#, "/a"), None);
    }

    #[test]
    fn what_is_not_json_to_its_end_gives_nothing() {
        let pointer: Pointer = "/a".parse().unwrap();
        for body in ["", "{", r#"{"a":1"#, r#"{"a":1}x"#, "\u{feff}{}", &"[".repeat(100_000)] {
            assert_eq!(find(body.as_bytes(), &[&pointer], 9), Err(NotJson));
        }
    }

    #[test]
    fn many_pointers_are_all_found() {
        let body = serde_json::to_vec(&(0..200).map(|i| i * 3).collect::<Vec<_>>()).unwrap();
        let pointers: Vec<Pointer> = (0..200).map(|i| format!("/{i}").parse().unwrap()).collect();
        let found = find(&body, &pointers.iter().collect::<Vec<_>>(), 9).unwrap();
        assert!(found.iter().enumerate().all(|(i, text)| text.as_deref() == Some(&(i * 3).to_string())));
    }

    #[test]
    fn refuses_what_is_no_pointer() {
        for text in ["", "a", "a/b", "/~", "/~2", "/a~", &"/a".repeat(33), &format!("/{}", "a".repeat(512))] {
            assert!(text.parse::<Pointer>().is_err(), "{text}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e300..1e300).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 48, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map("[ab0-2~/é]{0,2}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Every pointer into the value, with the scalar that it points at.
    fn paths(value: &Value, at: &str, out: &mut Vec<String>) {
        let step = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, item)| paths(item, &step(&i.to_string()), out));
            }
            Value::Object(map) => map.iter().for_each(|(key, item)| paths(item, &step(key), out)),
            _ => {}
        }
        if !at.is_empty() {
            out.push(at.to_owned());
        }
    }

    proptest! {
        #[test]
        fn finds_what_a_tree_would(value in json(), missing in "(/[ab0-2]{0,2}){1,4}") {
            let body = serde_json::to_vec(&value).unwrap();
            let tree: Value = serde_json::from_slice(&body).unwrap();
            let mut texts = vec![missing];
            paths(&value, "", &mut texts);
            let pointers: Vec<Pointer> = texts.iter().map(|text| text.parse().unwrap()).collect();
            let found = find(&body, &pointers.iter().collect::<Vec<_>>(), 256).unwrap();
            for (pointer, found) in texts.iter().zip(found) {
                let expected = match tree.pointer(pointer) {
                    None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => None,
                    Some(Value::String(text)) => Some(text.clone()),
                    Some(other) => Some(other.to_string()),
                };
                prop_assert_eq!(found.as_deref(), expected.as_deref(), "{}", pointer);
            }
        }

        #[test]
        fn no_body_and_no_pointer_panics(body: Vec<u8>, almost in "[{}\\[\\]:,\"a0-9.e+-]{0,64}", text: String) {
            let pointer: Pointer = "/a/0".parse().unwrap();
            let _ = find(&body, &[&pointer], 8);
            let _ = find(almost.as_bytes(), &[&pointer], 8);
            let _ = text.parse::<Pointer>();
            let _ = format!("/{text}").parse::<Pointer>();
        }
    }
}
