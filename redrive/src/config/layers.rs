//! Which policies lie over which, and what comes out of it.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::policy::ByClass;
use redrive_core::{Date, PolicySpec};

use super::file::Config;
use super::flow::{Flow, PolicyRef};

/// The policy that lies under all others.
pub(crate) const DEFAULT: &str = "default";

/// A part of a policy, and where in the file it was written.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) spec: PolicySpec,
    pub(crate) path: Vec<String>,
}

impl Layer {
    fn new(spec: PolicySpec, path: &[&str]) -> Self {
        Self { spec, path: path.iter().map(|step| (*step).to_owned()).collect() }
    }
}

impl Config {
    /// The policy of that name over the default one, with the holidays and rules of the file; nothing when there
    /// is none.
    pub fn policy(&self, name: &str) -> Option<PolicySpec> {
        self.policies.contains_key(name).then(|| self.laid(&self.policy_layers(name)))
    }

    /// What a flow does with messages of a type, all layers together; nothing when there is no such flow.
    ///
    /// ```
    /// let file = b"{ version: 1, policies: { default: { retry: '1s x2' } }, flows: { orders: {
    ///     from: 'queue:orders', to: 'http://127.0.0.1:3000', types: { Refund: { retry: '5s' } } } } }";
    /// let config = redrive::config::check(file, &|_| None).value.unwrap_or_default();
    /// let attempts = |kind| config.flow_policy("orders", kind).and_then(|spec| spec.build().ok()?.attempts());
    /// assert_eq!((attempts(None), attempts(Some("Refund"))), (Some(3), Some(2)));
    /// ```
    pub fn flow_policy(&self, flow: &str, message_type: Option<&str>) -> Option<PolicySpec> {
        let layers = self.flow_layers(flow, self.flows.get(flow)?, message_type);
        Some(self.laid(&layers))
    }

    /// The layers together, the first one lowest.
    pub(crate) fn laid(&self, layers: &[Layer]) -> PolicySpec {
        let over = |base, layer: &Layer| layer.spec.clone().over(base);
        let mut spec = layers.iter().fold(PolicySpec::default(), over);
        for by_class in schedules(&mut spec.local, &mut spec.blocking, &mut spec.retry) {
            fill_holidays(by_class, &self.holidays, &mut BTreeSet::new());
        }
        spec
    }

    /// The layers of a policy by itself.
    pub(crate) fn policy_layers(&self, name: &str) -> Vec<Layer> {
        let mut layers = self.base_layers();
        if let Some(spec) = self.policies.get(name).filter(|_| name != DEFAULT) {
            layers.push(Layer::new(spec.clone(), &["policies", name]));
        }
        layers
    }

    /// The layers of a flow, for messages of a type or for all others.
    pub(crate) fn flow_layers(&self, name: &str, flow: &Flow, message_type: Option<&str>) -> Vec<Layer> {
        let mut layers = match &flow.policy {
            Some(PolicyRef::Named(policy)) => self.policy_layers(policy),
            _ => self.base_layers(),
        };
        if let Some(PolicyRef::Inline(spec)) = &flow.policy {
            layers.push(Layer::new((**spec).clone(), &["flows", name, "policy"]));
        }
        layers.push(Layer::new(flow.own_layer(), &["flows", name]));
        let of_type = message_type.and_then(|kind| flow.types.get_key_value(kind));
        match of_type {
            Some((_, PolicyRef::Named(policy))) => {
                if let Some(spec) = self.policies.get(policy) {
                    layers.push(Layer::new(spec.clone(), &["policies", policy]));
                }
            }
            Some((kind, PolicyRef::Inline(spec))) => {
                layers.push(Layer::new((**spec).clone(), &["flows", name, "types", kind]));
            }
            None => {}
        }
        layers
    }

    /// What lies under every policy: the rules of the whole file, which are asked last, and the default policy.
    fn base_layers(&self) -> Vec<Layer> {
        let mut layers = Vec::new();
        if !self.rules.is_empty() {
            let rules = PolicySpec { rules: self.rules.clone(), ..PolicySpec::default() };
            layers.push(Layer::new(rules, &[]));
        }
        if let Some(spec) = self.policies.get(DEFAULT) {
            layers.push(Layer::new(spec.clone(), &["policies", DEFAULT]));
        }
        layers
    }

    /// Tells every calendar of the file which dates its holidays are, and gives the names of those that leave one
    /// without any opening; that calendar then has none.
    pub(crate) fn resolve_holidays(&mut self) -> BTreeSet<String> {
        let mut unusable = BTreeSet::new();
        let Self { policies, flows, holidays, .. } = self;
        for spec in policies.values_mut() {
            for by_class in schedules(&mut spec.local, &mut spec.blocking, &mut spec.retry) {
                fill_holidays(by_class, holidays, &mut unusable);
            }
        }
        for flow in flows.values_mut() {
            for by_class in schedules(&mut flow.local, &mut flow.blocking, &mut flow.retry) {
                fill_holidays(by_class, holidays, &mut unusable);
            }
            for policy in flow.policy.iter_mut().chain(flow.types.values_mut()) {
                let PolicyRef::Inline(spec) = policy else { continue };
                for by_class in schedules(&mut spec.local, &mut spec.blocking, &mut spec.retry) {
                    fill_holidays(by_class, holidays, &mut unusable);
                }
            }
        }
        unusable
    }
}

fn schedules<'a>(
    local: &'a mut Option<ByClass>,
    blocking: &'a mut Option<ByClass>,
    retry: &'a mut Option<ByClass>,
) -> impl Iterator<Item = &'a mut ByClass> {
    [local, blocking, retry].into_iter().flatten()
}

/// Tells the calendars which dates a name stands for. Dates that leave a calendar without any opening are left out,
/// and their name is `unusable`.
fn fill_holidays(
    by_class: &mut ByClass,
    holidays: &BTreeMap<String, Vec<Date>>,
    unusable: &mut BTreeSet<String>,
) {
    for schedule in by_class.iter_mut() {
        let wanted: BTreeSet<String> = schedule.holidays_wanted().map(str::to_owned).collect();
        for name in wanted {
            let Some(dates) = holidays.get(&name) else { continue };
            let filled = schedule.with_holidays(&name, dates.iter().copied()).or_else(|_| {
                unusable.insert(name.clone());
                schedule.with_holidays(&name, [])
            });
            if let Ok(filled) = filled {
                *schedule = filled;
            }
        }
    }
}
