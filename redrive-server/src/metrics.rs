//! Figures that are read when they are asked for: what the ledger counts anyway need not be counted twice, and a flow
//! that is gone leaves no figure behind.

use std::fmt::Write as _;

use redrive_core::Timestamp;
use redrive_engine::port::{Counts, EntryState, StateCount};

use crate::flows::FlowShown;

const GAUGES: [(&str, EntryState, &str); 4] = [
    ("redrive_waiting", EntryState::Waiting, "Messages that wait for their next attempt."),
    ("redrive_held", EntryState::Held, "Messages held behind the head of their lane, or quarantined."),
    ("redrive_dead", EntryState::Dead, "Dead letters."),
    ("redrive_parked", EntryState::Parked, "Messages that need a person."),
];

/// Appends what the ledger tells.
pub(crate) fn write(text: &mut String, counts: &Counts, now: Timestamp) {
    let of = |state| counts.states.iter().filter(move |count: &&StateCount| count.state == state);
    for (name, state, help) in GAUGES {
        head(text, name, help);
        for count in of(state) {
            line(text, name, &[("flow", &count.flow)], count.count);
        }
    }
    let name = "redrive_oldest_seconds";
    head(text, name, "Seconds since the oldest message of a state failed first.");
    for (_, state, _) in GAUGES {
        for count in of(state).filter(|count| count.count > 0) {
            let Some(oldest) = count.oldest_at else { continue };
            let labels = [("flow", count.flow.as_str()), ("state", state.as_str())];
            line(text, name, &labels, now.since(oldest).as_secs());
        }
    }
}

/// Appends how many lanes of each flow are held.
pub(crate) fn write_held(text: &mut String, held: &[(&str, u64)]) {
    let name = "redrive_held_keys";
    head(text, name, "Lanes that are held behind their failed heads.");
    for (flow, lanes) in held {
        line(text, name, &[("flow", flow)], *lanes);
    }
}

/// Appends the flows' alarms. Only where no recorder keeps them: a figure that is told twice cannot be read.
pub(crate) fn write_alarms(text: &mut String, flows: &[FlowShown]) {
    let name = "redrive_alarm";
    head(text, name, "1 while something about a flow needs a person.");
    for flow in flows {
        for alarm in &flow.alarms {
            line(text, name, &[("flow", &flow.name), ("name", &alarm.name)], 1);
        }
    }
}

fn head(text: &mut String, name: &str, help: &str) {
    // Writing into a text cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: u64) {
    text.push_str(name);
    for (place, (label, content)) in labels.iter().enumerate() {
        let _ = write!(text, "{}{label}=\"", if place == 0 { '{' } else { ',' });
        for character in content.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    let _ = writeln!(text, "}} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::FlowState;
    use redrive_engine::Alarm;

    #[test]
    fn every_figure_told_here_is_documented() {
        let page = include_str!("../../docs/metrics.md");
        let names = GAUGES.iter().map(|(name, _, _)| *name);
        for name in names.chain(["redrive_oldest_seconds", "redrive_held_keys", "redrive_alarm"]) {
            assert!(page.contains(&format!("| `{name}` | gauge |")), "{name}");
        }
    }

    #[test]
    fn a_flow_cannot_break_out_of_its_label() {
        let count = |state, count| StateCount {
            flow: "a\"\\\n".into(),
            state,
            count,
            oldest_at: Some(Timestamp::from_millis(1_000)),
        };
        let counts = Counts {
            states: vec![
                count(EntryState::Dead, 3),
                count(EntryState::Waiting, 0),
                count(EntryState::Archived, 9),
            ],
        };
        let flow = FlowShown {
            name: "f".into(),
            state: FlowState::Holding,
            holding: None,
            from: None,
            to: None,
            in_hand: 0,
            lag: None,
            breaker: None,
            alarms: vec![Alarm::new("breaker_open", Timestamp::from_millis(0), "x")],
            owner: None,
        };
        let mut text = String::new();
        write(&mut text, &counts, Timestamp::from_millis(61_000));
        write_alarms(&mut text, &[flow]);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"redrive_waiting{flow="a\"\\\n"} 0"#,
                r#"redrive_dead{flow="a\"\\\n"} 3"#,
                r#"redrive_oldest_seconds{flow="a\"\\\n",state="dead"} 60"#,
                r#"redrive_alarm{flow="f",name="breaker_open"} 1"#,
            ]
        );
    }
}
