//! What the simulation of retry storms shows, and that the documentation has it.

#[path = "../examples/storm/simulation.rs"]
mod simulation;

use simulation::{Herd, Outage, Protection, draw_herd, draw_outage, herd, outage};

fn seen() -> Vec<Outage> {
    Protection::ALL.into_iter().map(|protection| outage(protection).unwrap()).collect()
}

fn herds() -> Vec<(&'static str, Herd)> {
    simulation::JITTERS.into_iter().map(|(name, jitter)| (name, herd(jitter).unwrap())).collect()
}

#[test]
fn retries_alone_keep_a_server_down_and_budget_and_breaker_let_it_up() {
    let seen = seen();
    let of = |protection| seen.iter().find(|outage| outage.protection == protection).unwrap();
    // Nobody retries: the queue of the outage is worked off, and that is that.
    let plain = of(Protection::NoRetry);
    assert!(plain.worst() <= 1.0 && plain.recovery().is_some());
    // Retries multiply the load, with jitter as without, and the server never gets out from under it.
    for storm in [of(Protection::Nothing), of(Protection::Jitter)] {
        assert!(storm.worst() > 4.0, "{}", storm.worst());
        assert_eq!(storm.recovery(), None);
    }
    // The budget bounds the load; the breaker ends it.
    let (budget, breaker) = (of(Protection::Budget), of(Protection::Breaker));
    assert!(budget.worst() < 2.5, "{}", budget.worst());
    let soonest = breaker.recovery().expect("it recovers");
    assert!(budget.recovery().is_some_and(|other| soonest < other));
    assert!(plain.recovery().is_some_and(|other| soonest <= other));
    let during = breaker.amplification[15..19].iter().sum::<f64>() / 4.0;
    assert!(during < 0.2, "an open breaker sends probes only: {during}");
    assert_drawn("outage.svg", &draw_outage(&seen));
}

#[test]
fn full_jitter_spreads_a_herd() {
    let herds = herds();
    let of = |name| herds.iter().find(|(of, _)| *of == name).map(|(_, herd)| herd).unwrap();
    let (none, full) = (of("no jitter"), of("full jitter"));
    // Without jitter all come back in one moment, every time, and only as many as fit in it are served.
    assert!(none.peak() > 900 && full.peak() < 150, "{} and {}", none.peak(), full.peak());
    assert!(full.requests() * 10 < none.requests(), "{} and {}", full.requests(), none.requests());
    assert!(full.took() * 10.0 < none.took(), "{} and {}", full.took(), none.took());
    assert_drawn("herd.svg", &draw_herd(&herds));
}

/// The plot in the documentation is the one that the simulation draws.
fn assert_drawn(name: &str, drawn: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/client-retries").join(name);
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(kept == drawn, "{name} is not what the simulation draws: run `cargo xtask plots`");
}
