//! Installing what a part of the project needs and the machine lacks.
//!
//! Root on Debian gets it installed; everybody else is told exactly what to install. Each part asks only for what
//! it needs itself: the demo must not pull in a message broker.

mod debian;
mod guard;
mod table;

pub(crate) use table::{BUILD, BUILD_CLIENTS, JAVA, Need, POSTGRES, RABBITMQ};

use std::fmt::Write;

use crate::error::{Result, failed};

/// Makes sure that everything is there. Returns the packages that were installed.
pub(crate) fn ensure(needs: &[&'static [Need]]) -> Result<Vec<&'static str>> {
    let missing = missing(needs);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    if !(debian::is_debian() && rustix::process::geteuid().is_root()) {
        return Err(failed(advice(&missing)));
    }
    let packages = packages(&missing);
    debian::install(&packages)?;
    let still: Vec<Need> = missing.into_iter().filter(|need| !(need.present)()).collect();
    if still.is_empty() { Ok(packages) } else { Err(failed(advice(&still))) }
}

fn missing(needs: &[&'static [Need]]) -> Vec<Need> {
    needs.iter().flat_map(|part| part.iter()).filter(|need| !(need.present)()).copied().collect()
}

fn packages(missing: &[Need]) -> Vec<&'static str> {
    let mut packages: Vec<&'static str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// What a person has to install, and why.
fn advice(missing: &[Need]) -> String {
    let mut text = String::from("something is missing on this machine:");
    for need in missing {
        let _ = write!(text, "\n  {}: {}", need.what, need.why);
    }
    let packages = packages(missing).join(" ");
    if debian::is_debian() {
        let _ = write!(
            text,
            "\ninstall it as root: apt-get install --no-install-recommends {packages}\n\
             or run this command as root"
        );
    } else {
        let _ = write!(text, "\non Debian these are the packages: {packages}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Need =
        Need { what: "a unicorn", present: || false, packages: &["unicorn", "hay"], why: "it is pretty" };
    const PRESENT: Need = Need { what: "air", present: || true, packages: &["air"], why: "to breathe" };

    #[test]
    fn only_what_is_absent_is_missing() {
        let missing = missing(&[&[ABSENT, PRESENT], &[ABSENT]]);
        assert_eq!(missing.len(), 2);
        assert_eq!(packages(&missing), ["hay", "unicorn"]);
    }

    #[test]
    fn the_advice_names_the_thing_the_reason_and_the_packages() {
        let text = advice(&[ABSENT]);
        assert!(text.contains("a unicorn: it is pretty") && text.contains("hay unicorn"), "{text}");
    }

    #[test]
    fn nothing_is_done_when_all_is_there() {
        assert!(ensure(&[&[PRESENT]]).unwrap().is_empty());
    }
}
