//! Figures that are read when they are asked for: what the ledger counts anyway need not be counted twice, and a flow
//! that is gone leaves no figure behind.

use std::fmt::Write as _;
use std::time::Duration;

use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use redrive_core::Timestamp;
use redrive_engine::port::{Counts, EntryState, StateCount};

use crate::flows::FlowShown;

const GAUGES: [(&str, EntryState, &str); 4] = [
    ("redrive_waiting", EntryState::Waiting, "Messages that wait for their next attempt."),
    ("redrive_held", EntryState::Held, "Messages held behind the head of their lane, or quarantined."),
    ("redrive_dead", EntryState::Dead, "Dead letters."),
    ("redrive_parked", EntryState::Parked, "Messages that need a person."),
];

/// Seconds, from a handler in this process to a retry that is a day late.
const SECONDS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0, 86_400.0];
/// How often what was recorded is added up: every single value takes room until then.
const UPKEEP: Duration = Duration::from_secs(1);
const ATTEMPTS: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0];

/// A recorder with buckets that fit Redrive's histograms, to be installed once for the process.
pub fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Full("redrive_attempts_to_success".into()), &ATTEMPTS)?;
    Ok(builder.build_recorder())
}

/// Installs the recorder for the whole process; answers whether it was the first.
pub fn install(recorder: PrometheusRecorder) -> bool {
    ::metrics::set_global_recorder(recorder).is_ok()
}

/// Installs a recorder for the whole process and looks after it for as long as the runtime runs: histograms that nobody
/// reads would grow otherwise. Nothing when there is one already. Called within a tokio runtime.
pub fn keep_figures() -> Option<PrometheusHandle> {
    let recorder = recorder().ok()?;
    let handle = recorder.handle();
    if !install(recorder) {
        return None;
    }
    let kept = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            kept.run_upkeep();
        }
    });
    Some(handle)
}

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
        for name in names.chain(["redrive_oldest_seconds", "redrive_alarm"]) {
            assert!(page.contains(&format!("| `{name}` | gauge |")), "{name}");
        }
    }

    #[test]
    fn buckets_are_taken() {
        let recorder = recorder().unwrap();
        metrics::with_local_recorder(&recorder, || {
            metrics::histogram!("redrive_settle_seconds", "flow" => "orders").record(0.002);
        });
        let text = recorder.handle().render();
        assert!(text.contains("redrive_settle_seconds_bucket{flow=\"orders\",le=\"0.005\"} 1"), "{text}");
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
