//! Values as people read them.

use redrive::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::call;
use crate::problem::Problem;

/// The most characters of an error in a table.
const LONGEST_ERROR: usize = 160;

/// A time on the reader's own clock, with its zone.
pub(crate) fn local(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(instant) => {
            instant.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
        }
        Err(_) => time.to_string(),
    }
}

pub(crate) fn local_or_dash(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), local)
}

/// A text of somebody else's, made fit for a terminal: what would move the cursor or change colours is not passed on.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The first line of a text, not too long.
pub(crate) fn brief(text: &str) -> String {
    let line = plain(text.lines().next().unwrap_or_default());
    if line.chars().count() <= LONGEST_ERROR {
        return line;
    }
    line.chars().take(LONGEST_ERROR - 1).chain(['…']).collect()
}

/// A list of the API's answer.
pub(crate) fn list(answer: &mut Value, name: &str) -> Result<Vec<Value>, Problem> {
    match answer.get_mut(name).map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(call::unexpected(format!("the answer has no `{name}`"))),
    }
}

/// A part of the API's answer as its type.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    T::deserialize(value).map_err(|error| call::unexpected(error.to_string()))
}

/// The parts of a list as their type.
pub(crate) fn all_typed<T: DeserializeOwned>(values: &[Value]) -> Result<Vec<T>, Problem> {
    values.iter().map(typed).collect()
}

/// One JSON object per line.
pub(crate) fn json_lines(values: &[Value]) -> String {
    lines(values.iter().map(ToString::to_string))
}

/// The ids of new messages, one per line.
pub(crate) fn ids(ids: &[String], json: bool) -> String {
    lines(ids.iter().map(|id| if json { json!({ "id": id }).to_string() } else { id.clone() }))
}

fn lines(texts: impl Iterator<Item = String>) -> String {
    texts.flat_map(|text| [text, "\n".to_owned()]).collect()
}

/// `1 message`, `2 messages`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
