//! What is done at the brokers that flows read: topology, a ledger made again, messages read once more.

use axum::Extension;
use axum::extract::{RawQuery, State};
use redrive_engine::port::SourceRange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, accountable, ok};
use crate::access::Caller;
use crate::api::Api;
use crate::body::Json;
use crate::filter;
use crate::flows::{FlowTopology, RebuiltFlow};
use crate::params::Params;
use crate::problem::Problem;

/// What flows need at their brokers.
#[derive(Serialize, JsonSchema)]
pub(super) struct Topologies {
    topology: Vec<FlowTopology>,
}

/// Whose entries are made again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rebuild {
    /// The flow; all that run when there is none.
    flow: Option<String>,
    /// Why; it has to be given, and stands in the audit.
    reason: Option<String>,
    /// Who; default the token's name.
    by: Option<String>,
}

/// What was made again.
#[derive(Serialize, JsonSchema)]
pub(super) struct Rebuilt {
    rebuilt: Vec<RebuiltFlow>,
}

/// Which messages of a source are sent once more: those of a time, or those at these offsets.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SourceRange")]
pub(super) struct Range {
    /// The flow; it has to be given.
    flow: Option<String>,
    /// From this time on: a time, or so long ago.
    since: Option<String>,
    /// Until this time; default now.
    until: Option<String>,
    /// Offsets of partitions, such as `3:100-199`, the last one included.
    offsets: Option<Vec<String>>,
    /// Why; it has to be given, and stands in the audit.
    reason: Option<String>,
    /// Who; default the token's name.
    by: Option<String>,
}

/// `GET /v1/topology`
pub(super) async fn topology(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Params::none(query.as_deref())?;
    ok(&Topologies { topology: api.flows.topology().await? })
}

/// `POST /v1/ledger/rebuild`
pub(super) async fn rebuild(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(wanted): Json<Rebuild>,
) -> Answer {
    Params::none(query.as_deref())?;
    let actor = accountable(caller, wanted.by, wanted.reason)?;
    ok(&Rebuilt { rebuilt: api.flows.rebuild(wanted.flow.as_deref(), &actor).await? })
}

/// `POST /v1/replays/source`
pub(super) async fn replay(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    Json(wanted): Json<Range>,
) -> Answer {
    Params::none(query.as_deref())?;
    let actor = accountable(caller, wanted.by, wanted.reason)?;
    let flow = wanted.flow.ok_or_else(|| Problem::missing("flow"))?;
    let now = api.clock.now();
    let time =
        |name: &str, text: Option<String>| text.map(|text| filter::moment(name, &text, now)).transpose();
    let until = time("until", wanted.until)?;
    let range = match (time("since", wanted.since)?, wanted.offsets) {
        (Some(from), None) => SourceRange::Since { from, to: until },
        (None, Some(offsets)) if until.is_none() && !offsets.is_empty() => {
            let offsets: Result<_, _> = offsets.iter().map(|text| span(text)).collect();
            SourceRange::Offsets(offsets?)
        }
        _ => {
            let help = "give `since`, with or without `until`; or `offsets` alone";
            return Err(Problem::wrong("since", "expected a time, or offsets in its place").help(help));
        }
    };
    ok(&api.flows.replay_source(&flow, &range, &actor).await?)
}

/// `PARTITION:FIRST-LAST`, or one offset alone.
fn span(text: &str) -> Result<(i32, i64, i64), Problem> {
    let read = || {
        let (partition, offsets) = text.split_once(':')?;
        let (first, last) = offsets.split_once('-').unwrap_or((offsets, offsets));
        let (first, last): (i64, i64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let partition: i32 = partition.trim().parse().ok()?;
        (partition >= 0 && first >= 0 && first <= last).then_some((partition, first, last))
    };
    read().ok_or_else(|| {
        Problem::wrong("offsets", format_args!("`{}` is no span", crate::problem::brief(text)))
            .help("write PARTITION:FIRST-LAST, such as 3:100-199")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_partition_and_offsets() {
        for (text, read) in [("3:100-199", (3, 100, 199)), ("0:7", (0, 7, 7)), ("1: 2 - 3", (1, 2, 3))] {
            assert_eq!(span(text).ok(), Some(read));
        }
        for text in ["", "3", "3:", "3:-", "3:9-8", "-1:0-1", "a:0-1", "3:1-2-3", "3:99999999999999999999"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
