//! Planning and making what a flow needs at the broker.
//!
//! Nothing that exists is altered or deleted. Whether it is as it should be is asked by declaring it again on a channel
//! that nothing else hangs on: the broker names the argument that differs, and that is said before anything is made.

use std::sync::Arc;

use lapin::options::{ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Error, ExchangeKind};
use redrive_engine::port::{PortError, Refusal, Topology};

use crate::delay::Delays;
use crate::link::{self, Link};
use crate::look::Look;
use crate::things::{self, BindingSpec, ExchangeSpec, QueueSpec, Thing};
use crate::trouble::{self, No};
use crate::{RabbitFlow, amqp, names};

/// The argument by which a quorum queue of RabbitMQ 4 keeps messages that were handed out often.
const DELIVERY_LIMIT: &str = "x-delivery-limit";
/// What a server since 4.0 does to a quorum queue that is not the flow's own to make; it does not tell whether it does.
const LIMITED: &str = "since 4.0 RabbitMQ deletes what a quorum queue has got back 20 times, as at stops and long holds; unless that is lifted already, set a policy with `delivery-limit` -1";
/// What a flow needs, and how it is made.
#[derive(Debug)]
pub(crate) struct Needs {
    flow: Arc<RabbitFlow>,
    look: Arc<Look>,
    things: Vec<Thing>,
    /// Whether the server has a limit of deliveries unless it is told that there is none, as those since 4.0 do. An older
    /// one would take that word for a limit, and delete what is given back.
    limits: tokio::sync::OnceCell<bool>,
    link: Arc<Link>,
}

impl Needs {
    /// What this flow needs.
    pub(crate) fn new(flow: Arc<RabbitFlow>, delays: &Delays, link: Arc<Link>, look: Arc<Look>) -> Self {
        let things = things::of(&flow, delays);
        Self { flow, look, things, limits: tokio::sync::OnceCell::new(), link }
    }

    /// Whether a queue is the flow's own to make.
    pub(crate) fn owns(&self, name: &str) -> bool {
        self.things
            .iter()
            .any(|thing| matches!(thing, Thing::Queue(queue) if queue.owned && queue.name == name))
    }

    /// What is there and what is missing. Changes nothing.
    pub(crate) async fn plan(&self) -> Result<Vec<Topology>, PortError> {
        let mut plan: Vec<Topology> = Vec::with_capacity(self.things.len());
        for thing in &self.things {
            let found = match thing {
                Thing::Queue(queue) => self.plan_queue(queue).await?,
                Thing::Exchange(exchange) => self.plan_exchange(exchange).await?,
                Thing::Binding(binding) => {
                    // The broker does not tell of bindings: where both ends are there it is taken to be, and made again.
                    let is_there = |name: &str, kind: &str| {
                        plan.iter().any(|found| found.kind == kind && found.name == name && found.exists)
                    };
                    let to = if binding.to_exchange { "exchange" } else { "queue" };
                    let exists = is_there(&binding.from, "exchange") && is_there(&binding.to, to);
                    Topology::new("binding", &binding.name(), exists)
                }
            };
            plan.push(found);
        }
        Ok(plan)
    }

