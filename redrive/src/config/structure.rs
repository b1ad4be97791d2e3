//! The structure of a file against the JSON schema of the types it is read into.
//!
//! Serde stops at the first thing it does not understand and knows no places. This walks the whole tree, reports
//! everything that does not fit at the place where it stands, and hands on what does fit: a value that is wrong is
//! left out, together with the smallest part around it that cannot do without it, so that the rest can still be
//! read and looked at.

use std::cell::Cell;

use redrive_core::printable;
use serde_json::{Map, Number, Value};

use super::finding::Findings;
use super::suggest;
use super::texts;
use super::tree::{Entry, Kind, Node, Scalar};
use crate::codes;

/// A schema and the name of the type it is for.
#[derive(Clone, Copy)]
struct Schema<'a> {
    name: &'a str,
    json: &'a Value,
}

/// Checks the tree against a schema and gives back what fits, as JSON.
pub(crate) fn check(node: &Node, root: &Value, findings: &mut Findings<'_>) -> Option<Value> {
    let checker = Checker { definitions: &root["$defs"], calendars: Cell::new(0) };
    let schema = Schema { name: "", json: root };
    match &node.kind {
        // A root without one of its keys is still worth looking at.
        Kind::Map(entries) => Some(checker.fitting(node, entries, schema, findings).0),
        _ => checker.check(node, schema, findings),
    }
}

/// The schema in the form that the check reads: `type: [string, null]` becomes a type that may be left empty.
pub(crate) fn normalized(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get("type") {
                let other = types.iter().find(|kind| *kind != "null").cloned().unwrap_or(Value::Null);
                object.insert("type".to_owned(), other);
                object.insert(MAY_BE_EMPTY.to_owned(), Value::Bool(true));
            }
            for value in object.values_mut() {
                *value = normalized(value.take());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = normalized(item.take())),
        _ => {}
    }
    schema
}

/// The type of schedules by class, which is nothing when it names no class.
const NEVER_EMPTY: &str = "SchedulesByClass";

const MAY_BE_EMPTY: &str = "x-may-be-empty";

/// Working hours cost work when they are read, so a file names only so many.
const MOST_CALENDARS: usize = 64;

struct Checker<'a> {
    definitions: &'a Value,
    /// How many calendars were read so far.
    calendars: Cell<usize>,
}

