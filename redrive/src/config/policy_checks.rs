//! What the policies mean once they lie over each other, reported where it was written.

use std::collections::BTreeSet;
use std::ops::Range;

use redrive_core::policy::{Exits, Severity as PolicySeverity};
use redrive_core::{Exit, PolicySpec};

use super::file::Config;
use super::finding::{Findings, Severity};
use super::flow::PolicyRef;
use super::layers::{DEFAULT, Layer};
use super::tree::Node;
use crate::codes;

/// Checks every policy in use, and those that no flow uses by themselves.
pub(crate) fn check(tree: &Node, config: &Config, findings: &mut Findings<'_>) {
    let mut used = BTreeSet::new();
    let partial = findings.has_errors();
    for (name, flow) in &config.flows {
        let named = flow.types.values().chain(&flow.policy).filter_map(|policy| match policy {
            PolicyRef::Named(name) => Some(name.as_str()),
            PolicyRef::Inline(_) => None,
        });
        used.extend(named.chain([DEFAULT]));
        let place = tree.get("flows").and_then(|flows| flows.entry(name));
        let place = place.map_or(tree.span.clone(), |entry| entry.key_span.clone());
        for message_type in std::iter::once(None).chain(flow.types.keys().map(|kind| Some(kind.as_str()))) {
            let layers = config.flow_layers(name, flow, message_type);
            let placed = Placed { tree, layers: &layers, otherwise: place.clone(), partial };
            let spec = config.laid(&layers);
            placed.check(&spec, findings);
            if flow.rejected.is_none() {
                placed.check_rejections(name, &spec, findings);
            }
        }
    }
    for name in config.policies.keys().filter(|name| !used.contains(name.as_str())) {
        let layers = config.policy_layers(name);
        let place = tree.get("policies").and_then(|policies| policies.entry(name));
        let otherwise = place.map_or(tree.span.clone(), |entry| entry.key_span.clone());
        Placed { tree, layers: &layers, otherwise, partial }.check(&config.laid(&layers), findings);
    }
}

/// Checks a policy that stands in a file of its own.
pub(crate) fn check_alone(tree: &Node, spec: &mut PolicySpec, findings: &mut Findings<'_>) {
    let layers = [Layer { spec: spec.clone(), path: Vec::new() }];
    let otherwise = tree.span.start..tree.span.start;
    Placed { tree, layers: &layers, otherwise, partial: findings.has_errors() }.check(spec, findings);
}

/// Layers and where they stand in the file.
struct Placed<'a> {
    tree: &'a Node,
    layers: &'a [Layer],
    /// The place of what nobody wrote.
    otherwise: Range<usize>,
    /// Whether something was wrong before, so that parts may have been left out.
    partial: bool,
}

impl Placed<'_> {
    fn check(&self, spec: &PolicySpec, findings: &mut Findings<'_>) {
        for finding in spec.check() {
            let (severity, code) = match finding.severity {
                PolicySeverity::Error => (Severity::Error, codes::POLICY_UNUSABLE),
                PolicySeverity::Warning => (Severity::Warning, codes::POLICY_QUESTIONABLE),
            };
            // Half a policy looks questionable where the whole would not.
            if severity == Severity::Warning && self.partial {
                continue;
            }
            let written = self.find(&finding.path);
            if self.partial && self.follows_from_a_gap(&finding.path, written.as_ref(), findings) {
                continue;
            }
            // What nobody wrote, nobody can be asked to think about again.
            if written.is_some() || severity == Severity::Error {
                let place = written.unwrap_or_else(|| self.otherwise.clone());
                findings.add(severity, code, place, finding.message, finding.help);
            }
        }
    }

    /// Whether a finding may only be there because a part that was wrong was left out: a part of what it is about, or
    /// of the budgets that end a schedule.
    fn follows_from_a_gap(
        &self,
        path: &str,
        written: Option<&Range<usize>>,
        findings: &Findings<'_>,
    ) -> bool {
        let mut about: Vec<_> = written.into_iter().cloned().collect();
        if matches!(path.split('.').next(), Some("retry" | "blocking")) {
            let budgets = self.layers.iter().filter_map(|layer| {
                let layer = self.tree.find(layer.path.iter().map(String::as_str))?;
                layer.get("budgets")
            });
            about.extend(budgets.map(|node| node.span.clone()));
        }
        about.iter().any(|place| findings.has_error_in(place))
    }

    /// A rule or an exit that rejects needs somewhere to send the event.
    fn check_rejections(&self, flow: &str, spec: &PolicySpec, findings: &mut Findings<'_>) {
        let rules = spec.rules.iter().enumerate().filter(|(_, rule)| rule.then == Some(Exit::Reject));
        let exits = spec.exits.iter().flat_map(Exits::iter).filter(|(_, exit)| *exit == Exit::Reject);
        let places = rules
            .map(|(i, _)| format!("rules[{i}].then"))
            .chain(exits.map(|(key, _)| format!("exits.{key}")));
        for path in places {
            findings.error(
                codes::NO_REJECT_TARGET,
                self.find(&path).unwrap_or_else(|| self.otherwise.clone()),
                format!(
                    "messages are rejected, but the flow `{flow}` has no `rejected:` to send the event to"
                ),
                format!("add `rejected:` with an address to flows.{flow}, or choose another exit"),
            );
        }
    }

    /// The place of a path in the topmost layer that wrote it, or the part of it that was written.
    fn find(&self, path: &str) -> Option<Range<usize>> {
        let steps: Vec<&str> = path.split('.').collect();
        let (first, index) = match steps[0].strip_suffix(']').and_then(|step| step.split_once('[')) {
            Some((name, index)) => (name, index.parse::<usize>().ok()),
            None => (steps[0], None),
        };
        let mut before = 0;
        for layer in self.layers.iter().rev() {
            let Some(node) = self.tree.find(layer.path.iter().map(String::as_str)) else { continue };
            let Some(mut found) = node.get(first) else { continue };
            if let Some(index) = index {
                // Rules of all layers are numbered through, those of the topmost first.
                let Some(item) = found.items().get(index.wrapping_sub(before)).filter(|_| index >= before)
                else {
                    before += layer.spec.rules.len();
                    continue;
                };
                found = item;
            }
            let inner = found.find(steps[1..].iter().copied());
            // A single schedule stands for the `default` of a map.
            let single = steps.len() == 2 && steps[1] == "default" && found.text().is_some();
            if let Some(node) = inner.or(single.then_some(found)).or(index.map(|_| found)) {
                return Some(node.span.clone());
            }
        }
        None
    }
}
