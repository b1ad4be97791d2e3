//! How the flow's headers are read and written, as its last subscription said.

use std::sync::{PoisonError, RwLock};

use crate::port::HeaderRules;

/// The rules, known from the first subscription on.
#[derive(Debug, Default)]
pub struct Rules(RwLock<HeaderRules>);

impl Rules {
    /// The rules of now. Cheap to have.
    pub fn get(&self) -> HeaderRules {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these.
    pub fn set(&self, rules: &HeaderRules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = rules.clone();
    }
}