impl<'a> Checker<'a> {
    fn resolve(&self, schema: Schema<'a>) -> Schema<'a> {
        let name = schema.json["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
        match name {
            Some(name) => Schema { name, json: &self.definitions[name] },
            None => schema,
        }
    }

    fn check(&self, node: &Node, schema: Schema<'a>, findings: &mut Findings<'_>) -> Option<Value> {
        if matches!(node.kind, Kind::Unusable) {
            return None;
        }
        let may_be_empty = schema.json[MAY_BE_EMPTY] == true;
        let schema = self.resolve(schema);
        if let Kind::Scalar(scalar) = &node.kind
            && scalar.is_null()
            && may_be_empty
        {
            return Some(Value::Null);
        }
        if let Kind::Scalar(scalar) = &node.kind
            && !scalar.is_null()
            && let Some(names) = self.vocabulary(schema)
        {
            return name(node, scalar, schema.name, &names, findings);
        }
        if let (Kind::Scalar(scalar), Some(check)) = (&node.kind, texts::check_of(schema.name))
            && !scalar.is_null()
        {
            if schema.name == "Schedule" && self.has_too_many_calendars(&scalar.text) {
                let message = format!("more than {MOST_CALENDARS} calendars in one file");
                let help = "write a calendar once, in a policy that flows share".to_owned();
                findings.error(codes::WRONG_TEXT, node.span.clone(), message, help);
                return None;
            }
            return check_text(node, scalar, schema, check, findings);
        }
        if let Some(alternatives) = alternatives(schema) {
            return self.check_one_of(node, &alternatives, findings);
        }
        match (&node.kind, schema.json["type"].as_str()) {
            (Kind::Map(entries), Some("object")) => {
                let (fits, complete) = self.fitting(node, entries, schema, findings);
                let is_empty = schema.name == NEVER_EMPTY && fits.as_object().is_none_or(Map::is_empty);
                if is_empty && entries.is_empty() {
                    let help = "give a schedule, or leave the key out".to_owned();
                    findings.error(
                        codes::WRONG_TYPE,
                        node.span.clone(),
                        "an empty map retries nothing",
                        help,
                    );
                }
                (complete && !is_empty).then_some(fits)
            }
            (Kind::List(items), Some("array")) => self.check_list(node, items, schema, findings),
            (Kind::Scalar(scalar), Some("string")) if !scalar.is_null() => {
                Some(Value::String(scalar.text.clone()))
            }
            (Kind::Scalar(scalar), Some("integer")) if scalar.as_integer().is_some() => {
                check_integer(node, scalar, schema, findings)
            }
            (Kind::Scalar(scalar), Some("number")) if scalar.as_number().is_some() => {
                check_number(node, scalar, schema, findings)
            }
            (Kind::Scalar(scalar), Some("boolean")) if scalar.as_bool().is_some() => {
                scalar.as_bool().map(Value::Bool)
            }
            (Kind::Scalar(scalar), Some("null")) if scalar.is_null() => Some(Value::Null),
            _ => {
                wrong_type(node, &[schema], findings);
                None
            }
        }
    }

    /// Counts the calendars of a schedule, and says whether they are too many for the file.
    fn has_too_many_calendars(&self, schedule: &str) -> bool {
        let count = schedule.to_ascii_lowercase().matches("calendar").count();
        self.calendars.set(self.calendars.get() + count);
        count > 0 && self.calendars.get() > MOST_CALENDARS
    }

    /// The names of a closed vocabulary, if the schema is one.
    fn vocabulary(&self, schema: Schema<'a>) -> Option<Vec<&'a str>> {
        let one = |json: &'a Value| -> Option<Vec<&'a str>> {
            if let Some(name) = json["const"].as_str() {
                return Some(vec![name]);
            }
            json["enum"].as_array()?.iter().map(Value::as_str).collect()
        };
        if let Some(names) = one(schema.json) {
            return Some(names);
        }
        let mut names = Vec::new();
        for alternative in schema.json["oneOf"].as_array().or_else(|| schema.json["anyOf"].as_array())? {
            let alternative = self.resolve(Schema { name: "", json: alternative });
            if alternative.json["type"] == "null" {
                continue;
            }
            names.extend(one(alternative.json).or_else(|| self.vocabulary(alternative))?);
        }
        (!names.is_empty()).then_some(names)
    }

    /// A value that may be of several kinds: the kind decides which of them was meant.
    fn check_one_of(
        &self,
        node: &Node,
        alternatives: &[Schema<'a>],
        findings: &mut Findings<'_>,
    ) -> Option<Value> {
        let fitting: Vec<_> = alternatives.iter().filter(|schema| self.may_be(node, **schema)).collect();
        // Where only one can have been meant, what fits of it is worth looking at.
        if let [only] = fitting.as_slice() {
            return self.check(node, **only, findings);
        }
        let mut fewest: Option<Vec<_>> = None;
        for schema in &fitting {
            let before = findings.len();
            let value = self.check(node, **schema, findings);
            if findings.len() == before {
                return value;
            }
            let found = findings.take_after(before);
            if fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len()) {
                fewest = Some(found);
            }
        }
        match fewest {
            Some(found) => findings.put_back(found),
            None => {
                wrong_type(node, &self.leaves(alternatives), findings);
            }
        }
        None
    }

    /// The alternatives, and theirs in turn.
    fn leaves(&self, schemas: &[Schema<'a>]) -> Vec<Schema<'a>> {
        let mut leaves = Vec::new();
        for schema in schemas {
            let schema = self.resolve(*schema);
            match alternatives(schema) {
                Some(inner) => leaves.extend(self.leaves(&inner)),
                None => leaves.push(schema),
            }
        }
        leaves
    }

    /// Whether the node is of a kind that the schema could take.
    fn may_be(&self, node: &Node, schema: Schema<'a>) -> bool {
        let schema = self.resolve(schema);
        if let Some(alternatives) = alternatives(schema) {
            return alternatives.iter().any(|alternative| self.may_be(node, *alternative));
        }
        match (&node.kind, schema.json["type"].as_str()) {
            (Kind::Map(_), Some("object")) | (Kind::List(_), Some("array")) => true,
            (Kind::Scalar(scalar), Some("null")) => scalar.is_null(),
            (Kind::Scalar(scalar), Some("integer")) => scalar.as_integer().is_some(),
            (Kind::Scalar(scalar), Some("number")) => scalar.as_number().is_some(),
            (Kind::Scalar(scalar), Some("boolean")) => scalar.as_bool().is_some(),
            (Kind::Scalar(scalar), _) => {
                let text = schema.json["type"] == "string" || schema.json["const"].is_string();
                text && !scalar.is_null()
            }
            _ => false,
        }
    }

    /// The entries of a map that fit, and whether all are there that have to be.
    fn fitting(
        &self,
        node: &Node,
        entries: &[Entry],
        schema: Schema<'a>,
        findings: &mut Findings<'_>,
    ) -> (Value, bool) {
        let properties = schema.json["properties"].as_object();
        let mut fits = Map::new();
        for entry in entries {
            let Some(inner) = schema_of_key(schema, &entry.key) else {
                if !findings.is_full() {
                    let known: Vec<_> =
                        properties.into_iter().flat_map(|all| all.keys().map(String::as_str)).collect();
                    let message = format!("unknown key `{}`", shown(&entry.key));
                    let help = key_help(entry, schema, &known);
                    findings.error(codes::UNKNOWN_KEY, entry.key_span.clone(), message, help);
                }
                continue;
            };
            if let Some(value) = self.check(&entry.value, inner, findings) {
                fits.insert(entry.key.clone(), value);
            }
        }
        let required = schema.json["required"].as_array().map_or(&[][..], Vec::as_slice);
        let mut complete = true;
        for key in required.iter().filter_map(Value::as_str) {
            if node.entry(key).is_none() {
                let at = node.span.start..node.span.start;
                let help = properties.and_then(|all| all.get(key)).and_then(describe);
                findings.error(codes::MISSING_KEY, at, format!("the key `{key}` is missing"), help);
            }
            complete &= fits.contains_key(key);
        }
        (Value::Object(fits), complete)
    }

    fn check_list(
        &self,
        node: &Node,
        items: &[Node],
        schema: Schema<'a>,
        findings: &mut Findings<'_>,
    ) -> Option<Value> {
        if schema.json["minItems"].as_u64().is_some_and(|least| (items.len() as u64) < least) {
            let help = "give at least one value, or leave the key out".to_owned();
            findings.error(codes::OUT_OF_RANGE, node.span.clone(), "the list is empty", help);
            return None;
        }
        let inner = Schema { name: "", json: &schema.json["items"] };
        let values = items.iter().filter_map(|item| self.check(item, inner, findings));
        Some(Value::Array(values.collect()))
    }
}

/// The schema of the value under a key; nothing when the key is not known.
fn schema_of_key<'a>(schema: Schema<'a>, key: &str) -> Option<Schema<'a>> {
    let inner = |json| Some(Schema { name: "", json });
    if let Some(json) = schema.json["properties"].get(key) {
        return inner(json);
    }
    let patterns = schema.json["patternProperties"].as_object();
    for (pattern, json) in patterns.into_iter().flatten() {
        if regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(key)) {
            return inner(json);
        }
    }
    schema.json.get("additionalProperties").filter(|json| json.is_object()).and_then(inner)
}

/// The schemas of which a value has to fit one.
fn alternatives(schema: Schema<'_>) -> Option<Vec<Schema<'_>>> {
    let all = ["anyOf", "oneOf"].iter().find_map(|key| schema.json[*key].as_array())?;
    Some(all.iter().map(|json| Schema { name: schema.name, json }).collect())
}

/// A text with a grammar of its own. Where its type is no text alone, a number stays one.
fn check_text(
    node: &Node,
    scalar: &Scalar,
    schema: Schema<'_>,
    check: texts::Check,
    findings: &mut Findings<'_>,
) -> Option<Value> {
    if let Err(wrong) = check(&scalar.text) {
        let place = wrong.at.map_or_else(|| node.span.clone(), |at| node.place_in(at));
        // An error that points at a character says what belongs there, not what the whole is.
        let help = wrong.at.and_then(|_| describe(schema.json));
        findings.error(codes::WRONG_TEXT, place, wrong.message, help);
        return None;
    }
    let number = scalar.as_integer().and_then(|number| i64::try_from(number).ok());
    match number.filter(|_| schema.json["type"] != "string") {
        Some(number) => Some(Value::Number(number.into())),
        None => Some(Value::String(scalar.text.clone())),
    }
}

fn check_integer(
    node: &Node,
    scalar: &Scalar,
    schema: Schema<'_>,
    findings: &mut Findings<'_>,
) -> Option<Value> {
    let number = scalar.as_integer()?;
    let (low, high) = match schema.json["format"].as_str() {
        Some("uint8") => (0, i128::from(u8::MAX)),
        Some("uint16") => (0, i128::from(u16::MAX)),
        Some("uint32") => (0, i128::from(u32::MAX)),
        Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
        Some("uint64") => (0, i128::from(u64::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    let low = schema.json["minimum"].as_i64().map_or(low, |least| low.max(least.into()));
    let high = schema.json["maximum"].as_i64().map_or(high, |most| high.min(most.into()));
    if !(low..=high).contains(&number) {
        let help = format!("expected a whole number from {low} to {high}");
        findings.error(codes::OUT_OF_RANGE, node.span.clone(), format!("{number} is out of range"), help);
        return None;
    }
    let unsigned = u64::try_from(number).ok().map(Number::from);
    unsigned.or_else(|| i64::try_from(number).ok().map(Number::from)).map(Value::Number)
}

fn check_number(
    node: &Node,
    scalar: &Scalar,
    schema: Schema<'_>,
    findings: &mut Findings<'_>,
) -> Option<Value> {
    let number = scalar.as_number()?;
    let low = schema.json["minimum"].as_f64().unwrap_or(f64::MIN);
    let high = schema.json["maximum"].as_f64().unwrap_or(f64::MAX);
    if !(low..=high).contains(&number) {
        let help = format!("expected a number from {low} to {high}");
        findings.error(codes::OUT_OF_RANGE, node.span.clone(), format!("{number} is out of range"), help);
        return None;
    }
    Number::from_f64(number).map(Value::Number)
}

fn name(
    node: &Node,
    scalar: &Scalar,
    vocabulary: &str,
    names: &[&str],
    findings: &mut Findings<'_>,
) -> Option<Value> {
    if names.contains(&scalar.text.as_str()) || texts::is_other_name(vocabulary, &scalar.text) {
        return Some(Value::String(scalar.text.clone()));
    }
    let message = format!("`{}` is none of {}", shown(&scalar.text), names.join(", "));
    let help = suggest::nearest(&scalar.text, names.iter().copied());
    let help = help.map(|name| format!("did you mean `{name}`?"));
    findings.error(codes::WRONG_NAME, node.span.clone(), message, help);
    None
}

fn wrong_type(node: &Node, schemas: &[Schema<'_>], findings: &mut Findings<'_>) {
    let mut kinds: Vec<&str> = Vec::new();
    for schema in schemas {
        let kind = match schema.json["type"].as_str() {
            Some("object") => "a map",
            Some("array") => "a list",
            Some("integer") => "a whole number",
            Some("number") => "a number",
            Some("boolean") => "true or false",
            Some("null") => continue,
            _ => "text",
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let description = schemas.iter().find_map(|schema| describe(schema.json));
    let found = match node.text().filter(|_| kinds.contains(&"a whole number") && node.what() == "a number") {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit() || b"+-".contains(&byte)) => {
            let message = format!("{} is out of range", shown(text));
            findings.error(codes::OUT_OF_RANGE, node.span.clone(), message, description);
            return;
        }
        // To say that it is a number would not say what is wrong with it.
        Some(text) => format!("`{}`", shown(text)),
        None => node.what().to_owned(),
    };
    let message = format!("expected {}, found {found}", kinds.join(" or "));
    findings.error(codes::WRONG_TYPE, node.span.clone(), message, description);
}

fn key_help(entry: &Entry, schema: Schema<'_>, known: &[&str]) -> Option<String> {
    if entry.key == "<<" {
        return Some(
            "merge keys are not supported; what flows share belongs into a policy with a name".to_owned(),
        );
    }
    let patterns = schema.json["patternProperties"].is_object();
    let nearest = suggest::nearest(&entry.key, known.iter().copied());
    match nearest {
        Some(name) => Some(format!("did you mean `{name}`?")),
        None if patterns => describe(schema.json),
        None => suggest::help(&entry.key, known),
    }
}

/// The first line of a schema's description.
fn describe(schema: &Value) -> Option<String> {
    let text = schema["description"].as_str()?;
    text.lines().next().map(str::to_owned)
}

/// A text for a message: cut, and without what could confuse a terminal.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(64).map(printable).collect();
    if text.chars().nth(64).is_some() {
        shown.push('…');
    }
    shown
}
