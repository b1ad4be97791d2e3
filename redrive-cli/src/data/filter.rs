//! Which messages are meant: the words of the API's filter, as flags.
//!
//! `--reason` is the failure's reason where messages are only listed. Where something is done to them it says why, so
//! the failure's reason has a name of its own there, which listing takes too.

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redrive::codes;
use serde_json::{Map, Value, json};

use crate::problem::{Problem, USAGE};

/// Conditions on messages; all that are given hold.
#[derive(Debug, Args)]
pub(crate) struct Conditions {
    #[command(flatten)]
    first: First,
    /// The reason of the last failure
    #[arg(long, value_name = "REASON")]
    failure_reason: Option<String>,
    #[command(flatten)]
    others: Others,
}

/// The same for a list, where `--reason` can only be the failure's.
#[derive(Debug, Args)]
pub(crate) struct ListFilter {
    #[command(flatten)]
    first: First,
    /// The reason of the last failure
    #[arg(long, value_name = "REASON", alias = "failure-reason")]
    reason: Option<String>,
    #[command(flatten)]
    others: Others,
}

#[derive(Debug, Args)]
struct First {
    /// The flow
    #[arg(long, value_name = "FLOW")]
    flow: Option<String>,
    /// One of these states, with commas between them
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// The class of the last failure
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
}

#[derive(Debug, Args)]
struct Others {
    /// The failure group; `redrive groups` lists them
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// The message's key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The message's type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// The tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The business entity
    #[arg(long, value_name = "ENTITY")]
    entity: Option<String>,
    /// The correlation id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Failed last so long ago or later: 2h, or a time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Failed last before: 10m, or a time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// A text in the last error
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

fn given(first: &First, reason: Option<&String>, others: &Others) -> Vec<(&'static str, String)> {
    let all = [
        ("flow", first.flow.as_ref()),
        ("state", first.state.as_ref()),
        ("class", first.class.as_ref()),
        ("reason", reason),
        ("group", others.group.as_ref()),
        ("key", others.key.as_ref()),
        ("type", others.kind.as_ref()),
        ("tenant", others.tenant.as_ref()),
        ("entity", others.entity.as_ref()),
        ("correlation_id", others.correlation_id.as_ref()),
        ("since", others.since.as_ref()),
        ("until", others.until.as_ref()),
        ("text", others.text.as_ref()),
    ];
    all.into_iter().filter_map(|(name, value)| value.map(|value| (name, value.clone()))).collect()
}

impl ListFilter {
    /// The words as a query.
    pub(crate) fn query(&self) -> String {
        let pairs = given(&self.first, self.reason.as_ref(), &self.others);
        pairs.iter().flat_map(|(name, value)| ["&", *name, "=", &encoded(value)].map(str::to_owned)).collect()
    }
}

impl Conditions {
    /// The words as JSON; nothing when none is given.
    pub(crate) fn object(&self) -> Option<Map<String, Value>> {
        let pairs = given(&self.first, self.failure_reason.as_ref(), &self.others);
        let object = pairs.into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
        Some(object.collect()).filter(|object: &Map<String, Value>| !object.is_empty())
    }
}

/// A text as it stands in an address.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Messages by their ids or by a filter.
#[derive(Debug, Args)]
pub(crate) struct Selected {
    /// Ids of entries or of messages
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    conditions: Conditions,
}

impl Selected {
    pub(crate) fn selection(&self) -> Result<Selection, Problem> {
        selection(self.ids.clone(), &self.conditions)
    }
}

/// Ids or a filter, never both.
pub(crate) enum Selection {
    Ids(Vec<String>),
    Filter(Map<String, Value>),
}

pub(crate) fn selection(ids: Vec<String>, conditions: &Conditions) -> Result<Selection, Problem> {
    match (ids.is_empty(), conditions.object()) {
        (false, None) => Ok(Selection::Ids(ids)),
        (true, Some(filter)) => Ok(Selection::Filter(filter)),
        (false, Some(_)) => {
            Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, "ids and a filter stand together")
                .with_help("give one of them"))
        }
        (true, None) => Err(Problem::new(codes::WRONG_ARGUMENT, USAGE, "nothing is selected")
            .with_help("name ids, or conditions such as --flow orders --state dead")),
    }
}

impl Selection {
    /// As the API takes it.
    pub(crate) fn put_into(self, request: &mut Map<String, Value>) {
        match self {
            Self::Ids(ids) => request.insert("ids".into(), json!(ids)),
            Self::Filter(filter) => request.insert("filter".into(), filter.into()),
        };
    }
}
