//! What a flow means: where it reads, whom it calls, how it waits, and whether it gets in another one's way.

use redrive_core::Redaction;
use redrive_core::guard::{Breaker, GuardError, RetryBudget};
use redrive_core::headers::Key;

use super::OrderBy;
use super::file::Config;
use super::finding::Findings;
use super::flow::{DelayMode, Flow, PolicyRef, Suffixes};
use super::handler::Handler;
use super::semantic::{
    COMMAND_FORM, HANDLER_FORM, HTTP_FORM, SOURCE_FORM, note_if_not_built_in, wrong_address,
};
use super::source_checks::check_rejected;
use super::suggest;
use super::tree::{Entry, Node};
use crate::address::{HandlerAddress, SourceAddress, split_words};
use crate::codes;

/// Checks every flow, and the flows together.
pub(crate) fn check(tree: &Node, config: &Config, findings: &mut Findings<'_>) {
    for (name, flow) in &config.flows {
        let Some(entry) = tree.get("flows").and_then(|flows| flows.entry(name)) else { continue };
        let checked = Checked { tree, config, name, flow, entry };
        checked.check_name(findings);
        checked.check_source(findings);
        checked.check_handler(findings);
        checked.check_policies(findings);
        checked.check_signing(findings);
        checked.check_hooks(findings);
        checked.check_guards(findings);
        checked.check_redaction(findings);
        checked.check_prefix(findings);
    }
}

pub(super) struct Checked<'a> {
    tree: &'a Node,
    pub(super) config: &'a Config,
    pub(super) name: &'a str,
    pub(super) flow: &'a Flow,
    entry: &'a Entry,
}

