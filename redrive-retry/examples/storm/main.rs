//! `cargo xtask plots`: simulates retry storms, draws them into the documentation, and prints the figures.

mod simulation;

use std::path::Path;

use simulation::{Protection, draw_herd, draw_outage, herd, outage};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/client-retries");
    let mut seen = Vec::new();
    for protection in Protection::ALL {
        let outage = outage(protection)?;
        let recovery =
            outage.recovery().map_or("not within the minute".to_owned(), |s| format!("after {s} s"));
        println!(
            "{:32} up to {:.1} requests a call, recovered {recovery}",
            protection.name(),
            outage.worst()
        );
        seen.push(outage);
    }
    let mut herds = Vec::new();
    for (name, jitter) in simulation::JITTERS {
        let herd = herd(jitter)?;
        println!(
            "{name:32} {} requests for 1000 clients, {:.1} s, up to {} at once",
            herd.requests(),
            herd.took(),
            herd.peak()
        );
        herds.push((name, herd));
    }
    std::fs::write(folder.join("outage.svg"), draw_outage(&seen))?;
    std::fs::write(folder.join("herd.svg"), draw_herd(&herds))?;
    println!("drawn into {}", folder.display());
    Ok(())
}
