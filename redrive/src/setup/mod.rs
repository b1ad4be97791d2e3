//! From what a person wrote to what the engine runs.
//!
//! A flow of the configuration file, one of `redrive run`'s flags and one of the builder all come through here, so
//! that the same words mean the same thing everywhere.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(any(feature = "kafka", feature = "rabbitmq"))]
mod secrets;
#[cfg(any(feature = "kafka", feature = "rabbitmq"))]
mod waits;

#[cfg(feature = "kafka")]
pub(crate) use kafka::{client as kafka_client, named as named_on_kafka};
#[cfg(feature = "rabbitmq")]
pub(crate) use rabbitmq::to_queue as rabbitmq_to;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::classify::Resolver;
use redrive_core::{Policy, Redaction};
use redrive_engine::FlowSpec;
use redrive_engine::handler::http::{HttpHandler, HttpOptions, WebhookSecretError};
use redrive_engine::handler::{
    CommandHandler, CommandLine, CommandLineError, Forward, Handler, JsonlHandler,
};
use redrive_engine::hook::{Hook, Hooks, WebHook};
use redrive_engine::port::HeaderRules;

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

/// A flow that is ready to be started.
#[derive(Debug)]
pub struct Setup {
    /// What the engine runs.
    pub spec: FlowSpec,
    /// Where it reads.
    pub place: Place,
    /// Whether what is missing at its broker is created, or named and the flow not started.
    pub topology: config::Topology,
    /// Whether it is written down in a ledger what fails. What reads the data file always is.
    pub ledger: bool,
}

/// Which part of a flow a process runs, so that each can be scaled apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// All of it.
    #[default]
    All,
    /// Reads the source.
    Main,
    /// Reads what comes due, and calls the handler.
    Retry,
    /// Moves waiting messages on; calls nobody.
    Delay,
    /// Shows what failed; calls nobody.
    Ledger,
}

impl Setup {
    /// The same flow, of which this process runs a part alone.
    pub fn part(self, part: Part) -> Result<Self, SetupError> {
        if part == Part::All {
            return Ok(self);
        }
        let fail = |what: &str| SetupError { flow: self.spec.name.to_string(), what: what.to_owned() };
        if !self.spec.order_by.is_none() {
            return Err(fail(
                "--role: order is kept in the ledger, which parts in several processes do not share; run all of it",
            ));
        }
        match self.place {
            Place::Queue => Err(fail("--role: a queue of the data file is read by one process, as a whole")),
            #[cfg(feature = "kafka")]
            Place::Kafka(mut flow) => {
                flow.role = match part {
                    Part::All => redrive_kafka::Role::All,
                    Part::Main => redrive_kafka::Role::Main,
                    Part::Retry => redrive_kafka::Role::Retry,
                    Part::Delay => redrive_kafka::Role::Delay,
                    Part::Ledger => redrive_kafka::Role::Ledger,
                };
                Ok(Self { place: Place::Kafka(flow), ..self })
            }
            #[cfg(feature = "rabbitmq")]
            Place::RabbitMq(_) => Err(fail(
                "--role: a queue of RabbitMQ is read whole by each process; run as many of them as you like",
            )),
        }
    }

