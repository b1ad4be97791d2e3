//! The few calls that find out whether an endpoint is back.

use std::time::Duration;

use super::Share;

/// The places for probes of one half-open spell, and what came back so far.
///
/// A place whose probe does not report in time is given to another probe, so a lost one cannot wedge the breaker.
/// A report that comes later still counts: an endpoint slower than the places' time would otherwise never be
/// let back in.
#[derive(Debug, Clone)]
pub(super) struct Probes {
    places: Box<[Place]>,
    /// The number of the next probe; never used twice in a spell.
    next: u32,
    answered: u32,
    failed: u32,
    slow: u32,
    /// How many bad ones reopen the breaker.
    failed_limit: u32,
    /// How many slow ones reopen it; above the number of places when slowness does not matter.
    slow_limit: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    probe: Option<u32>,
    expires: Duration,
    answered: bool,
}

/// What the probes have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Undecided,
    Back,
    StillDown,
}

impl Probes {
    pub(super) fn new(places: u32, failure_share: Share, slow_share: Option<Share>) -> Self {
        let limit = |share: Share| share.least(places);
        Self {
            places: vec![Place::default(); places as usize].into_boxed_slice(),
            next: 0,
            answered: 0,
            failed: 0,
            slow: 0,
            failed_limit: limit(failure_share),
            slow_limit: slow_share.map_or(u32::MAX, limit),
        }
    }

    /// Begins a spell.
    pub(super) fn reset(&mut self) {
        self.places.fill(Place::default());
        (self.next, self.answered, self.failed, self.slow) = (0, 0, 0, 0);
    }

    /// A place for a probe and the probe's number, or when the first place may be free.
    pub(super) fn take(&mut self, now: Duration, expires: Duration) -> Result<(u8, u32), Duration> {
        // A place never taken, else the one whose probe has been out of time for longest.
        let is_free = |place: &Place| place.probe.is_none() || !place.answered && place.expires <= now;
        let free = self.places.iter().enumerate().filter(|(_, place)| is_free(place));
        let free = free.min_by_key(|(_, place)| place.probe).map(|(at, _)| at);
        let Some(at) = free else {
            return Err(self.next_at(now));
        };
        let probe = self.next;
        self.next = self.next.wrapping_add(1);
        self.places[at] = Place { probe: Some(probe), expires, answered: false };
        Ok((at as u8, probe))
    }

    /// When a place is free: `now`, or when the first probe that has not reported expires.
    pub(super) fn next_at(&self, now: Duration) -> Duration {
        if self.places.iter().any(|place| place.probe.is_none()) {
            return now;
        }
        let expires = self.places.iter().filter(|place| !place.answered).map(|place| place.expires);
        expires.min().unwrap_or(now).max(now)
    }

    /// Frees the place of a probe that was never made.
    pub(super) fn withdraw(&mut self, place: u8, probe: u32) {
        if let Some(place) = self.places.get_mut(usize::from(place))
            && place.probe == Some(probe)
            && !place.answered
        {
            *place = Place::default();
        }
    }

    /// Counts a report. A second one of the same probe is ignored.
    pub(super) fn report(&mut self, place: u8, probe: u32, failed: bool, slow: bool) -> Verdict {
        if let Some(place) = self.places.get_mut(usize::from(place))
            && place.probe == Some(probe)
        {
            if place.answered {
                return Verdict::Undecided;
            }
            place.answered = true;
        }
        self.answered += 1;
        self.failed += u32::from(failed);
        self.slow += u32::from(slow);
        if self.failed >= self.failed_limit || self.slow >= self.slow_limit {
            return Verdict::StillDown;
        }
        let to_come = (self.places.len() as u32).saturating_sub(self.answered);
        if self.failed + to_come < self.failed_limit && self.slow + to_come < self.slow_limit {
            return Verdict::Back;
        }
        Verdict::Undecided
    }
}
