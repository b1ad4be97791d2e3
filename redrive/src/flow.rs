//! A flow in code: the same power as the file, with a Rust function as its handler.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::classify::{Classification, ErrorTypes, Rule};
use redrive_core::headers::{Key, Keyring, Spelling};
use redrive_core::policy::{BudgetSpec, ByClass};
use redrive_core::{Class, Exit, Message, PolicySpec, Reason};
use redrive_engine::handler::{Context, FunctionHandler, Handler};
use redrive_engine::hook::{Diverted, FunctionHook, Hooks};

use crate::config::{self, Config, OrderBy};
use crate::error::{Error, Result};
use crate::instance::{Instance, InstanceOptions};
#[cfg(feature = "kafka")]
use crate::setup::Place;
use crate::setup::{self, InCode, Setup};

/// A flow being described. What is wrong with it is said when it is run, all at once.
///
/// ```no_run
/// use redrive::{Context, Flow, Message};
///
/// # async fn ship(order: serde_json::Value) -> Result<(), std::io::Error> { Ok(()) }
/// #[tokio::main]
/// async fn main() -> redrive::Result<()> {
///     Flow::from("queue:orders")
///         .retry("1s, 10s, 1m x3 jitter 10%")
///         .park_on::<serde_json::Error>("BAD_PAYLOAD")
///         .handle(|message: Message, _: Context| async move {
///             ship(message.json()?).await?;
///             Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
///         })
///         .run()
///         .await
/// }
/// ```
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "it is a flow as the configuration knows it")]
pub struct Flow {
    name: Option<String>,
    flow: config::Flow,
    policy: PolicySpec,
    types: ErrorTypes,
    once_per_message: bool,
    timeout: Option<Duration>,
    hooks: Hooks,
    keys: Vec<Key>,
    options: InstanceOptions,
    #[cfg(feature = "kafka")]
    partition: Option<Partition>,
    wrong: Vec<String>,
}

/// A partition of so many, for what came from one and has a key or none.
#[cfg(feature = "kafka")]
type Partition = fn(i32, Option<&[u8]>, i32) -> i32;

impl Flow {
    /// A flow that reads this address, such as `queue:orders`, `kafka://localhost:9092/orders?group=orders-worker` or
    /// `amqp://app:password@localhost/prod?queue=orders`.
    pub fn from(address: &str) -> Self {
        let flow = config::Flow {
            from: address.into(),
            to: config::Handler::Full(Box::default()),
            policy: None,
            local: None,
            blocking: None,
            retry: None,
            budgets: None,
            types: std::collections::BTreeMap::new(),
            order_by: None,
            delay: None,
            dead_letter: None,
            parking: None,
            rejected: None,
            headers: None,
            signing: None,
            concurrency: None,
            rate: None,
            breaker: None,
            retry_budget: None,
            owner: None,
            facts: None,
            hooks: None,
            links: std::collections::BTreeMap::new(),
            redact: Vec::new(),
            settle: None,
            groups: None,
            kafka: None,
            foreign: Vec::new(),
            queue: None,
            confirm_timeout: None,
            suffixes: None,
            topology: None,
            durability: None,
            handler_version: None,
            crash_limit: None,
        };
        let data =
            std::env::var_os("REDRIVE_DATA").map_or_else(|| PathBuf::from("redrive.db"), PathBuf::from);
        Self {
            name: None,
            flow,
            policy: PolicySpec::default(),
            types: ErrorTypes::default(),
            once_per_message: false,
            timeout: None,
            hooks: Hooks::default(),
            keys: Vec::new(),
            options: InstanceOptions { listen: None, ..InstanceOptions::new(data) },
            #[cfg(feature = "kafka")]
            partition: None,
            wrong: Vec::new(),
        }
    }

    /// Its name; by default the queue's or the first topic's. Topics of a flow begin with it.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Retries later, others go on: `1s, 10s, 1m x3 jitter 10%`.
    #[must_use]
    pub fn retry(mut self, schedule: &str) -> Self {
        self.policy.retry = self.schedule("retry", schedule);
        self
    }

    /// Retries in place, the message still in hand.
    #[must_use]
    pub fn local(mut self, schedule: &str) -> Self {
        self.policy.local = self.schedule("local", schedule);
        self
    }

    /// Retries that hold the flow.
    #[must_use]
    pub fn blocking(mut self, schedule: &str) -> Self {
        self.policy.blocking = self.schedule("blocking", schedule);
        self
    }

    fn schedule(&mut self, key: &str, text: &str) -> Option<ByClass> {
        match text.parse() {
            Ok(schedule) => Some(ByClass::general(schedule)),
            Err(error) => {
                let error: redrive_core::TextError = error;
                self.wrong.push(format!("{key}: {error}"));
                None
            }
        }
    }

    /// A whole policy, under what the other methods say.
    #[must_use]
    pub fn policy(mut self, policy: PolicySpec) -> Self {
        self.policy = self.policy.over(policy);
        self
    }

