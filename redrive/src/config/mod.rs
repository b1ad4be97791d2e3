//! The configuration file: reading it, checking it, and what follows from it.
//!
//! A file that is wrong is fixed fastest when everything wrong is said at once, each at its place. So a check has
//! four steps, and each goes on with whatever the one before could use: the YAML becomes a tree of places,
//! variables are filled in, the structure is held against the JSON schema of the types
//! below, and what it all means is looked at last.
//!
//! Policies are laid over each other, the later over the earlier: the built-in ladder (only where no schedule is
//! named at all), `policies.default`, the policy that a flow names or brings, what the flow itself changes, what
//! it changes for a message type.

mod broker;
mod built_in;
mod file;
mod finding;
mod flow;
mod flow_checks;
mod forward_checks;
mod guards;
mod handler;
pub mod import;
mod kafka_checks;
mod layers;
mod policy_checks;
mod queue;
mod rabbitmq_checks;
mod semantic;
mod signing;
mod source_checks;
mod structure;
mod substitute;
mod suggest;
mod texts;
mod tree;

use std::sync::LazyLock;

use redrive_core::PolicySpec;
use serde_json::Value;

pub use broker::{Broker, Kafka, RabbitMq};
pub use built_in::{BUILT_IN, is_built_in};
pub use file::{Config, Tls, VERSION};
pub use finding::{Finding, Severity};
pub use flow::{
    Bodies, DeadLetter, DeadLetterSpec, DelayMode, Durability, Flow, Format, Groups, Hooks, KafkaSettings,
    Partition, PolicyRef, Settle, Suffixes, Topology,
};
pub use guards::{BreakerSpec, RetryBudgetSpec, WindowSpec};
pub use handler::{Forward, Handler, HandlerSpec};
pub use queue::{QueueKind, QueueSpec};
pub use redrive_core::{OrderBy, OrderByError};
pub use signing::{Signing, SigningKey};
pub use suggest::nearest;

use crate::codes;
use finding::Findings;

/// A larger file is none that a person wrote.
pub const MAX_BYTES: usize = 1024 * 1024;

/// What a check found, and the configuration if it can be used.
#[derive(Debug, Clone)]
pub struct Report<T> {
    /// The file's text, with the bytes that are not UTF-8 replaced.
    pub source: String,
    /// What was read; nothing when there are errors.
    pub value: Option<T>,
    /// Everything found, in the order of the file.
    pub findings: Vec<Finding>,
}

impl<T> Report<T> {
    /// How many findings there are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

static CONFIG_SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Config).to_value());
static CONFIG_CHECK: LazyLock<Value> = LazyLock::new(|| structure::normalized(CONFIG_SCHEMA.clone()));
static POLICY_CHECK: LazyLock<Value> =
    LazyLock::new(|| structure::normalized(schemars::schema_for!(PolicySpec).to_value()));

/// The JSON schema of the file, for editors.
pub fn schema() -> &'static Value {
    &CONFIG_SCHEMA
}

/// Checks a file and reads it. `env` looks up `${NAME}`.
///
/// ```
/// let file = b"version: 1\nflows:\n  orders:\n    from: queue:orders\n    to: http://127.0.0.1:3000\n    concurency: 8\n";
/// let report = redrive::config::check(file, &|_| None);
/// let error = report.findings.iter().find(|finding| finding.severity == redrive::config::Severity::Error);
/// assert_eq!(
///     error.map(ToString::to_string).unwrap_or_default(),
///     "6:5: error RD-CONFIG-03: unknown key `concurency` (did you mean `concurrency`?)",
/// );
/// ```
pub fn check(bytes: &[u8], env: &dyn Fn(&str) -> Option<String>) -> Report<Config> {
    read(bytes, env, &CONFIG_CHECK, |tree, config: &mut Config, findings| {
        semantic::check(tree, config, findings);
    })
}

/// The same for a run whose data was named beside the file, which then says nothing of it that counts.
pub fn check_with_data(bytes: &[u8], env: &dyn Fn(&str) -> Option<String>, data: &str) -> Report<Config> {
    read(bytes, env, &CONFIG_CHECK, |tree, config: &mut Config, findings| {
        config.data = Some(data.into());
        semantic::check(tree, config, findings);
    })
}

/// Checks a file that holds one policy and nothing else.
pub fn check_policy(bytes: &[u8], env: &dyn Fn(&str) -> Option<String>) -> Report<PolicySpec> {
    read(bytes, env, &POLICY_CHECK, policy_checks::check_alone)
}

/// Whether a file is a configuration, by its keys, and not a policy by itself.
pub fn is_config(bytes: &[u8]) -> bool {
    let source = String::from_utf8_lossy(bytes);
    let mut findings = Findings::new(&source);
    let tree = if bytes.len() > MAX_BYTES { None } else { tree::read(&mut findings) };
    tree.is_none_or(|tree| {
        ["version", "flows", "policies", "brokers"].iter().any(|key| tree.get(key).is_some())
    })
}

fn read<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    env: &dyn Fn(&str) -> Option<String>,
    schema: &Value,
    semantic: impl FnOnce(&tree::Node, &mut T, &mut Findings<'_>),
) -> Report<T> {
    let source = match text(bytes) {
        Ok(source) => source,
        Err(report) => return report,
    };
    let mut findings = Findings::new(&source);
    let mut value = None;
    if let Some(mut tree) = tree::read(&mut findings) {
        substitute::substitute(&mut tree, env, &mut findings);
        value = typed(&tree, schema, &mut findings);
        if let Some(value) = &mut value {
            semantic(&tree, value, &mut findings);
        }
    } else if findings.len() == 0 {
        let help = "begin with `version: 1` and `flows:`".to_owned();
        findings.error(codes::EMPTY_FILE, 0..0, "the file is empty", help);
    }
    let findings = findings.into_sorted();
    let value = value.filter(|_| findings.iter().all(|finding| finding.severity < Severity::Error));
    Report { source, value, findings }
}

/// What fits of the tree, as the type it is for.
fn typed<T: serde::de::DeserializeOwned>(
    tree: &tree::Node,
    schema: &Value,
    findings: &mut Findings<'_>,
) -> Option<T> {
    let mut json = structure::check(tree, schema, findings)?;
    // Without its version a file is looked at as one of the version there is.
    if let (Some(fits), true) = (json.as_object_mut(), schema["properties"].get("version").is_some()) {
        fits.entry("version").or_insert_with(|| VERSION.into());
    }
    match serde_json::from_value(json) {
        Ok(value) => Some(value),
        Err(error) => {
            findings.error(codes::WRONG_TYPE, tree.span.clone(), error.to_string(), None);
            None
        }
    }
}

/// A file as text, or the report that says why it is none.
fn text<T>(bytes: &[u8]) -> Result<String, Report<T>> {
    if bytes.len() > MAX_BYTES {
        return Err(unreadable(String::new(), 0, &format!("the file is larger than {MAX_BYTES} bytes")));
    }
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|error| {
        let source = String::from_utf8_lossy(bytes).into_owned();
        unreadable(source, error.valid_up_to(), "the file is not UTF-8 text")
    })
}

fn unreadable<T>(source: String, at: usize, message: &str) -> Report<T> {
    let mut findings = Findings::new(&source);
    findings.error(
        codes::NOT_TEXT,
        at..at,
        message,
        "write the file as UTF-8 text of at most 1 MiB".to_owned(),
    );
    let findings = findings.into_sorted();
    Report { source, value: None, findings }
}