    /// Makes what is missing. Bindings are made in any case, which changes nothing where they are.
    pub(crate) async fn apply(&self, topology: &[Topology]) -> Result<(), PortError> {
        let missing = |kind: &str, name: &str| {
            topology.iter().any(|found| found.kind == kind && found.name == name && !found.exists)
        };
        for thing in &self.things {
            match thing {
                Thing::Queue(queue) if missing("queue", &queue.name) => {
                    if !queue.owned {
                        return Err(not_there(queue));
                    }
                    self.make_queue(queue).await?;
                }
                Thing::Exchange(exchange) if missing("exchange", &exchange.name) => {
                    self.make_exchange(exchange).await?;
                }
                Thing::Binding(binding) => {
                    let name = binding.name();
                    if topology.iter().any(|found| found.kind == "binding" && found.name == name) {
                        self.make_binding(binding).await?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes again what is missing, bindings among it, after a connection was lost, or a queue was deleted under the flow.
    /// Answers with what was missing, as far as the broker tells: of bindings it does not. A flow that makes nothing says
    /// what is missing, as an error.
    pub(crate) async fn restore(&self) -> Result<Vec<String>, PortError> {
        let plan = self.plan().await?;
        let foreign = |found: &Topology| self.flow.foreign.contains(&found.name);
        let own: Vec<Topology> = plan.into_iter().filter(|found| !foreign(found)).collect();
        let missing = own.iter().filter(|found| !found.exists && found.kind != "binding");
        let missing: Vec<String> =
            missing.map(|found| format!("the {} `{}`", found.kind, found.name)).collect();
        if self.flow.makes {
            self.apply(&own).await?;
        } else if !missing.is_empty() {
            let text = format!("{} is not there, and the flow makes nothing by itself", missing.join(", "));
            return Err(Refusal::Invalid(text).into());
        }
        Ok(missing)
    }

    async fn plan_queue(&self, queue: &QueueSpec) -> Result<Topology, PortError> {
        let exists = self.look.count(&queue.name).await?.is_some();
        let mut found = Topology::new("queue", &queue.name, exists);
        found.settings = queue.arguments.iter().map(|(name, value)| (name.clone(), shown(value))).collect();
        found.settings.insert("for".to_owned(), queue.purpose.to_owned());
        if !exists {
            if !queue.owned {
                found.drift.push(not_there(queue).to_string());
            }
            return Ok(found);
        }
        if !queue.owned && queue.name == self.flow.queue && is_quorum(queue) && self.limits().await {
            found.drift.push(LIMITED.to_owned());
        }
        if queue.owned
            && let Err(error) = self.declare_queue(queue).await?
            && let Some(text) = differs(&error)
        {
            let follows = without_argument(&text).unwrap_or_else(|| what_follows(&text));
            found.drift.push(format!("{text}; {follows}"));
        }
        Ok(found)
    }

    async fn plan_exchange(&self, exchange: &ExchangeSpec) -> Result<Topology, PortError> {
        let doing = format!("cannot look at the exchange `{}`", exchange.name);
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let exists = match self.declare_exchange(exchange, options).await? {
            Ok(()) => true,
            Err(error) if trouble::no(&error) == Some(No::NotFound) => false,
            Err(error) if is_no_plugin(&error) => return Err(self.no_plugin()),
            Err(error) => return Err(trouble::asked(&doing, &error)),
        };
        let mut found = Topology::new("exchange", &exchange.name, exists);
        found.settings =
            exchange.arguments.iter().map(|(name, value)| (name.clone(), shown(value))).collect();
        found.settings.insert("type".to_owned(), exchange.kind.to_owned());
        if exists {
            let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            if let Err(error) = self.declare_exchange(exchange, options).await?
                && let Some(text) = differs(&error)
            {
                let follows = without_argument(&text).unwrap_or("copies may find no way, or go another one");
                found.drift.push(format!("{text}; {follows}"));
            }
        }
        Ok(found)
    }

    async fn make_queue(&self, queue: &QueueSpec) -> Result<(), PortError> {
        let doing = format!("cannot make the queue `{}`", queue.name);
        match self.declare_queue(queue).await? {
            Ok(()) => Ok(()),
            // Somebody else made it meanwhile, in another way: the next plan says so.
            Err(error) if differs(&error).is_some_and(|text| text.contains("inequivalent")) => Ok(()),
            Err(error) => Err(trouble::asked(&doing, &error)),
        }
    }

    /// Declares a queue, on a server since 4.0 without a limit of deliveries: it would delete what is given back often.
    async fn declare_queue(&self, queue: &QueueSpec) -> Result<lapin::Result<()>, PortError> {
        let doing = format!("cannot declare the queue `{}`", queue.name);
        let name = link::short(&queue.name)?;
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = queue.arguments.clone();
        if is_quorum(queue) && self.limits().await {
            let none = AMQPValue::LongLongInt(-1);
            arguments.entry(DELIVERY_LIMIT.to_owned()).or_insert(none);
        }
        let arguments = things::table(&arguments);
        let asked = self
            .look
            .ask(&doing, async |channel| channel.queue_declare(name, options, arguments).await.map(drop));
        asked.await
    }

    async fn limits(&self) -> bool {
        let ask = async || self.link.version().await.map(|(major, _)| major >= 4).ok_or(());
        // Who does not know it makes queues as an older server takes them, and asks again for the next one.
        self.limits.get_or_try_init(ask).await.is_ok_and(|limits| *limits)
    }

    async fn make_exchange(&self, exchange: &ExchangeSpec) -> Result<(), PortError> {
        let doing = format!("cannot make the exchange `{}`", exchange.name);
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        match self.declare_exchange(exchange, options).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if is_no_plugin(&error) => Err(self.no_plugin()),
            Ok(Err(error)) if differs(&error).is_some_and(|text| text.contains("inequivalent")) => Ok(()),
            Ok(Err(error)) => Err(trouble::asked(&doing, &error)),
            Err(error) => Err(error),
        }
    }

    async fn declare_exchange(
        &self,
        exchange: &ExchangeSpec,
        options: ExchangeDeclareOptions,
    ) -> Result<lapin::Result<()>, PortError> {
        let doing = format!("cannot declare the exchange `{}`", exchange.name);
        let name = link::short(&exchange.name)?;
        let kind = match exchange.kind {
            "fanout" => ExchangeKind::Fanout,
            "topic" => ExchangeKind::Topic,
            other => ExchangeKind::Custom(other.to_owned()),
        };
        let arguments = things::table(&exchange.arguments);
        let asked = self
            .look
            .ask(&doing, async |channel| channel.exchange_declare(name, kind, options, arguments).await);
        asked.await
    }

    async fn make_binding(&self, binding: &BindingSpec) -> Result<(), PortError> {
        let doing = format!("cannot bind {}", binding.name());
        let (from, to) = (link::short(&binding.from)?, link::short(&binding.to)?);
        let key = link::short(&binding.key)?;
        let to_exchange = binding.to_exchange;
        let asked = self.look.ask(&doing, async |channel| {
            if to_exchange {
                let options = ExchangeBindOptions::default();
                channel.exchange_bind(to, from, key, options, FieldTable::default()).await
            } else {
                channel.queue_bind(to, from, key, QueueBindOptions::default(), FieldTable::default()).await
            }
        });
        match asked.await? {
            Ok(()) => Ok(()),
            Err(error) => Err(trouble::asked(&doing, &error)),
        }
    }

    fn no_plugin(&self) -> PortError {
        Refusal::State(format!(
            "RabbitMQ at {}:{} has no plug-in `rabbitmq_delayed_message_exchange`, which the delay mode `delayed-exchange` needs; enable it, or use `cascade`",
            self.flow.login.host, self.flow.login.port
        ))
        .into()
    }

    /// The commands that do by policies what the queues are otherwise made with; what a server since 4.0 needs beside that is
    /// among it when it can be asked.
    pub(crate) async fn policies(&self) -> Vec<String> {
        let flow = &self.flow;
        let limits = self.limits().await;
        let vhost = quoted(&flow.login.vhost);
        let mut commands = Vec::new();
        for thing in &self.things {
            // A level's exchange is called as its queue is, and a second policy of one name would replace the first.
            let (name, arguments, apply_to, suffix) = match thing {
                Thing::Queue(queue) if queue.owned => (&queue.name, &queue.arguments, "queues", ""),
                Thing::Exchange(exchange) => (&exchange.name, &exchange.arguments, "exchanges", ".exchange"),
                _ => continue,
            };
            let mut definition = serde_json::Map::new();
            for (argument, value) in arguments {
                let key = argument.strip_prefix("x-").unwrap_or(argument);
                // These cannot be given by a policy.
                if ["queue-type", "single-active-consumer", "delayed-type"].contains(&key) {
                    continue;
                }
                let value = amqp::number(value)
                    .filter(|_| !matches!(value, AMQPValue::LongString(_)))
                    .map_or_else(|| shown(value).into(), serde_json::Value::from);
                definition.insert(key.to_owned(), value);
            }
            if limits && matches!(thing, Thing::Queue(queue) if is_quorum(queue)) {
                definition.insert("delivery-limit".to_owned(), (-1).into());
            }
            if definition.is_empty() {
                continue;
            }
            let definition = serde_json::Value::Object(definition).to_string();
            commands.push(format!(
                "rabbitmqctl set_policy -p {vhost} --apply-to {apply_to} {} {} {}",
                quoted(&format!("{name}{suffix}")),
                quoted(&format!("^{}$", escaped(name))),
                quoted(&definition),
            ));
        }
        commands
    }

    /// What the flow's user has to be allowed, as `rabbitmqctl` takes it.
    pub(crate) fn permissions(&self) -> Vec<String> {
        let flow = &self.flow;
        let mut ways: Vec<String> = Vec::new();
        if !flow.rejects() {
            // The levels and steps have names of their own behind this one.
            ways.push(format!("{}(\\..*)?", escaped(&names::retry(flow))));
            ways.push(escaped(&names::stray(flow)));
        }
        let mut all = ways.clone();
        let mut add = |name: &str| {
            let name = escaped(name);
            if !all.contains(&name) {
                all.push(name);
            }
        };
        if !flow.rejects() {
            add(&names::resolved(flow));
        }
        if flow.shelves() {
            add(&flow.dead_letter.queue);
            add(names::parking(flow));
        }
        let mut configure = all.clone();
        let mut read = all;
        if flow.owned && !flow.rejects() {
            configure.push(escaped(&flow.queue));
        }
        if flow.alone {
            configure.push(escaped(&names::place(flow)));
        }
        read.push(escaped(&flow.queue));
        read.extend(flow.foreign.iter().map(|queue| escaped(queue)));
        // A binding needs to write to what is bound; all else is written by the default exchange.
        let mut write = ways;
        if !flow.rejects() {
            write.push(escaped(&flow.queue));
        }
        if flow.shelves() {
            write.push("amq\\.default".to_owned());
        }
        let pattern = |names: &[String]| {
            // An empty pattern allows nothing.
            if names.is_empty() { quoted("") } else { quoted(&format!("^({})$", names.join("|"))) }
        };
        vec![format!(
            "rabbitmqctl set_permissions -p {} {} {} {} {}",
            quoted(&flow.login.vhost),
            quoted(&flow.login.user),
            pattern(&configure),
            pattern(&write),
            pattern(&read),
        )]
    }
}

fn is_quorum(queue: &QueueSpec) -> bool {
    matches!(queue.arguments.get("x-queue-type"), Some(AMQPValue::LongString(kind)) if kind.as_bytes() == b"quorum")
}

fn not_there(queue: &QueueSpec) -> PortError {
    Refusal::State(format!(
        "the queue `{}` ({}) is not there, and it is not the flow's own to make; make it, or name another",
        queue.name, queue.purpose
    ))
    .into()
}

fn shown(value: &AMQPValue) -> String {
    amqp::shown(value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// What the broker says is different.
fn differs(error: &Error) -> Option<String> {
    (trouble::no(error) == Some(No::Differs)).then(|| {
        let text = trouble::shown(error);
        text.strip_prefix("PRECONDITION_FAILED - ").map_or(text.clone(), str::to_owned)
    })
}

fn is_no_plugin(error: &Error) -> bool {
    let text = trouble::shown(error);
    text.contains("x-delayed-message") || text.contains("unknown exchange type")
}

/// What to say of an argument that is not declared at all.
fn without_argument(text: &str) -> Option<&'static str> {
    let undeclared = text.contains("current is none") && !text.contains(DELIVERY_LIMIT);
    undeclared.then_some(
        "that is well where a policy gives it, which RabbitMQ does not tell (`redrive topology plan --as-policies` prints one); else delete it when it is empty",
    )
}

fn what_follows(text: &str) -> &'static str {
    if text.contains("x-message-ttl") {
        "messages in it wait for another time than they should; delete it when it is empty"
    } else if text.contains("x-dead-letter") || text.contains("x-overflow") {
        "what waits in it may be lost or go elsewhere; delete it when it is empty"
    } else if text.contains("x-queue-type") || text.contains("durable") {
        "it is another kind of queue than the flow makes; name that kind, or delete it when it is empty"
    } else if text.contains("x-max-length") {
        "what is to get into it is kept back while it is full; delete it when it is empty"
    } else if text.contains(DELIVERY_LIMIT) {
        "a message that is given back often is deleted by the broker; set a policy with `delivery-limit` -1"
    } else {
        "it stays as it is"
    }
}

fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for character in name.chars() {
        if !character.is_alphanumeric() && !matches!(character, '-' | '_' | ' ') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// For a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
