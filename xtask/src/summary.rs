//! The closing words of the test command: how long, on which servers, and what did not run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::progress::{Step, human};
use crate::services::{Kind, Skip, SkipKind, Status};

/// Everything that the summary tells.
pub(crate) struct Summary<'a> {
    pub(crate) steps: &'a [Step],
    pub(crate) status: Option<&'a Status>,
    /// Under CI=true a skipped test is a failed one.
    pub(crate) strict: bool,
    pub(crate) took: Duration,
    /// The error of the step that failed.
    pub(crate) error: Option<String>,
    /// Somebody asked for the end.
    pub(crate) interrupted: bool,
}

impl Summary<'_> {
    /// Tests that were skipped because a server could not be had.
    pub(crate) fn skipped(&self) -> usize {
        self.status
            .map_or(0, |status| status.skips.iter().filter(|skip| skip.kind == SkipKind::Skipped).count())
    }

    /// Whether the run as a whole passed.
    pub(crate) fn passed(&self) -> bool {
        self.error.is_none() && !self.interrupted && !(self.strict && self.skipped() > 0)
    }

    /// The whole text. Its last line says in plain words how it went.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("\nsteps\n");
        for step in self.steps {
            let mark = match (step.passed, self.interrupted) {
                (true, _) => "ok",
                (false, true) => "interrupted",
                (false, false) => "FAILED",
            };
            let _ = writeln!(text, "  {:<24} {:>9}  {mark}", step.name, human(step.took));
        }
        if let Some(status) = self.status {
            text.push_str(&servers(status));
        }
        if let Some(error) = &self.error {
            let _ = writeln!(text, "\n{error}");
        }
        let took = human(self.took);
        let failed = self.steps.iter().find(|step| !step.passed).map(|step| step.name);
        let _ = match (self.passed(), failed, self.skipped()) {
            (true, _, 0) => writeln!(text, "\ntest passed in {took}"),
            (true, _, skipped) => writeln!(text, "\ntest passed in {took}, {skipped} skipped"),
            (false, Some(step), _) if self.interrupted => {
                writeln!(text, "\ntest interrupted at: {step} (after {took})")
            }
            (false, Some(step), _) => writeln!(text, "\ntest failed at: {step} (after {took})"),
            (false, None, skipped) => {
                writeln!(
                    text,
                    "\ntest failed: {skipped} skipped, which counts as failed with CI=true ({took})"
                )
            }
        };
        text
    }
}

/// What became of one kind of server, in one line.
fn server(status: &Status, kind: Kind) -> String {
    let all: Vec<_> =
        status.servers.iter().chain(&status.past).filter(|server| server.kind == kind).collect();
    let Some(first) = all.first() else { return "not started: no test asked for it".to_owned() };
    if first.given {
        // Without the part that may hold a password.
        let address = first.address.as_deref().and_then(|address| address.rsplit('@').next());
        return format!("{}: {}", first.state, address.unwrap_or("an address not known"));
    }
    let mut starts: Vec<u64> = all.iter().filter_map(|server| server.started_in_ms).collect();
    starts.sort_unstable();
    let Some(quickest) = starts.first() else { return first.state.clone() };
    let version = all.iter().find_map(|server| server.version.as_deref()).unwrap_or("version not known");
    let quickest = human(Duration::from_millis(*quickest));
    match starts.len() {
        1 => format!("{version}, started in {quickest}"),
        count => format!("{version}, {count} instances, the quickest started in {quickest}"),
    }
}

fn servers(status: &Status) -> String {
    let mut text = String::from("servers\n");
    for kind in Kind::ALL {
        let _ = writeln!(text, "  {:<10} {}", kind.name(), server(status, kind));
    }
    let (scenarios, tests): (Vec<&Skip>, Vec<&Skip>) =
        status.skips.iter().partition(|skip| skip.kind == SkipKind::Scenario);
    if !tests.is_empty() {
        text.push_str("did not run\n");
        for skip in tests {
            let _ = writeln!(text, "  {}: {}: {}", skip.test, skip.kind, skip.reason);
        }
    }
    text.push_str(&not_applying(&scenarios));
    if let Some(logs) = &status.kept_logs {
        let _ = writeln!(text, "logs of the servers: {logs}");
    }
    text
}

