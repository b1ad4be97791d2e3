//! Time and allocations of one small piece of code.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Waker};
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
    /// Heap allocations; not a number where they were not counted.
    pub(crate) allocations: f64,
    /// Bytes allocated; not a number where they were not counted.
    pub(crate) bytes: f64,
}

/// Measures one call: warms up, finds how many calls make a sample, takes the middle of many samples, and counts
/// the allocations of a thousand calls.
pub(crate) fn measure<T>(mut call: impl FnMut() -> T) -> Measured {
    let mut calls = 1_u32;
    let per_sample = loop {
        let took = time(calls, &mut call);
        if took >= SAMPLE / 4 {
            break calls_of(calls, took);
        }
        calls = calls.saturating_mul(2);
    };
    let samples: Vec<f64> = (0..SAMPLES)
        .map(|_| time(per_sample, &mut call).as_secs_f64() * 1e9 / f64::from(per_sample))
        .collect();
    let counted = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            black_box(call());
        }
    });
    summed(samples, counted.count_total, counted.bytes_total)
}

/// How many calls make a sample, after so many took so long.
fn calls_of(calls: u32, took: Duration) -> u32 {
    (f64::from(calls) * SAMPLE.as_secs_f64() / took.as_secs_f64()).max(1.0) as u32
}

fn summed(mut samples: Vec<f64>, allocations: u64, bytes: u64) -> Measured {
    samples.sort_by(f64::total_cmp);
    let (low, middle, high) = (samples[SAMPLES / 4], samples[SAMPLES / 2], samples[SAMPLES * 3 / 4]);
    Measured {
        nanos: middle,
        noise: (high - low) / 2.0 / middle,
        allocations: allocations as f64 / 1_000.0,
        bytes: bytes as f64 / 1_000.0,
    }
}

/// The same of a call that is awaited, inside a runtime and on its thread.
#[allow(dead_code, reason = "each benchmark uses its part")]
pub(crate) async fn measure_awaited<T>(mut call: impl AsyncFnMut() -> T) -> Measured {
    let mut calls = 1_u32;
    let per_sample = loop {
        let took = time_awaited(calls, &mut call).await;
        if took >= SAMPLE / 4 {
            break calls_of(calls, took);
        }
        calls = calls.saturating_mul(2);
    };
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let took = time_awaited(per_sample, &mut call).await;
        samples.push(took.as_secs_f64() * 1e9 / f64::from(per_sample));
    }
    // The counter's own futures would be counted too, so the call is polled by hand, where it needs no waiting.
    let mut waits = false;
    let counted = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            let mut once = pin!(call());
            if once.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                waits = true;
                return;
            }
        }
    });
    let measured = summed(samples, counted.count_total, counted.bytes_total);
    if waits { Measured { allocations: f64::NAN, bytes: f64::NAN, ..measured } } else { measured }
}

#[allow(dead_code, reason = "each benchmark uses its part")]
async fn time_awaited<T>(calls: u32, call: &mut impl AsyncFnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call().await);
    }
    start.elapsed()
}

fn time<T>(calls: u32, call: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed()
}
