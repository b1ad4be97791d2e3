//! Time and allocations of one small piece of code.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How many samples are taken; the middle one counts.
const SAMPLES: usize = 31;
/// How long one sample takes, about.
const SAMPLE: Duration = Duration::from_millis(20);

/// What one call costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Nanoseconds of the middle sample.
    pub(crate) nanos: f64,
    /// Half the distance between the lower and the upper quartile, as a share of the middle.
    pub(crate) noise: f64,
    /// Heap allocations.
    pub(crate) allocations: f64,
    /// Bytes allocated.
    pub(crate) bytes: f64,
}

/// Measures one call: warms up, finds how many calls make a sample, takes the middle of many samples, and counts
/// the allocations of a thousand calls.
pub(crate) fn measure<T>(mut call: impl FnMut() -> T) -> Measured {
    let mut calls = 1_u32;
    let per_sample = loop {
        let took = time(calls, &mut call);
        if took >= SAMPLE / 4 {
            break (f64::from(calls) * SAMPLE.as_secs_f64() / took.as_secs_f64()).max(1.0) as u32;
        }
        calls = calls.saturating_mul(2);
    };
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| time(per_sample, &mut call).as_secs_f64() * 1e9 / f64::from(per_sample))
        .collect();
    samples.sort_by(f64::total_cmp);
    let (low, middle, high) = (samples[SAMPLES / 4], samples[SAMPLES / 2], samples[SAMPLES * 3 / 4]);
    let counted = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            black_box(call());
        }
    });
    Measured {
        nanos: middle,
        noise: (high - low) / 2.0 / middle,
        allocations: counted.count_total as f64 / 1_000.0,
        bytes: counted.bytes_total as f64 / 1_000.0,
    }
}

fn time<T>(calls: u32, call: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed()
}