/// Scenarios of the contract that an adapter cannot pass, since it cannot do what they are about: a line for each reason.
fn not_applying(scenarios: &[&Skip]) -> String {
    if scenarios.is_empty() {
        return String::new();
    }
    let mut by_reason: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for skip in scenarios {
        let (adapter, name) = skip.test.split_once("::").unwrap_or(("", &skip.test));
        by_reason.entry((adapter, &skip.reason)).or_default().push(name);
    }
    let mut text = format!("{} contract scenarios do not apply\n", scenarios.len());
    for ((adapter, reason), mut names) in by_reason {
        names.sort_unstable();
        let _ = writeln!(text, "  {adapter}: {reason}: {}", names.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::ServerStatus;

    fn status(kind: SkipKind) -> Status {
        let skip = Skip { test: "kafka::smoke".to_owned(), kind, reason: "no Java".to_owned() };
        Status { skips: vec![skip], ..Status::default() }
    }

    fn summary<'a>(steps: &'a [Step], status: &'a Status, strict: bool) -> Summary<'a> {
        Summary {
            steps,
            status: Some(status),
            strict,
            took: Duration::from_secs(61),
            error: None,
            interrupted: false,
        }
    }

    #[test]
    fn skipped_is_failed_only_when_strict() {
        let skipped = status(SkipKind::Skipped);
        assert!(summary(&[], &skipped, false).passed());
        assert!(!summary(&[], &skipped, true).passed());
        assert!(summary(&[], &status(SkipKind::LeftOut), true).passed());
        assert!(summary(&[], &status(SkipKind::NotApplicable), true).passed());
    }

    #[test]
    fn what_did_not_run_is_named_with_its_reason() {
        let skipped = status(SkipKind::Skipped);
        let text = summary(&[], &skipped, false).text();
        assert!(text.contains("kafka::smoke: skipped: no Java"), "{text}");
        assert_eq!(text.lines().last(), Some("test passed in 1m 01s, 1 skipped"));
    }

    #[test]
    fn scenarios_that_do_not_apply_are_counted_and_named_by_their_reason() {
        let skip = |test: &str, reason: &str| Skip {
            test: test.to_owned(),
            kind: SkipKind::Scenario,
            reason: reason.to_owned(),
        };
        let skips = vec![
            skip("redrive-kafka::b", "no lanes"),
            skip("redrive-kafka::a", "no lanes"),
            skip("redrive-sqlite::a", "they are one"),
        ];
        let status = Status { skips, ..Status::default() };
        let passed = summary(&[], &status, true);
        assert!(passed.passed());
        let text = passed.text();
        let lines = "\
3 contract scenarios do not apply
  redrive-kafka: no lanes: a, b
  redrive-sqlite: they are one: a
";
        assert!(text.contains(lines) && !text.contains("did not run"), "{text}");
        assert_eq!(text.lines().last(), Some("test passed in 1m 01s"));
    }

    #[test]
    fn a_server_that_ended_with_its_test_is_named_too() {
        let ran = ServerStatus {
            kind: Kind::Kafka,
            instance: "own-1".to_owned(),
            state: "running".to_owned(),
            address: None,
            version: Some("4.3.0".to_owned()),
            given: false,
            started_in_ms: Some(2_000),
            pids: Vec::new(),
        };
        let status = Status { past: vec![ran.clone()], ..Status::default() };
        assert_eq!(server(&status, Kind::Kafka), "4.3.0, started in 2.0 s");

        let address = Some("amqp://user:secret@host:1/%2f".to_owned());
        let given = ServerStatus { given: true, state: "given".to_owned(), address, ..ran };
        let status = Status { servers: vec![given], ..Status::default() };
        assert_eq!(server(&status, Kind::Kafka), "given: host:1/%2f");
        assert_eq!(server(&status, Kind::Postgres), "not started: no test asked for it");
    }

    #[test]
    fn the_last_line_names_the_step_that_failed() {
        let steps = [Step { name: "lints", took: Duration::from_secs(3), passed: false }];
        let empty = Status::default();
        let failed = Summary { error: Some("a warning".to_owned()), ..summary(&steps, &empty, false) };
        assert!(!failed.passed());
        assert_eq!(failed.text().lines().last(), Some("test failed at: lints (after 1m 01s)"));
    }
}
