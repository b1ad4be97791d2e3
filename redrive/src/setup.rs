//! From what a person wrote to what the engine runs.
//!
//! A flow of the configuration file, one of `redrive run`'s flags and one of the builder all come through here, so
//! that the same words mean the same thing everywhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::classify::Resolver;
use redrive_core::{Policy, Redaction};
use redrive_engine::FlowSpec;
use redrive_engine::handler::http::{HttpHandler, HttpOptions, WebhookSecretError};
use redrive_engine::handler::{CommandHandler, CommandLine, CommandLineError, Handler, JsonlHandler};
use redrive_engine::hook::{Hook, Hooks, WebHook};

use crate::address::{AddressText, HandlerAddress, SourceAddress};
use crate::config::{self, Config, Flow, HandlerSpec};

/// Why a flow cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("flow `{flow}`: {what}")]
pub struct SetupError {
    /// The flow.
    pub flow: String,
    /// What is wrong, and the way out.
    pub what: String,
}

/// What a handler that is written in Rust brings along, in place of `to:`.
#[derive(Debug, Default, Clone)]
pub struct InCode {
    /// The handler.
    pub handler: Option<Arc<dyn Handler>>,
    /// Code that classifies failures, asked before the rules.
    pub resolvers: Vec<Arc<dyn Resolver>>,
}