    /// What a flow on a broker cannot do without a ledger.
    #[cfg(any(feature = "kafka", feature = "rabbitmq"))]
    fn needs_ledger(&self, delays_there: bool, adopts: bool) -> Option<&'static str> {
        match () {
            () if !self.spec.order_by.is_none() => Some("order is kept in the ledger"),
            () if delays_there => Some("with `delay: ledger` messages wait in the ledger"),
            () if adopts => Some("with `foreign` or `dead_letter.adopt` the ledger takes dead letters in"),
            () => None,
        }
    }

    /// The same flow without a ledger: what fails lives in its broker alone.
    pub fn without_ledger(self) -> Result<Self, SetupError> {
        let needs = match &self.place {
            Place::Queue => Some("a queue of the data file lives where the ledger does"),
            #[cfg(feature = "kafka")]
            Place::Kafka(flow) => self.needs_ledger(flow.delay == redrive_kafka::DelayMode::Ledger, false),
            #[cfg(feature = "rabbitmq")]
            Place::RabbitMq(flow) => {
                let adopts = flow.adopt == redrive_rabbitmq::Adopt::IntoLedger || !flow.foreign.is_empty();
                let is_stream = flow.kind == redrive_rabbitmq::QueueKind::Stream;
                let position = is_stream.then_some("how far a stream was read is kept in the ledger");
                self.needs_ledger(flow.delay == redrive_rabbitmq::DelayMode::Ledger, adopts).or(position)
            }
        };
        match needs {
            Some(why) => {
                Err(SetupError { flow: self.spec.name.to_string(), what: format!("--no-ledger: {why}") })
            }
            None => Ok(Self { ledger: false, ..self }),
        }
    }
}

/// A queue of the data file, with everything that is missing created.
impl From<FlowSpec> for Setup {
    fn from(spec: FlowSpec) -> Self {
        Self { spec, place: Place::Queue, topology: config::Topology::Apply, ledger: true }
    }
}

/// Where a flow reads.
#[derive(Debug)]
pub enum Place {
    /// A queue of the data file.
    Queue,
    /// Topics of Kafka.
    #[cfg(feature = "kafka")]
    Kafka(Box<redrive_kafka::KafkaFlow>),
    /// A queue of RabbitMQ.
    #[cfg(feature = "rabbitmq")]
    RabbitMq(Box<redrive_rabbitmq::RabbitFlow>),
}

