//! What people do to messages: by their ids, or to all that a filter selects.

use std::process::ExitCode;

use redrive::address::{AmqpAddress, SourceAddress};
use redrive::codes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::arguments::{DataArguments, DeedArguments, RerouteArguments};
use super::call::{Absent, Data};
use super::filter::{Selection, selection};
use super::progress::Progress;
use super::shown::{self, plain};
use super::{publish, who};
use crate::problem::{MISSING, Problem, REFUSED, USAGE};
use crate::terminal;

/// Ids of one call.
const MOST_IDS: usize = 1_000;

pub(crate) async fn run(deed: &str, arguments: &DeedArguments) -> Result<ExitCode, Problem> {
    let selection = arguments.selected.selection()?;
    let asked = asked(deed, &arguments.reason);
    carry_out(deed, &arguments.common, selection, asked).await
}

pub(crate) async fn reroute(arguments: &RerouteArguments) -> Result<ExitCode, Problem> {
    let mut ids = arguments.ids_and_target.clone();
    let mut target = ids.pop().unwrap_or_default();
    // Without this, an id would be taken for a queue when the target was forgotten.
    let wrong = |target: &str| {
        let text = format!("`{}` is neither a queue nor a topic", plain(target));
        Problem::new(codes::WRONG_ARGUMENT, USAGE, text).with_help(
            "the last argument says where to: queue:orders-by-hand, or kafka://HOSTS/TOPIC or amqp://HOST/VHOST?queue=QUEUE for what a flow read from there",
        )
    };
    if target.starts_with("queue:") {
        publish::queue(&target)?;
    } else {
        match target.parse() {
            Ok(SourceAddress::Kafka(address)) if address.topics.len() == 1 => {}
            // The flow has credentials of its own, and these would stand in the audit.
            Ok(SourceAddress::Amqp(address)) => {
                target = AmqpAddress { user: None, password: None, ..address }.to_string();
            }
            _ => return Err(wrong(&target)),
        }
    }
    let selection = selection(ids, &arguments.conditions)?;
    let mut asked = asked("reroute", &arguments.reason);
    asked.insert("target".into(), json!(target));
    carry_out("reroute", &arguments.common, selection, asked).await
}

fn asked(deed: &str, reason: &str) -> Map<String, Value> {
    let mut asked = Map::new();
    asked.insert("deed".into(), json!(deed));
    asked.insert("reason".into(), json!(reason));
    if let Some(by) = who::name() {
        asked.insert("by".into(), json!(by));
    }
    asked
}

/// What the API says of a deed.
#[derive(Default, Deserialize)]
struct Report {
    done: u64,
    refused: Vec<RefusedOne>,
    missing: Vec<String>,
}

#[derive(Deserialize)]
struct RefusedOne {
    id: String,
    why: String,
}

async fn carry_out(
    deed: &str,
    common: &DataArguments,
    selection: Selection,
    asked: Map<String, Value>,
) -> Result<ExitCode, Problem> {
    let by_filter = matches!(selection, Selection::Filter(_));
    let parts = match selection {
        Selection::Ids(ids) => ids.chunks(MOST_IDS).map(|part| Selection::Ids(part.to_vec())).collect(),
        filter @ Selection::Filter(_) => vec![filter],
    };
    let data = Data::open(common, Absent::Refuse).await?;
    let mut progress = Progress::new();
    let mut all = Report::default();
    for part in parts {
        progress.show(format!("{deed}: {} so far", all.done));
        let mut request = asked.clone();
        part.put_into(&mut request);
        let report: Report = shown::typed(&data.post("/v1/messages/act", &request.into()).await?)?;
        all.done += report.done;
        all.refused.extend(report.refused);
        all.missing.extend(report.missing);
    }
    drop(progress);
    tell(deed, common, &all)?;
    // A filter without a state also finds messages that have long come to their end; that is no failure.
    Ok(match () {
        () if !all.refused.is_empty() && (!by_filter || all.done == 0) => ExitCode::from(REFUSED),
        () if !all.missing.is_empty() || all.done == 0 => ExitCode::from(MISSING),
        () => ExitCode::SUCCESS,
    })
}

fn tell(deed: &str, common: &DataArguments, report: &Report) -> Result<ExitCode, Problem> {
    if common.json {
        let refused: Vec<_> =
            report.refused.iter().map(|one| json!({ "id": one.id, "why": one.why })).collect();
        let object = json!({ "done": report.done, "refused": refused, "missing": report.missing });
        return terminal::print(&format!("{object}\n"));
    }
    for one in &report.refused {
        terminal::say(&format!("{}: {}", plain(&one.id), plain(&one.why)));
    }
    for id in &report.missing {
        terminal::say(&format!("{}: is not there", plain(id)));
    }
    let nothing = report.done == 0 && report.refused.is_empty() && report.missing.is_empty();
    let text = if nothing { "nothing fits".to_owned() } else { shown::counted(report.done, "message") };
    terminal::print(&format!("{deed}: {text}\n"))
}