/// Sets a flow up. `env` looks up environment variables.
pub fn flow_spec(
    config: &Config,
    name: &str,
    in_code: InCode,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<FlowSpec, SetupError> {
    let fail = |what: String| SetupError { flow: name.to_owned(), what };
    let flow = config.flows.get(name).ok_or_else(|| fail("there is no such flow".to_owned()))?;
    let source: SourceAddress =
        flow.from.parse().map_err(|error: redrive_core::TextError| fail(format!("from: {error}")))?;
    let SourceAddress::Queue(queue) = &source else {
        return Err(fail(format!(
            "{source} needs a part that is not in this build; an embedded queue is `queue:NAME`"
        )));
    };
    let handler = match in_code.handler {
        Some(handler) => handler,
        None => handler(flow, env).map_err(fail)?,
    };
    let policy = |kind: Option<&str>| -> Result<Arc<Policy>, SetupError> {
        let spec = config.flow_policy(name, kind).unwrap_or_default();
        let built = spec.build().map_err(|findings| {
            let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
            fail(format!("its policy cannot be used: {}", texts.join("; ")))
        })?;
        let built = if flow.rejected.is_some() { built.with_reject_target() } else { built };
        let resolvers = in_code.resolvers.clone();
        Ok(Arc::new(if resolvers.is_empty() { built } else { built.with_resolvers(resolvers) }))
    };
    let mut by_type = HashMap::new();
    for kind in flow.types.keys() {
        by_type.insert(kind.clone(), policy(Some(kind))?);
    }
    let redaction = Redaction::new(flow.redact.clone()).map_err(|error| fail(format!("redact: {error}")))?;
    let concurrency = flow.concurrency.unwrap_or(64) as usize;
    let mut spec = FlowSpec::new(name, queue, handler);
    spec.policy = policy(None)?;
    spec.policies_by_type = by_type;
    spec.facts = flow.facts.clone().unwrap_or_default();
    spec.redaction = redaction;
    spec.concurrency = concurrency;
    spec.prefetch = spec.prefetch.max(concurrency * 4);
    spec.timeout = timeout(flow).unwrap_or(spec.timeout);
    spec.rate = flow.rate;
    spec.order_by = flow.order_by.clone().unwrap_or_default();
    spec.breaker = Some(flow.breaker.clone().unwrap_or_default().to_config());
    spec.retry_budget = Some(flow.retry_budget.clone().unwrap_or_default().to_config());
    if let Some(written) = &flow.hooks {
        spec.hooks = hooks(written).map_err(fail)?;
    }
    spec.crash_limit = flow.crash_limit.unwrap_or(spec.crash_limit);
    spec.owner = flow.owner.as_deref().map(Arc::from);
    spec.rejected = match &flow.rejected {
        None => None,
        Some(target) => match target.parse() {
            Ok(SourceAddress::Queue(queue)) => Some(queue.into()),
            _ => return Err(fail("rejected: expected `queue:NAME`, as the flow reads a queue".to_owned())),
        },
    };
    Ok(spec)
}

/// The hooks that `hooks:` names.
fn hooks(written: &config::Hooks) -> Result<Hooks, String> {
    let hook = |key: &str, address: &Option<AddressText>| -> Result<Option<Arc<dyn Hook>>, String> {
        let Some(address) = address else { return Ok(None) };
        let hook =
            WebHook::new(address, HttpOptions::default()).map_err(|error| format!("hooks.{key}: {error}"))?;
        Ok(Some(Arc::new(hook)))
    };
    Ok(Hooks {
        before: hook("before_divert", &written.before_divert)?,
        after: hook("after_divert", &written.after_divert)?,
    })
}

fn timeout(flow: &Flow) -> Option<Duration> {
    match &flow.to {
        config::Handler::Address(_) => None,
        config::Handler::Full(spec) => spec.timeout.map(|period| period.0),
    }
}

/// The handler that `to:` names.
fn handler(flow: &Flow, env: &dyn Fn(&str) -> Option<String>) -> Result<Arc<dyn Handler>, String> {
    let version = flow.handler_version.as_deref().map(Arc::from);
    match &flow.to {
        config::Handler::Address(address) => {
            let spec = HandlerSpec::default();
            match address.parse().map_err(|error: redrive_core::TextError| format!("to: {error}"))? {
                HandlerAddress::Http(url) => http(&url, &spec, version, env),
                HandlerAddress::Exec(words) => command(&words, false),
                HandlerAddress::Jsonl(words) => command(&words, true),
            }
        }
        config::Handler::Full(spec) => match (&spec.http, &spec.exec, &spec.jsonl) {
            (Some(url), None, None) => http(url, spec, version, env),
            (None, Some(line), None) => line_of(line).map(|line| Arc::new(CommandHandler::new(line)) as _),
            (None, None, Some(line)) => line_of(line).map(|line| Arc::new(JsonlHandler::new(line)) as _),
            (None, None, None) if spec.forward.is_some() => {
                Err("to: forward is not in this build yet".to_owned())
            }
            _ => Err("to: exactly one of http, exec and jsonl is needed".to_owned()),
        },
    }
}

fn http(
    url: &str,
    spec: &HandlerSpec,
    version: Option<Arc<str>>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Handler>, String> {
    let mut options = HttpOptions { version, ..HttpOptions::default() };
    if let Some(connect) = spec.connect_timeout {
        options.connect_timeout = connect.0;
    }
    let secret = match (&spec.secret_env, &spec.secret_file) {
        (Some(name), _) => {
            Some(env(name).ok_or_else(|| format!("to.secret_env: the environment has no `{name}`"))?)
        }
        (None, Some(file)) => {
            Some(std::fs::read_to_string(file).map_err(|error| format!("to.secret_file: {file}: {error}"))?)
        }
        (None, None) => None,
    };
    if let Some(secret) = secret {
        options.secrets.push(
            secret.trim().parse().map_err(|error: WebhookSecretError| format!("to: the secret: {error}"))?,
        );
    }
    HttpHandler::new(url, options)
        .map(|handler| Arc::new(handler) as _)
        .map_err(|error| format!("to: {error}"))
}

fn command(words: &[String], long_lived: bool) -> Result<Arc<dyn Handler>, String> {
    let line = CommandLine::from_words(words).map_err(|error| format!("to: {error}"))?;
    Ok(if long_lived { Arc::new(JsonlHandler::new(line)) } else { Arc::new(CommandHandler::new(line)) })
}

fn line_of(text: &str) -> Result<CommandLine, String> {
    text.parse().map_err(|error: CommandLineError| format!("to: {error}"))
}
