//! The time of the script: seconds of a minute, however fast that minute goes.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    began: Instant,
    speed: f64,
}

impl Pace {
    /// A script that begins now.
    pub(crate) fn new(speed: f64) -> Self {
        Self { began: Instant::now(), speed }
    }

    /// How far the script is.
    pub(crate) fn at(self) -> Duration {
        self.began.elapsed().mul_f64(self.speed)
    }

    /// How long so much of the script takes.
    pub(crate) fn takes(self, script: Duration) -> Duration {
        script.div_f64(self.speed)
    }

    /// So many a second of the script, as so many a second.
    pub(crate) fn rate(self, a_second: u32) -> u32 {
        (f64::from(a_second) * self.speed).ceil() as u32
    }
}