    /// What one message may use up.
    #[must_use]
    pub fn budgets(mut self, budgets: BudgetSpec) -> Self {
        self.policy.budgets = Some(budgets);
        self
    }

    /// Calls of the handler in all, the first included.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.policy.budgets.get_or_insert_default().attempts = Some(attempts);
        self
    }

    /// A rule, asked before the ones given later.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.policy.rules.push(rule);
        self
    }

    /// Says what an error of type `E` means, wherever in the source chain it stands.
    #[must_use]
    pub fn on<E: StdError + 'static>(mut self, class: Class, reason: &str) -> Self {
        if let Some(reason) = self.reason(reason) {
            self.types = self.types.on::<E>(class, reason);
        }
        self
    }

    /// Parks messages that fail with an error of type `E`.
    #[must_use]
    pub fn park_on<E: StdError + 'static>(mut self, reason: &str) -> Self {
        if let Some(reason) = self.reason(reason) {
            let found = Classification::new(Class::PermanentTechnical, reason).with_exit(Exit::Park);
            self.types = self.types.on_as::<E>(found);
        }
        self
    }

    fn reason(&mut self, code: &str) -> Option<Reason> {
        Reason::new(code).map_err(|error| self.wrong.push(error.to_string())).ok()
    }

    /// Which other spelling of the headers is written and read too.
    #[must_use]
    pub fn headers(mut self, spelling: Spelling) -> Self {
        self.flow.headers = Some(spelling);
        self
    }

    /// A key that signs the headers of what the flow writes. Given several times, the first signs and any of them
    /// verifies.
    ///
    /// ```no_run
    /// # use redrive::{Context, Flow, Message};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// Flow::from("queue:orders")
    ///     .signing_key(std::env::var("REDRIVE_SIGNING_KEY")?.parse()?)
    ///     .handle(|_: Message, _: Context| async { Ok::<(), std::io::Error>(()) });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn signing_key(mut self, key: Key) -> Self {
        self.keys.push(key);
        self
    }

    /// Which partition of their topic dead letters and parked messages go to, on Kafka: a function of the partition that a
    /// message came from, its key, and how many partitions the topic has. By default it is the same one.
    ///
    /// Where it names none that there is, or panics, the key decides.
    ///
    /// ```no_run
    /// # use redrive::{Context, Flow, Message};
    /// Flow::from("kafka://localhost:9092/orders?group=worker")
    ///     // What has no key is kept apart from the rest.
    ///     .dead_letter_partition(|from, key, count| if key.is_some() { from } else { count - 1 })
    ///     .handle(|_: Message, _: Context| async { Ok::<(), std::io::Error>(()) });
    /// ```
    #[cfg(feature = "kafka")]
    #[must_use]
    pub fn dead_letter_partition(mut self, choose: fn(i32, Option<&[u8]>, i32) -> i32) -> Self {
        self.partition = Some(choose);
        self
    }

    /// Keeps the messages of one key in order.
    #[must_use]
    pub fn order_by_key(mut self) -> Self {
        self.flow.order_by = Some(OrderBy::Key);
        self
    }

    /// How many calls run at once.
    #[must_use]
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.flow.concurrency = Some(calls);
        self
    }

    /// How long one call may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How often calls may start: `500/s`.
    #[must_use]
    pub fn rate(mut self, rate: &str) -> Self {
        match rate.parse() {
            Ok(rate) => self.flow.rate = Some(rate),
            Err(error) => {
                let error: redrive_core::TextError = error;
                self.wrong.push(format!("rate: {error}"));
            }
        }
        self
    }

    /// Who looks after it.
    #[must_use]
    pub fn owner(mut self, owner: &str) -> Self {
        self.flow.owner = Some(owner.to_owned());
        self
    }

    /// The data file; by default `$REDRIVE_DATA`, then `./redrive.db`.
    #[must_use]
    pub fn data(mut self, file: impl Into<PathBuf>) -> Self {
        self.options.data = file.into();
        self
    }

    /// Where the HTTP API listens; by default nowhere but on the socket beside the data file.
    #[must_use]
    pub fn listen(mut self, address: std::net::SocketAddr) -> Self {
        self.options.listen = Some(address);
        self
    }

    /// Acknowledges a message without a call that this handler has processed before. The mark is written together
    /// with the message's release.
    #[must_use]
    pub fn once_per_message(mut self) -> Self {
        self.once_per_message = true;
        self
    }

    /// Tells a function before a message is diverted: retried later, dead-lettered, parked, discarded or rejected.
    ///
    /// It looks on: what it answers, or that it fails, changes nothing about the message.
    #[must_use]
    pub fn before_divert<F, Fut, E>(mut self, function: F) -> Self
    where
        F: Fn(Diverted) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        self.hooks.before = Some(Arc::new(FunctionHook::new(function)));
        self
    }

    /// Tells a function after a message was diverted, or could not be: [`Diverted::problem`] says so.
    ///
    /// ```no_run
    /// # use redrive::{Context, Diverted, Flow, Message};
    /// # async fn page(text: String) -> Result<(), std::io::Error> { Ok(()) }
    /// Flow::from("queue:orders")
    ///     .after_divert(|diverted: Diverted| async move {
    ///         page(format!("{} is {}: {}", diverted.message.id, diverted.state, diverted.because)).await
    ///     })
    ///     .handle(|_: Message, _: Context| async { Ok::<(), std::io::Error>(()) });
    /// ```
    #[must_use]
    pub fn after_divert<F, Fut, E>(mut self, function: F) -> Self
    where
        F: Fn(Diverted) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        self.hooks.after = Some(Arc::new(FunctionHook::new(function)));
        self
    }

    /// The handler: a function of a message and its context.
    pub fn handle<F, Fut, E>(self, function: F) -> Ready
    where
        F: Fn(Message, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Ready { handler: Arc::new(FunctionHandler::new(function)), flow: self }
    }
}

