//! From an error to a class: which kind of failure this is, by rules that people can read.
//!
//! A classifier keeps the knowledge of "what is worth a retry" out of the handlers. It sees the message and its
//! history as well as the error, because the same 409 means one thing on the first attempt and another on the
//! tenth. The first rule that matches wins, in this order: a wrapper in the error's own chain, resolvers (code),
//! the flow's rules, the global rules, the default rules; what none of them knows is UNKNOWN.

mod defaults;
mod io_kind;
mod matcher;
mod resolver;
mod rule;
mod sqlstate;
mod wrapper;

use std::sync::Arc;

use serde::Serialize;

pub use defaults::default_rules;
pub use io_kind::IoKind;
pub use matcher::{CodeRange, Glob, OneOrMany, Pattern, PatternError};
pub use resolver::{ErrorTypes, Resolver};
pub use rule::{Fault, Rule, When};
pub use sqlstate::{SqlPattern, SqlState, SqlStateError};
pub use wrapper::{NotRetryable, RetryBlocking, RetryDelayed, RetryInPlace};

pub(crate) use wrapper::wrapped_handling;

use crate::Headers;
use crate::{Class, Exit, Failure, Handling, History, Reason, Timestamp};
use rule::Present;

/// What a rule may know about the message. Everything is borrowed, and nothing is looked up before it is asked
/// for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// The message's type.
    pub message_type: Option<&'a str>,
    /// The version of its schema.
    pub schema: Option<&'a str>,
    /// Who produced it.
    pub producer: Option<&'a str>,
    /// When the message loses its meaning.
    pub deadline: Option<Timestamp>,
    /// The message's headers.
    pub headers: Option<&'a Headers>,
}

/// Everything that a rule or a resolver can look at.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The message.
    pub subject: &'a Subject<'a>,
    /// What happened to it before.
    pub history: &'a History,
    /// What went wrong this time.
    pub failure: &'a Failure,
}

/// What a classifier found, and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classification {
    /// The class.
    pub class: Class,
    /// The reason code.
    pub reason: Reason,
    /// A handling that takes the place of the class's layers.
    pub handling: Option<Handling>,
    /// An exit that takes the place of the policy's.
    pub exit: Option<Exit>,
    /// Whose fault it is, when it is not the message's.
    pub fault: Option<Fault>,
    /// Who classified it.
    pub by: By,
}

impl Classification {
    /// A classification with a class and a reason and nothing special.
    pub fn new(class: Class, reason: Reason) -> Self {
        Self { class, reason, handling: None, exit: None, fault: None, by: By::Nothing }
    }

    /// Sets the handling.
    #[must_use]
    pub fn with_handling(mut self, handling: Handling) -> Self {
        self.handling = Some(handling);
        self
    }

    /// Sets the exit.
    #[must_use]
    pub fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = Some(exit);
        self
    }
}

/// Who said what class a failure is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum By {
    /// The handler itself.
    Verdict(&'static str),
    /// A wrapper around the error.
    Wrapper(Handling),
    /// A resolver, by its name.
    Resolver(Arc<str>),
    /// A rule, by its name.
    Rule(Arc<str>),
    /// The signature of the message's headers, which did not hold.
    Signature,
    /// The message's body, which is gone.
    Body,
    /// No rule knew it.
    Nothing,
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Verdict(name) => write!(f, "the handler's verdict `{name}`"),
            Self::Wrapper(handling) => write!(f, "the error's wrapper ({handling})"),
            Self::Resolver(name) => write!(f, "resolver `{name}`"),
            Self::Rule(name) => write!(f, "rule `{name}`"),
            Self::Signature => {
                f.write_str("the headers are not signed by a key of the flow, for the second time")
            }
            Self::Body => f.write_str("its body is not where it lay any more, and nobody else has it"),
            Self::Nothing => f.write_str("no rule matches"),
        }
    }
}

/// Rules and resolvers in the order in which they are asked. Cloning shares them.
///
/// ```
/// use redrive_core::classify::{Classifier, Seen, Subject};
/// use redrive_core::{Class, Failure, History};
///
/// let classifier = Classifier::default();
/// let failure = Failure::from_message("busy").with_status(503);
/// let seen = Seen { subject: &Subject::default(), history: &History::first(), failure: &failure };
/// assert_eq!(classifier.classify(&seen).class, Class::Transient);
/// ```
#[derive(Debug, Clone)]
pub struct Classifier {
    resolvers: Arc<[Arc<dyn Resolver>]>,
    rules: Arc<[Indexed]>,
}

#[derive(Debug)]
struct Indexed {
    needs: Present,
    name: Arc<str>,
    reason: Reason,
    rule: Rule,
}

impl Default for Classifier {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new())
    }
}

impl Classifier {
    /// A classifier that asks the resolvers, then the given rules, then [the defaults](default_rules).
    pub fn new(resolvers: Vec<Arc<dyn Resolver>>, rules: Vec<Rule>) -> Self {
        Self::without_defaults(resolvers, rules.into_iter().chain(default_rules()).collect())
    }

    /// A classifier that knows the given rules only.
    pub fn without_defaults(resolvers: Vec<Arc<dyn Resolver>>, rules: Vec<Rule>) -> Self {
        let rules = rules
            .into_iter()
            .map(|rule| Indexed {
                needs: rule.when.needs(),
                name: rule.name.clone().unwrap_or_else(|| rule.when.to_string()).into(),
                reason: rule.reason(),
                rule,
            })
            .collect();
        Self { resolvers: resolvers.into(), rules }
    }

    /// The rules, in the order in which they are asked.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter().map(|indexed| &indexed.rule)
    }

    /// Says what kind of failure this is. Does not allocate unless a resolver does.
    pub fn classify(&self, seen: &Seen<'_>) -> Classification {
        let mut found = self.first_match(seen);
        if let Some(reason) = seen.failure.reason() {
            found.reason = reason.clone();
        }
        found
    }

    fn first_match(&self, seen: &Seen<'_>) -> Classification {
        if let Some(handling) = seen.failure.wrapped() {
            return wrapper::classification(handling);
        }
        for resolver in self.resolvers.iter() {
            if let Some(mut found) = resolver.resolve(seen) {
                if found.by == By::Nothing {
                    found.by = By::Resolver(resolver.name().into());
                }
                return found;
            }
        }
        let present = Present::of(seen);
        for indexed in self.rules.iter() {
            if present.contains(indexed.needs) && indexed.rule.when.matches(seen) {
                return Classification {
                    class: indexed.rule.class,
                    reason: indexed.reason.clone(),
                    handling: indexed.rule.handling,
                    exit: indexed.rule.then,
                    fault: indexed.rule.fault,
                    by: By::Rule(Arc::clone(&indexed.name)),
                };
            }
        }
        Classification::new(Class::Unknown, Reason::UNKNOWN_FAILURE)
    }
}
