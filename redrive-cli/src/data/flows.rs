//! `flows`: how the flows are, what people ordered of them, and what a person should know.

use std::process::ExitCode;

use redrive::engine::port::{Control, ControlKind};
use redrive::server::{FlowControlled, FlowState};

use super::arguments::DataArguments;
use super::call::{Absent, Data};
use super::shown::{self, brief, counted, local, plain};
use crate::problem::Problem;
use crate::{table, terminal};

pub(crate) async fn run(arguments: &DataArguments) -> Result<ExitCode, Problem> {
    let data = Data::open(arguments, Absent::Refuse).await?;
    let mut answer = data.get("/v1/flows").await?;
    let flows = shown::list(&mut answer, "flows")?;
    if arguments.json {
        return terminal::print(&shown::json_lines(&flows));
    }
    if flows.is_empty() && data.store().is_some() {
        return terminal::print("no instance runs on this file, and no order waits for one\n");
    }
    terminal::print(&listed(&shown::all_typed(&flows)?))
}

/// A line a flow, and under them a line for everything that there is to know.
pub(crate) fn listed(flows: &[FlowControlled]) -> String {
    if flows.is_empty() {
        return "  none\n".to_owned();
    }
    let dash = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), plain);
    let rows: Vec<_> = flows
        .iter()
        .map(|FlowControlled { flow, .. }| {
            let in_hand = flow.in_hand.to_string();
            let lag = flow.lag.map_or_else(|| "-".to_owned(), |lag| lag.to_string());
            [
                plain(&flow.name),
                state(flow.state, flow.holding.as_deref()),
                in_hand,
                lag,
                dash(&flow.from),
                dash(&flow.to),
            ]
        })
        .collect();
    let heads = ["flow", "state", "in hand", "lag", "from", "to"];
    let mut text = table::laid_out(heads, &rows, &[5], terminal::width());
    let notes: Vec<_> = flows.iter().flat_map(notes).collect();
    if !notes.is_empty() {
        text.push('\n');
        for note in notes {
            text.push_str(&format!("  {note}\n"));
        }
    }
    text
}

fn state(state: FlowState, holding: Option<&str>) -> String {
    let name = match state {
        FlowState::Running => "running",
        FlowState::Blocked => "blocked",
        FlowState::Holding => "holding",
        FlowState::Paused => "paused",
        FlowState::RetriesPaused => "retries paused",
        FlowState::Stopping => "stopping",
        FlowState::NotRunning => "not running",
    };
    match holding {
        Some(why) if state == FlowState::Holding => format!("{name}: {}", plain(why)),
        _ => name.to_owned(),
    }
}

fn notes(known: &FlowControlled) -> Vec<String> {
    let name = plain(&known.flow.name);
    let mut notes: Vec<_> = known.controls.iter().filter_map(ordered).collect();
    let kept = known.controls.iter().filter(|control| control.kind == ControlKind::Quarantine);
    let (quarantines, held) = kept.fold((0, 0), |(count, held), control| (count + 1, held + control.held));
    if quarantines > 0 {
        notes.push(format!("{}, {} kept back", counted(quarantines, "quarantine"), counted(held, "message")));
    }
    let alarms = known.flow.alarms.iter();
    notes.extend(
        alarms.map(|alarm| {
            format!("{} since {}: {}", plain(&alarm.name), local(alarm.since), brief(&alarm.text))
        }),
    );
    notes.iter().map(|note| format!("{name}: {note}")).collect()
}

/// `paused since TIME by WHO: WHY`; nothing for a quarantine.
pub(crate) fn ordered(control: &Control) -> Option<String> {
    let what = match control.kind {
        ControlKind::Pause => "paused",
        ControlKind::PauseRetries => "retries paused",
        ControlKind::Quarantine => return None,
    };
    Some(format!("{what} since {} by {}: {}", local(control.at), plain(&control.by), brief(&control.reason)))
}
