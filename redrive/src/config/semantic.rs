//! What a file means: names that have to exist, addresses that have to be ones, settings that contradict each
//! other.

use std::net::IpAddr;

use redrive_core::TextError;

use super::built_in::is_built_in;
use super::file::{Config, VERSION};
use super::finding::{Findings, Severity};
use super::tree::{Kind, Node};
use super::{flow_checks, policy_checks};
use crate::address::{AmqpAddress, PostgresAddress, host_and_port};
use crate::codes;

/// Checks what the structure cannot know.
pub(crate) fn check(tree: &Node, config: &mut Config, findings: &mut Findings<'_>) {
    // Once for each schedule, and not for each flow that uses it.
    check_holidays(tree, config, findings);
    check_version(tree, config, findings);
    check_data(tree, config, findings);
    check_listen(tree, config, findings);
    check_brokers(tree, config, findings);
    flow_checks::check(tree, config, findings);
    policy_checks::check(tree, config, findings);
}

/// Tells the calendars their holidays. Dates that leave one without any opening are wrong where they stand.
fn check_holidays(tree: &Node, config: &mut Config, findings: &mut Findings<'_>) {
    for name in config.resolve_holidays() {
        if let Some(node) = tree.find(["holidays", &name]) {
            let message =
                format!("the holidays `{name}` leave a calendar without a single opening in a year");
            let help = "leave out dates on which people work".to_owned();
            findings.error(codes::POLICY_UNUSABLE, node.span.clone(), message, help);
        }
    }
}

fn check_version(tree: &Node, config: &Config, findings: &mut Findings<'_>) {
    if let Some(node) = tree.get("version").filter(|_| config.version != VERSION) {
        let message = format!("version {} is not known", config.version);
        findings.error(
            codes::WRONG_VERSION,
            node.span.clone(),
            message,
            format!("write `version: {VERSION}`"),
        );
    }
}

fn check_data(tree: &Node, config: &Config, findings: &mut Findings<'_>) {
    let (Some(data), Some(node)) = (&config.data, tree.get("data")) else { return };
    if data.starts_with("postgres://") || data.starts_with("postgresql://") {
        match data.parse::<PostgresAddress>() {
            Ok(address) if address.queue.is_some() => findings.error(
                codes::WRONG_ADDRESS,
                node.span.clone(),
                "the place for data is a database, not a queue",
                "leave `queue` out".to_owned(),
            ),
            Ok(_) => note_if_not_built_in(node, "postgres", findings),
            Err(error) => wrong_address(node, &error, POSTGRES_FORM, findings),
        }
    } else if data.contains("://") {
        let help = "give a file such as ./redrive.db, or postgres://user@host/database".to_owned();
        findings.error(
            codes::WRONG_ADDRESS,
            node.span.clone(),
            "data is kept in a file or in PostgreSQL",
            help,
        );
    } else if data.is_empty() {
        let help = "give a file such as ./redrive.db, or leave the key out".to_owned();
        findings.error(codes::WRONG_ADDRESS, node.span.clone(), "the name of the file is empty", help);
    } else {
        note_if_not_built_in(node, "embedded", findings);
    }
}

fn check_listen(tree: &Node, config: &Config, findings: &mut Findings<'_>) {
    if let Some(node) = tree.get("tls") {
        note_if_not_built_in(node, "tls", findings);
    }
    let (Some(listen), Some(node)) = (&config.listen, tree.get("listen")) else { return };
    if listen == "off" {
        return;
    }
    let parts = listen.rsplit_once(':');
    let Some((host, _)) = parts.filter(|(_, port)| port.parse::<u16>().is_ok()) else {
        let help = "give an address and a port such as 127.0.0.1:7337, or off".to_owned();
        let message = "expected an address with a port";
        findings.error(codes::WRONG_ADDRESS, node.span.clone(), message, help);
        return;
    };
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let loopback = host == "localhost" || ip.as_ref().is_ok_and(IpAddr::is_loopback);
    if ip.is_err() && host != "localhost" {
        let help = "give an IP address such as 127.0.0.1 or 0.0.0.0, or localhost".to_owned();
        findings.error(codes::WRONG_ADDRESS, node.span.clone(), format!("`{host}` is no IP address"), help);
    } else if !loopback && config.tls.is_none() && !config.insecure {
        findings.error(
            codes::OPEN_LISTENER,
            node.span.clone(),
            format!("{host} can be reached from other machines, without TLS"),
            "listen on 127.0.0.1 behind a proxy that has TLS, or say `insecure: true`".to_owned(),
        );
    }
}