impl Checked<'_> {
    pub(super) fn node(&self, key: &str) -> Option<&Node> {
        self.entry.value.get(key)
    }

    fn check_name(&self, findings: &mut Findings<'_>) {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if self.name.is_empty() || self.name.len() > 100 || !self.name.chars().all(allowed) {
            let message = "a flow's name begins the names of its topics and queues";
            let help = "use 1 to 100 of a-z, A-Z, 0-9, `.`, `_` and `-`".to_owned();
            findings.error(codes::WRONG_TEXT, self.entry.key_span.clone(), message, help);
        }
    }

    fn check_source(&self, findings: &mut Findings<'_>) {
        let Some(node) = self.node("from") else { return };
        let source = match self.flow.from.parse::<SourceAddress>() {
            Ok(source) => source,
            Err(error) => return wrong_address(node, &error, SOURCE_FORM, findings),
        };
        let part = if source.kind() == "queue" { "embedded" } else { source.kind() };
        note_if_not_built_in(node, part, findings);
        self.check_broker_name(node, &source, findings);
        self.check_delay(&source, findings);
        self.check_order(&source, findings);
        self.check_source_settings(&source, findings);
        self.check_forward(&source, findings);
        if let (Some(rejected), Some(node)) = (&self.flow.rejected, self.node("rejected")) {
            match rejected.parse::<SourceAddress>() {
                Ok(target) if target.kind() != source.kind() => {
                    let message = format!("rejections go to the source's broker, which is {}", source.kind());
                    let help = format!("give an address of {}", source.kind());
                    findings.error(codes::WRONG_ADDRESS, node.span.clone(), message, help);
                }
                Ok(target) => {
                    self.check_broker_name(node, &target, findings);
                    check_rejected(node, &source, &target, findings);
                }
                Err(error) => wrong_address(node, &error, SOURCE_FORM, findings),
            }
        }
    }

    /// A host without a port and without a dot may be the name of a broker, and then there has to be one.
    fn check_broker_name(&self, node: &Node, source: &SourceAddress, findings: &mut Findings<'_>) {
        let host = match source {
            SourceAddress::Kafka(kafka) if kafka.hosts.len() == 1 => kafka.hosts[0].as_str(),
            SourceAddress::Amqp(amqp) if amqp.port.is_none() => amqp.host.as_str(),
            _ => return,
        };
        let kind = source.kind();
        if let Some(broker) = self.config.brokers.get(host) {
            if let Some(other) = broker.kind().filter(|other| *other != kind) {
                let message = format!("the broker `{host}` is {other}, not {kind}");
                findings.error(codes::UNKNOWN_NAME, node.span.clone(), message, None);
            }
            return;
        }
        // What is written under `brokers` may have been left out because something in it is wrong.
        let known: Vec<_> = self.tree.get("brokers").map_or(&[][..], Node::entries).iter().collect();
        if known.is_empty() || known.iter().any(|entry| entry.key == host) {
            return;
        }
        if host != "localhost" && !host.contains(['.', ':', '[']) {
            let names: Vec<_> = known.iter().map(|entry| entry.key.as_str()).collect();
            let help = suggest::help(host, &names).unwrap_or_default();
            let help = format!("{help} (a host is written with its port)");
            let message = format!("there is no broker `{host}`");
            findings.error(codes::UNKNOWN_NAME, node.span.clone(), message, help);
        }
    }

    fn check_delay(&self, source: &SourceAddress, findings: &mut Findings<'_>) {
        let (Some(mode), Some(node)) = (self.flow.delay, self.node("delay")) else { return };
        let known: &[DelayMode] = match source {
            SourceAddress::Kafka(_) => &[
                DelayMode::Cascade,
                DelayMode::Tiered,
                DelayMode::Single,
                DelayMode::Pointer,
                DelayMode::Ledger,
            ],
            SourceAddress::Amqp(_) => {
                &[DelayMode::Cascade, DelayMode::Ring, DelayMode::DelayedExchange, DelayMode::Ledger]
            }
            SourceAddress::Queue(_) | SourceAddress::Postgres(_) => &[],
        };
        if known.contains(&mode) {
            return;
        }
        let (message, help) = if known.is_empty() {
            let message = format!("a {} source keeps due times itself", source.kind());
            (message, "leave `delay` out".to_owned())
        } else {
            let names: Vec<_> = known.iter().filter_map(|mode| serde_json::to_value(mode).ok()).collect();
            let names: Vec<_> = names.iter().filter_map(|name| name.as_str()).collect();
            (format!("{} has no such mode", source.kind()), format!("choose one of {}", names.join(", ")))
        };
        findings.error(codes::WRONG_DELAY_MODE, node.span.clone(), message, help);
    }

    fn check_order(&self, source: &SourceAddress, findings: &mut Findings<'_>) {
        let ordered = self.flow.order_by.as_ref().is_some_and(|order| *order != OrderBy::None);
        let on_a_broker = matches!(source, SourceAddress::Kafka(_) | SourceAddress::Amqp(_));
        let (true, true, None, Some(node)) = (ordered, on_a_broker, &self.config.data, self.node("order_by"))
        else {
            return;
        };
        let message = "messages that wait for their turn are kept in the data file, so it has to be named";
        let help = "add `data:` with a file that is kept, or a postgres:// address".to_owned();
        findings.error(codes::NO_EXPLICIT_DATA, node.span.clone(), message, help);
    }

    fn check_handler(&self, findings: &mut Findings<'_>) {
        let Some(node) = self.node("to") else { return };
        let spec = match &self.flow.to {
            Handler::Address(address) => {
                if let Err(error) = address.parse::<HandlerAddress>() {
                    wrong_address(node, &error, HANDLER_FORM, findings);
                }
                return;
            }
            Handler::Full(spec) => spec,
        };
        // What is written counts: a part that is wrong may have been left out.
        if node.given(&["http", "exec", "jsonl", "forward"]).len() != 1 {
            let message = "a handler is exactly one of http, exec, jsonl and forward";
            findings.error(codes::NOT_EXACTLY_ONE, node.span.clone(), message, None);
        }
        if let (Some(url), Some(node)) = (&spec.http, node.get("http"))
            && let Err(error) = HandlerAddress::http(url)
        {
            wrong_address(node, &error, HTTP_FORM, findings);
        }
        for (key, command) in [("exec", &spec.exec), ("jsonl", &spec.jsonl)] {
            if let (Some(command), Some(node)) = (command, node.get(key))
                && let Err(error) = split_words(command)
            {
                wrong_address(node, &error, COMMAND_FORM, findings);
            }
        }
        if spec.secret_env.is_some() && spec.secret_file.is_some() {
            let help = "keep secret_env or secret_file".to_owned();
            findings.error(codes::NOT_EXACTLY_ONE, node.span.clone(), "the handler has two secrets", help);
        }
    }

    fn check_policies(&self, findings: &mut Findings<'_>) {
        let types = self.node("types").map_or(&[][..], Node::entries);
        let types = types.iter().filter_map(|entry| Some((self.flow.types.get(&entry.key)?, &entry.value)));
        let own = self.flow.policy.as_ref().zip(self.node("policy"));
        for (policy, node) in own.into_iter().chain(types) {
            let PolicyRef::Named(name) = policy else { continue };
            let known = self.tree.get("policies").map_or(&[][..], Node::entries);
            let names: Vec<_> = known.iter().map(|entry| entry.key.as_str()).collect();
            if !names.contains(&name.as_str()) {
                let message = format!("there is no policy `{}`", super::structure::shown(name));
                let help = suggest::help(name, &names);
                let help = help.unwrap_or_else(|| "define it under `policies:`".to_owned());
                findings.error(codes::UNKNOWN_NAME, node.span.clone(), message, help);
            }
        }
    }

    fn check_signing(&self, findings: &mut Findings<'_>) {
        // What is written counts: a part that is wrong may have been left out.
        let keys = self.entry.value.find(["signing", "keys"]).map_or(&[][..], Node::items);
        let mut known: Vec<&str> = Vec::new();
        for key in keys.iter().filter(|key| !key.entries().is_empty()) {
            if key.given(&["secret_env", "secret_file"]).len() != 1 {
                let message = "the secret of a signing key comes from exactly one place";
                let help = "give secret_env or secret_file".to_owned();
                findings.error(codes::NOT_EXACTLY_ONE, key.span.clone(), message, help);
            }
            let Some((node, id)) = key.get("id").and_then(|node| Some((node, node.text()?))) else {
                continue;
            };
            if let Err(error) = Key::new(id, &[0; 32]) {
                findings.error(codes::WRONG_SIGNING, node.span.clone(), error.to_string(), None);
            } else if known.contains(&id) {
                let message = format!("two signing keys have the id `{id}`");
                let help = "give each key an id of its own; messages name the key by it".to_owned();
                findings.error(codes::WRONG_SIGNING, node.span.clone(), message, help);
            }
            known.push(id);
        }
    }

    fn check_hooks(&self, findings: &mut Findings<'_>) {
        let hooks = self.node("hooks").map_or(&[][..], Node::entries);
        for hook in hooks {
            if let Some(Err(error)) = hook.value.text().map(HandlerAddress::http) {
                wrong_address(&hook.value, &error, HTTP_FORM, findings);
            }
        }
    }

    fn check_guards(&self, findings: &mut Findings<'_>) {
        let breaker = self.flow.breaker.as_ref().and_then(|spec| Breaker::new(spec.to_config()).err());
        let budget =
            self.flow.retry_budget.as_ref().and_then(|spec| RetryBudget::new(spec.to_config()).err());
        let kept = [serde_json::to_value(&self.flow.breaker), serde_json::to_value(&self.flow.retry_budget)];
        for ((key, error), kept) in [("breaker", breaker), ("retry_budget", budget)].into_iter().zip(kept) {
            let (Some(GuardError { field, found, help }), Some(node)) = (error, self.node(key)) else {
                continue;
            };
            // Where a part was left out, a default in its place is nothing that anybody wrote.
            let is_default = kept.is_ok_and(|kept| kept.get(field).is_none());
            if is_default && findings.has_error_in(&node.span) {
                continue;
            }
            let span = node.get(field).unwrap_or(node).span.clone();
            findings.error(codes::OUT_OF_RANGE, span, format!("{field} cannot be {found}"), help.to_owned());
        }
    }

    fn check_redaction(&self, findings: &mut Findings<'_>) {
        if let (Err(error), Some(node)) = (Redaction::new(self.flow.redact.clone()), self.node("redact")) {
            findings.error(codes::WRONG_TEXT, node.span.clone(), error.to_string(), None);
        }
    }

    /// Topics and queues of a flow begin with its name, so no other flow's name may begin with that.
    fn check_prefix(&self, findings: &mut Findings<'_>) {
        for (end, mark) in self.name.char_indices() {
            let Some((other, flow)) = self.config.flows.get_key_value(&self.name[..end]) else { continue };
            let suffixes = flow.suffixes.as_ref().or(self.config.suffixes.as_ref());
            let Suffixes { retry, dead_letter, parking, resolved, stray } =
                suffixes.cloned().unwrap_or_default();
            let single = (flow.delay == Some(DelayMode::Single)).then_some("-");
            let named = [&retry, &dead_letter, &parking, &resolved, &stray].map(|suffix| suffix.as_deref());
            let marks = named.into_iter().chain([single, Some(".")]);
            let clash = marks.flatten().any(|suffix| suffix.starts_with(mark));
            if clash {
                findings.error(
                    codes::ONE_PREFIX,
                    self.entry.key_span.clone(),
                    format!("the topics of `{}` would begin like those of `{other}`", self.name),
                    "rename one of the flows".to_owned(),
                );
            }
        }
    }
}