/// Sets a flow up. `env` looks up environment variables.
pub fn flow(
    config: &Config,
    name: &str,
    in_code: InCode,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Setup, SetupError> {
    let fail = |what: String| SetupError { flow: name.to_owned(), what };
    let flow = config.flows.get(name).ok_or_else(|| fail("there is no such flow".to_owned()))?;
    let source: SourceAddress =
        flow.from.parse().map_err(|error: redrive_core::TextError| fail(format!("from: {error}")))?;
    let read = match &source {
        SourceAddress::Queue(queue) => queue.clone(),
        SourceAddress::Kafka(address) => address.topics.join(","),
        SourceAddress::Amqp(address) => address.queue.clone().unwrap_or_default(),
        other @ SourceAddress::Postgres(_) => return Err(fail(not_built_in(other))),
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
    let mut spec = FlowSpec::new(name, &read, handler);
    spec.address = source.to_string().into();
    spec.policy = policy(None)?;
    spec.policies_by_type = by_type;
    spec.facts = flow.facts.clone().unwrap_or_default();
    spec.redaction = redaction;
    spec.headers = header_rules(flow, env).map_err(fail)?;
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
    spec.rejected = rejected(flow, &source).map_err(fail)?.map(Into::into);
    #[cfg(any(feature = "kafka", feature = "rabbitmq"))]
    let policies: Vec<&Policy> =
        spec.policies_by_type.values().chain([&spec.policy]).map(|policy| &**policy).collect();
    let place = match &source {
        SourceAddress::Queue(_) => Place::Queue,
        #[cfg(feature = "kafka")]
        SourceAddress::Kafka(address) => {
            Place::Kafka(Box::new(kafka::flow(config, name, address, &policies, env).map_err(fail)?))
        }
        #[cfg(feature = "rabbitmq")]
        SourceAddress::Amqp(address) => {
            let usual = rabbitmq::prefetched(concurrency, spec.timeout, spec.rate);
            let rabbit = rabbitmq::flow(config, name, address, &policies, usual, env).map_err(fail)?;
            spec.prefetch = rabbitmq::in_hand(concurrency).max(rabbit.prefetch.into());
            Place::RabbitMq(Box::new(rabbit))
        }
        other => return Err(fail(not_built_in(other))),
    };
    refuse_circles(&place, &spec).map_err(fail)?;
    let topology = flow.topology.or(config.topology).unwrap_or(config::Topology::Apply);
    Ok(Setup { spec, place, topology, ledger: true })
}

/// Refuses a flow that would write into what it reads: its own dead letters and rejections would come back to it as messages,
/// and go round without an end.
fn refuse_circles(place: &Place, spec: &FlowSpec) -> Result<(), String> {
    let rejected = spec.rejected.as_deref();
    match place {
        Place::Queue if rejected == Some(&*spec.source) => Err(format!(
            "rejections would go to the queue `{}`, which the flow reads itself, without an end; name another queue for rejections",
            spec.source
        )),
        Place::Queue => Ok(()),
        #[cfg(feature = "kafka")]
        Place::Kafka(flow) => {
            redrive_kafka::refuse_circles(flow, rejected).map_err(|refusal| refusal.to_string())
        }
        #[cfg(feature = "rabbitmq")]
        Place::RabbitMq(flow) => {
            redrive_rabbitmq::refuse_circles(flow, rejected).map_err(|refusal| refusal.to_string())
        }
    }
}

/// The name of a flow that nobody named: its queue's, or its first topic's.
pub fn usual_name(from: &str) -> String {
    match from.parse() {
        Ok(SourceAddress::Queue(queue)) => queue,
        Ok(SourceAddress::Kafka(address)) => address.topics.into_iter().next().unwrap_or_default(),
        Ok(SourceAddress::Amqp(address)) => address.queue.unwrap_or_default(),
        Ok(SourceAddress::Postgres(address)) => address.queue.unwrap_or_default(),
        Err(_) => "flow".to_owned(),
    }
}

fn not_built_in(source: &SourceAddress) -> String {
    format!("{source} needs a part that is not in this build; an embedded queue is `queue:NAME`")
}

/// The queue or topic that rejection events go to, at the source's broker.
fn rejected(flow: &Flow, source: &SourceAddress) -> Result<Option<String>, String> {
    let Some(target) = &flow.rejected else { return Ok(None) };
    match (target.parse(), source) {
        (Ok(SourceAddress::Queue(queue)), SourceAddress::Queue(_)) => Ok(Some(queue)),
        (Ok(SourceAddress::Kafka(address)), SourceAddress::Kafka(own))
            if address.topics.len() == 1 && address.hosts == own.hosts =>
        {
            Ok(address.topics.into_iter().next())
        }
        (Ok(SourceAddress::Amqp(address)), SourceAddress::Amqp(own))
            if (&address.host, address.port, &address.vhost) == (&own.host, own.port, &own.vhost) =>
        {
            Ok(address.queue)
        }
        (_, SourceAddress::Amqp(_)) => Err(
            "rejected: expected a queue of the RabbitMQ that the flow reads, `amqp://BROKER/VHOST?queue=QUEUE`"
                .to_owned(),
        ),
        (_, SourceAddress::Kafka(_)) => {
            Err("rejected: expected one topic of the Kafka that the flow reads, `kafka://BROKER/TOPIC`"
                .to_owned())
        }
        _ => Err("rejected: expected `queue:NAME`, as the flow reads a queue".to_owned()),
    }
}

/// How the headers are spelled, and with what they are signed.
fn header_rules(flow: &Flow, env: &dyn Fn(&str) -> Option<String>) -> Result<HeaderRules, String> {
    let rules = HeaderRules::new(flow.headers.unwrap_or_default());
    Ok(match &flow.signing {
        None => rules,
        Some(signing) => rules.signed(signing.keyring(env)?),
    })
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
            (None, None, None) => match &spec.forward {
                Some(forward) => Ok(Arc::new(forwarding(forward))),
                None => Err("to: exactly one of http, exec, jsonl and forward is needed".to_owned()),
            },
            _ => Err("to: exactly one of http, exec, jsonl and forward is needed".to_owned()),
        },
    }
}

fn forwarding(written: &config::Forward) -> Forward {
    let targets = written.allow.iter().map(|target| target.strip_prefix("queue:").unwrap_or(target));
    let forward = Forward::new(targets);
    written.longest.map_or(forward.clone(), |longest| forward.longest(longest.0))
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