fn check_brokers(tree: &Node, config: &Config, findings: &mut Findings<'_>) {
    for (name, broker) in &config.brokers {
        let Some(entry) = tree.get("brokers").and_then(|brokers| brokers.entry(name)) else { continue };
        // What is written counts: a part that is wrong may have been left out.
        if entry.value.given(&["kafka", "rabbitmq"]).len() != 1 {
            let help = "give `kafka:` or `rabbitmq:`".to_owned();
            let message = format!("the broker `{name}` has to be exactly one of kafka and rabbitmq");
            findings.error(codes::NOT_EXACTLY_ONE, entry.key_span.clone(), message, help);
            continue;
        }
        let passwords = match (&broker.kafka, &broker.rabbitmq) {
            (Some(kafka), None) => {
                if let Some(node) = entry.value.find(["kafka", "bootstrap"]) {
                    check_hosts(node, &kafka.bootstrap, findings);
                    note_if_not_built_in(node, "kafka", findings);
                }
                (&kafka.password_file, &kafka.password_env)
            }
            (None, Some(rabbit)) => {
                if let Some(node) = entry.value.find(["rabbitmq", "url"]) {
                    check_amqp(node, &rabbit.url, findings);
                    note_if_not_built_in(node, "rabbitmq", findings);
                }
                (&rabbit.password_file, &rabbit.password_env)
            }
            _ => continue,
        };
        if let (Some(_), Some(_)) = passwords {
            let message = format!("the broker `{name}` has two passwords");
            let help = "keep password_file or password_env".to_owned();
            findings.error(codes::NOT_EXACTLY_ONE, entry.key_span.clone(), message, help);
        }
    }
}

fn check_hosts(node: &Node, hosts: &str, findings: &mut Findings<'_>) {
    let mut at = 0;
    for host in hosts.split(',') {
        let trimmed = at + (host.len() - host.trim_start().len());
        if let Err(error) = host_and_port(hosts, trimmed, host.trim()) {
            wrong_address(node, &error, HOSTS_FORM, findings);
            return;
        }
        at += host.len() + 1;
    }
}

fn check_amqp(node: &Node, url: &str, findings: &mut Findings<'_>) {
    match url.parse::<AmqpAddress>() {
        Ok(address) if address.queue.is_some() => {
            let help = "leave `queue` out; a flow's `from` names it".to_owned();
            findings.error(codes::WRONG_ADDRESS, node.span.clone(), "a broker is not a queue", help);
        }
        Ok(_) => {}
        Err(error) => wrong_address(node, &error, AMQP_FORM, findings),
    }
}

/// An address that cannot be read, at the character where it goes wrong. What stands there is not repeated where it
/// may be a password: before a host, in a parameter, or out of the environment.
pub(super) fn wrong_address(node: &Node, error: &TextError, form: &str, findings: &mut Findings<'_>) {
    let help = format!("write {form}");
    let text = node.text().unwrap_or_default();
    let (before, after) = text.split_at(text.floor_char_boundary(error.at()));
    let in_parameter = before.rsplit(['?', '&']).next().is_some_and(|part| part.contains('='));
    let is_written = matches!(&node.kind, Kind::Scalar(scalar) if scalar.begins.is_some());
    let message = if after.contains('@') || in_parameter || !is_written {
        format!("expected {} at character {}", error.expected(), error.character())
    } else {
        error.to_string()
    };
    findings.error(codes::WRONG_ADDRESS, node.place_in(error.at()), message, help);
}

/// How a place that messages come from or go to is written.
pub(super) const SOURCE_FORM: &str = "queue:NAME, kafka://HOST:9092/TOPIC?group=GROUP, \
                                      amqp://HOST/VHOST?queue=QUEUE or postgres://HOST/DATABASE?queue=QUEUE";
/// How a handler is written.
pub(super) const HANDLER_FORM: &str = "http://HOST/PATH, https://HOST/PATH, exec:COMMAND or jsonl:COMMAND";
/// How an endpoint is written.
pub(super) const HTTP_FORM: &str = "http://HOST/PATH or https://HOST/PATH";
/// How a command is written.
pub(super) const COMMAND_FORM: &str = "a program and its arguments, with quotes around what holds spaces";
const POSTGRES_FORM: &str = "postgres://USER@HOST/DATABASE";
const AMQP_FORM: &str = "amqp://HOST/VHOST or amqps://HOST/VHOST";
const HOSTS_FORM: &str = "hosts with their ports, such as k1:9092,k2:9092";

/// Names a part that is not in this build, once, at its first place.
pub(super) fn note_if_not_built_in(node: &Node, part: &str, findings: &mut Findings<'_>) {
    if is_built_in(part) {
        return;
    }
    let message = format!("{part} is not part of this build; the setting is checked but not used");
    if !findings.has(codes::NOT_BUILT_IN, &message) {
        findings.add(Severity::Note, codes::NOT_BUILT_IN, node.span.clone(), message, None);
    }
}
