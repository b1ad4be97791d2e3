//! Which entries are meant: the same words in a query (`state=dead,parked&since=2h`) and as JSON
//! (`{"state": ["dead"], "since": "2h"}`).

use std::borrow::Cow;

use redrive_core::{Timestamp, duration};
use redrive_engine::port::{EntryState, Filter};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::params::{self, Params};
use crate::problem::Problem;

/// The words of a filter.
pub(crate) const WORDS: [&str; 13] = [
    "flow",
    "state",
    "class",
    "reason",
    "group",
    "key",
    "type",
    "tenant",
    "entity",
    "correlation_id",
    "since",
    "until",
    "text",
];

/// A filter as a request has it: [`WORDS`] as texts, states also as a list.
pub(crate) struct Conditions;

impl JsonSchema for Conditions {
    fn schema_name() -> Cow<'static, str> {
        "Conditions".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let word = |name: &&str| {
            let text = json!({ "type": ["string", "null"] });
            let many = json!({ "anyOf": [text, { "type": "array", "items": { "type": "string" } }] });
            ((*name).to_owned(), if *name == "state" { many } else { text })
        };
        let words: Map<String, Value> = WORDS.iter().map(word).collect();
        json_schema!({
            "type": "object",
            "description": "Conditions on entries; all that are given hold, and one has to be given.",
            "additionalProperties": false,
            "properties": words,
        })
    }
}

/// A filter from a query's parameters; those that are no words of a filter are left to the caller.
pub(crate) fn from_params(params: &Params, now: Timestamp) -> Result<Filter, Problem> {
    let mut filter = Filter::default();
    for (name, value) in params.iter().filter(|(name, _)| WORDS.contains(name)) {
        set(&mut filter, name, value, now)?;
    }
    Ok(filter)
}

/// A filter from JSON. Nulls count as left out.
pub(crate) fn from_json(object: &Map<String, Value>, now: Timestamp) -> Result<Filter, Problem> {
    let mut filter = Filter::default();
    for (name, value) in object {
        if !WORDS.contains(&name.as_str()) {
            return Err(params::unknown(name, &WORDS));
        }
        match value {
            Value::Null => {}
            Value::String(text) => set(&mut filter, name, text, now)?,
            Value::Array(items) if name == "state" => {
                for item in items {
                    let text =
                        item.as_str().ok_or_else(|| Problem::wrong(name, "expected names of states"))?;
                    set(&mut filter, name, text, now)?;
                }
            }
            _ => return Err(Problem::wrong(name, "expected a text")),
        }
    }
    Ok(filter)
}

fn set(filter: &mut Filter, name: &str, value: &str, now: Timestamp) -> Result<(), Problem> {
    if value.is_empty() {
        return Err(Problem::wrong(name, "is empty; leave it out to take any"));
    }
    let text = || Some(value.to_owned());
    match name {
        "flow" => filter.flow = text(),
        "state" => {
            for word in value.split(',') {
                let state: EntryState = word.trim().parse().map_err(|why| Problem::wrong(name, why))?;
                if !filter.state.contains(&state) {
                    filter.state.push(state);
                }
            }
        }
        "class" => filter.class = Some(value.parse().map_err(|why| Problem::wrong(name, why))?),
        "reason" => filter.reason = Some(value.parse().map_err(|why| Problem::wrong(name, why))?),
        "group" => filter.group = text(),
        "key" => filter.key = text(),
        "type" => filter.message_type = text(),
        "tenant" => filter.tenant = text(),
        "entity" => filter.entity = text(),
        "correlation_id" => filter.correlation_id = text(),
        "since" => filter.since = Some(moment(name, value, now)?),
        "until" => filter.until = Some(moment(name, value, now)?),
        "text" => filter.text = text(),
        _ => return Err(params::unknown(name, &WORDS)),
    }
    Ok(())
}

/// A time, or how long ago it was.
pub(crate) fn moment(name: &str, value: &str, now: Timestamp) -> Result<Timestamp, Problem> {
    if let Ok(time) = value.parse() {
        return Ok(time);
    }
    let ago = duration::parse(value).map_err(|_| {
        Problem::wrong(name, "expected how long ago, such as 2h, or a time such as 2026-07-01T09:00:00Z")
    })?;
    let millis = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
    Ok(Timestamp::from_millis(now.as_millis().saturating_sub(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;

    const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

    #[test]
    fn the_query_and_json_mean_the_same() {
        let query = "flow=orders&state=dead,parked&class=TRANSIENT&since=2h&type=Order";
        let params = Params::read(Some(query), &WORDS).unwrap();
        let Value::Object(object) = serde_json::json!({
            "flow": "orders", "state": ["dead", "parked"], "class": "TRANSIENT",
            "since": "2026-07-01T07:00:00Z", "type": "Order", "text": null,
        }) else {
            unreachable!()
        };
        let filter = from_params(&params, NOW).unwrap();
        assert_eq!(filter, from_json(&object, NOW).unwrap());
        assert_eq!(filter.state, [EntryState::Dead, EntryState::Parked]);
    }

    #[test]
    fn every_word_is_taken_and_no_other() {
        let known = serde_json::json!({
            "flow": "a", "state": "dead", "class": "POISON", "reason": "R", "group": "a", "key": "a", "type": "a",
            "tenant": "a", "entity": "a", "correlation_id": "a", "since": "1h", "until": "1m", "text": "a",
        });
        let Value::Object(known) = known else { unreachable!() };
        assert_eq!(known.len(), WORDS.len());
        let filter = from_json(&known, NOW).unwrap();
        assert_eq!(serde_json::to_value(filter).unwrap().as_object().unwrap().len(), WORDS.len());
        for (json, code) in [
            (r#"{"flows":"a"}"#, codes::UNKNOWN_NAME),
            (r#"{"flow":1}"#, codes::WRONG_VALUE),
            (r#"{"flow":""}"#, codes::WRONG_VALUE),
            (r#"{"state":["dead",1]}"#, codes::WRONG_VALUE),
            (r#"{"state":"deed"}"#, codes::WRONG_VALUE),
            (r#"{"since":"yesterday"}"#, codes::WRONG_VALUE),
        ] {
            let object: Map<String, Value> = serde_json::from_str(json).unwrap();
            assert_eq!(from_json(&object, NOW).unwrap_err().code(), code, "{json}");
        }
    }
}
