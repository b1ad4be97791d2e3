//! The breaker's rules over plain lists.

use std::time::Duration;

use redrive_core::guard::{BreakerConfig, BreakerState, Outcome, Permit, Window};

/// A breaker that keeps every event.
pub(super) struct Model {
    pub(super) config: BreakerConfig,
    pub(super) phase: Phase,
    /// Counted calls of this closed spell: when, failed, slow.
    pub(super) calls: Vec<(Duration, bool, bool)>,
    pub(super) spell: u32,
    pub(super) trips: u64,
}

pub(super) enum Phase {
    Closed { forced: bool },
    Open { until: Option<Duration> },
    HalfOpen { probes: Vec<Probe>, results: Vec<(bool, bool)> },
}

pub(super) struct Probe {
    pub(super) permit: Permit,
    pub(super) expires: Duration,
    pub(super) is_back: bool,
    pub(super) is_replaced: bool,
}

impl Model {
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.spell += 1;
    }

    pub(super) fn trip(&mut self, now: Duration) {
        self.trips += 1;
        self.enter(Phase::Open { until: Some(now + self.config.open) });
    }

    /// Whether a call passes, as a probe or not; else when to ask again.
    pub(super) fn admit(&mut self, now: Duration) -> Result<bool, Option<Duration>> {
        match &self.phase {
            Phase::Closed { .. } => return Ok(false),
            Phase::Open { until: None } => return Err(None),
            Phase::Open { until: Some(until) } if now < *until => return Err(Some(*until)),
            Phase::Open { .. } => self.enter(Phase::HalfOpen { probes: Vec::new(), results: Vec::new() }),
            Phase::HalfOpen { .. } => {}
        }
        let Phase::HalfOpen { probes, .. } = &mut self.phase else { unreachable!() };
        let places: Vec<_> = probes.iter().filter(|probe| !probe.is_replaced).collect();
        if places.len() < self.config.half_open_probes as usize {
            return Ok(true);
        }
        let free_at = places.iter().filter(|probe| !probe.is_back).map(|probe| probe.expires).min();
        let free_at = free_at.expect("one has not reported");
        if now < free_at {
            return Err(Some(free_at));
        }
        let expired = probes
            .iter_mut()
            .find(|probe| !probe.is_replaced && !probe.is_back && probe.expires <= now)
            .unwrap();
        expired.is_replaced = true;
        Ok(true)
    }

    pub(super) fn admitted(&mut self, now: Duration, permit: Permit) {
        let expires = now + self.config.open;
        if let Phase::HalfOpen { probes, .. } = &mut self.phase {
            probes.push(Probe { permit, expires, is_back: false, is_replaced: false });
        }
    }

    pub(super) fn record(&mut self, now: Duration, permit: (u32, Permit), outcome: Outcome, took: Duration) {
        if permit.0 != self.spell {
            return;
        }
        let config = self.config.clone();
        let counts = outcome != Outcome::Ignored;
        let call =
            (outcome == Outcome::Failure, counts && config.slow_call.is_some_and(|limit| took > limit));
        let too_many = |calls: &[(bool, bool)], of: usize| {
            // Its shares are whole twentieths, so that the model can count in whole numbers.
            let reached = |some: usize, share: f64| some * 20 >= (share * 20.0).round() as usize * of;
            let failed = calls.iter().filter(|call| call.0).count();
            let slow = calls.iter().filter(|call| call.1).count();
            reached(failed, config.failure_share)
                || config.slow_call.is_some() && reached(slow, config.slow_share)
        };
        match &mut self.phase {
            Phase::Closed { forced } => {
                let is_forced = *forced;
                if !counts {
                    return;
                }
                self.calls.push((now, call.0, call.1));
                let window = self.window(now);
                let row = self.calls.iter().rev().take_while(|call| call.1).count();
                let by_row = config.consecutive > 0 && row >= config.consecutive as usize;
                let by_share = window.len() >= config.min_calls as usize && too_many(&window, window.len());
                if !is_forced && (by_row || by_share) {
                    self.trip(now);
                }
            }
            Phase::Open { .. } => {}
            Phase::HalfOpen { probes, results } => {
                let probe = probes.iter_mut().find(|probe| probe.permit == permit.1).unwrap();
                probe.is_back = true;
                results.push(call);
                let of = config.half_open_probes as usize;
                let mut worst = results.clone();
                worst.resize(of.max(results.len()), (true, config.slow_call.is_some()));
                if too_many(results, of) {
                    self.trip(now);
                } else if !too_many(&worst, of) {
                    self.calls.clear();
                    self.enter(Phase::Closed { forced: false });
                }
            }
        }
    }

    pub(super) fn window(&self, now: Duration) -> Vec<(bool, bool)> {
        let in_window = |at: Duration, behind: usize| match self.config.window {
            Window::Time(time) => {
                let width = time.as_nanos().div_ceil(30);
                now.as_nanos() / width - at.as_nanos() / width < 30
            }
            Window::Count(count) => behind < count as usize,
        };
        let calls = self.calls.iter().rev().enumerate();
        calls.filter(|(behind, call)| in_window(call.0, *behind)).map(|(_, call)| (call.1, call.2)).collect()
    }

    pub(super) fn state(&self, now: Duration) -> BreakerState {
        match &self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { until } if until.is_none_or(|until| now < until) => BreakerState::Open,
            Phase::Open { .. } | Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }
}