/// A flow with its handler.
#[derive(Debug)]
pub struct Ready {
    flow: Flow,
    handler: Arc<dyn Handler>,
}

impl Ready {
    /// Runs until the process is told to stop (SIGTERM, Ctrl-C); a second time hurries it.
    pub async fn run(self) -> Result<()> {
        let instance = self.start().await?;
        crate::signals::told_to_stop().await?;
        instance
            .stop(async {
                let _ = crate::signals::told_to_stop().await;
            })
            .await;
        Ok(())
    }

    /// Starts, and leaves the rest to the caller.
    pub async fn start(self) -> Result<Instance> {
        let (set_up, options) = self.set_up()?;
        let mut instance = Instance::open(options, None).await?;
        instance.start(set_up, "a Rust function").await?;
        instance.ready();
        Ok(instance)
    }

    /// What the engine runs of it, and where.
    fn set_up(self) -> Result<(Setup, InstanceOptions)> {
        let described = self.flow;
        if !described.wrong.is_empty() {
            return Err(Error::Flow(described.wrong.join("; ")));
        }
        let mut flow = described.flow;
        let name = described.name.unwrap_or_else(|| setup::usual_name(&flow.from));
        flow.policy = Some(config::PolicyRef::Inline(Box::new(described.policy)));
        let mut config = Config { version: config::VERSION, ..Config::default() };
        config.flows.insert(name.clone(), flow);
        let types = described.types;
        let resolvers = if types.is_empty() { Vec::new() } else { vec![Arc::new(types) as _] };
        let in_code = InCode { handler: Some(self.handler), resolvers };
        let mut set_up = setup::flow(&config, &name, in_code, &|name| std::env::var(name).ok())?;
        let spec = &mut set_up.spec;
        spec.once_per_message = described.once_per_message;
        spec.hooks = described.hooks;
        if !described.keys.is_empty() {
            let keys = Keyring::from_keys(described.keys).map_err(|error| Error::Flow(error.to_string()))?;
            spec.headers = std::mem::take(&mut spec.headers).signed(keys);
        }
        spec.timeout = described.timeout.unwrap_or(spec.timeout);
        #[cfg(feature = "kafka")]
        if let Some(choose) = described.partition {
            let Place::Kafka(kafka) = &mut set_up.place else {
                let text = "dead_letter_partition: topics of Kafka alone have partitions; leave it out";
                return Err(Error::Flow(text.to_owned()));
            };
            kafka.dead_letter.partition = redrive_kafka::PartitionBy::Function(choose);
        }
        Ok((set_up, described.options))
    }
}

#[cfg(all(test, feature = "kafka"))]
mod tests {
    use super::*;

    fn set_up(from: &str) -> Result<Setup> {
        let choose = |from, key: Option<&[u8]>, count| if key.is_some() { from } else { count - 1 };
        let flow = Flow::from(from).dead_letter_partition(choose);
        let ready = flow.handle(|_: Message, _: Context| async { Ok::<(), std::io::Error>(()) });
        ready.set_up().map(|(set_up, _)| set_up)
    }

    #[test]
    fn a_function_chooses_where_dead_letters_go() {
        let Place::Kafka(kafka) = set_up("kafka://k1:9092/orders?group=w").unwrap().place else {
            panic!("no Kafka")
        };
        let redrive_kafka::PartitionBy::Function(choose) = kafka.dead_letter.partition else {
            panic!("{:?}", kafka.dead_letter)
        };
        assert_eq!((choose(2, Some(b"k"), 4), choose(2, None, 4)), (2, 3));
    }

    #[test]
    fn a_source_without_partitions_has_no_such_function() {
        for from in ["queue:orders", "amqp://rabbit/prod?queue=orders"] {
            let error = set_up(from).unwrap_err().to_string();
            assert!(error.contains("dead_letter_partition") && error.contains("Kafka alone"), "{error}");
        }
    }
}
