//! What people have ordered, for as long as it is in force.

use redrive_core::Timestamp;
use redrive_engine::port::{Actor, Control, ControlKind, LaneName, Order, Quarantine, Refusal};

use super::state::State;

impl State {
    /// The controls in force, those of one flow together, the oldest first.
    pub(super) fn controls(&self) -> Vec<Control> {
        let mut controls = self.controls.clone();
        for control in controls.iter_mut().filter(|control| control.kind == ControlKind::Quarantine) {
            control.held = self.kept_in(&control.flow, &LaneName::of_quarantine(&control.target));
        }
        controls.sort_by(|one, other| one.flow.cmp(&other.flow));
        controls
    }

    /// Carries an order out; answers with how many messages it let go.
    pub(super) fn order(
        &mut self,
        flow: &str,
        order: &Order,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<u64, Refusal> {
        order.check(flow)?;
        let (kind, target) = (order.control(), order.target());
        let place = self
            .controls
            .iter()
            .position(|control| control.flow == flow && control.kind == kind && control.target == target);
        let mut released = 0;
        match (order.begins(), place) {
            (true, None) => {
                let quarantines =
                    |control: &&Control| control.flow == flow && control.kind == ControlKind::Quarantine;
                if kind == ControlKind::Quarantine
                    && self.controls.iter().filter(quarantines).count() as u64 >= Quarantine::MOST
                {
                    return Err(Quarantine::limit(flow));
                }
                self.controls.push(Control {
                    flow: flow.to_owned(),
                    kind,
                    target,
                    by: actor.who.clone(),
                    reason: actor.why.clone(),
                    at: now,
                    held: 0,
                });
            }
            (false, Some(place)) => {
                self.controls.remove(place);
                if let Order::Release(quarantine) = order {
                    released = self.release_quarantine(flow, &quarantine.lane(), now);
                }
            }
            _ => return Err(order.refusal(flow)),
        }
        self.note(actor, order.name(), &order.subject(flow), released, now);
        Ok(released)
    }
}
