//! What the parts of the project need from the system.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::place;

/// Something that has to be on the machine.
#[derive(Clone, Copy)]
pub(crate) struct Need {
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// Whether it is there.
    pub(crate) present: fn() -> bool,
    /// The Debian packages that bring it.
    pub(crate) packages: &'static [&'static str],
    /// What needs it.
    pub(crate) why: &'static str,
}

/// To build any Rust program.
pub(crate) const BUILD: &[Need] = &[Need {
    what: "a C compiler and linker",
    present: || place::on_path("cc") && Path::new("/usr/include").join("stdio.h").exists(),
    packages: &["gcc", "libc6-dev"],
    why: "rustc links with it",
}];

/// To build the broker clients: librdkafka is C, configured and made by its crate.
pub(crate) const BUILD_CLIENTS: &[Need] = &[
    Need {
        what: "a C++ compiler",
        present: || place::on_path("c++") || place::on_path("g++"),
        packages: &["g++"],
        why: "librdkafka's configure script asks for one",
    },
    Need {
        what: "make",
        present: || place::on_path("make"),
        packages: &["make"],
        why: "librdkafka is built with it",
    },
    Need {
        what: "pkg-config",
        present: || place::on_path("pkg-config"),
        packages: &["pkg-config"],
        why: "the build finds OpenSSL and zlib with it",
    },
    Need {
        what: "OpenSSL's headers",
        present: || known_to_pkg_config("openssl"),
        packages: &["libssl-dev"],
        why: "rdkafka's `ssl` feature",
    },
];

/// To run Kafka. Maven fetches its jars.
pub(crate) const JAVA: &[Need] = &[
    Need {
        what: "Java 17 or newer",
        present: java_is_new_enough,
        packages: &["default-jre-headless"],
        why: "the tests on a real Kafka",
    },
    Need {
        what: "Maven",
        present: || place::on_path("mvn"),
        packages: &["maven"],
        why: "it fetches Kafka's jars",
    },
];

/// To run RabbitMQ.
pub(crate) const RABBITMQ: &[Need] = &[Need {
    what: "RabbitMQ",
    present: || place::newest(Path::new("/usr/lib/rabbitmq/lib"), "rabbitmq_server-").is_some(),
    packages: &["rabbitmq-server"],
    why: "the tests on a real RabbitMQ",
}];

/// To run PostgreSQL.
pub(crate) const POSTGRES: &[Need] = &[Need {
    what: "the PostgreSQL server",
    present: || {
        place::newest(Path::new("/usr/lib/postgresql"), "")
            .is_some_and(|folder| folder.join("bin/postgres").exists())
    },
    packages: &["postgresql"],
    why: "the tests on a real PostgreSQL",
}];

/// Kafka 4 runs on Java 17 or newer.
fn java_is_new_enough() -> bool {
    let output = Command::new("java").arg("-version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| java_version(&String::from_utf8_lossy(&output.stderr)) >= Some(17))
}

/// The first number of `openjdk version "17.0.15" 2025-04-15`.
fn java_version(text: &str) -> Option<u32> {
    let number = text.lines().find_map(|line| line.split_once("version \""))?.1;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn known_to_pkg_config(library: &str) -> bool {
    Command::new("pkg-config")
        .args(["--exists", library])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_tells_its_version_in_two_ways() {
        assert_eq!(java_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK"), Some(17));
        assert_eq!(java_version("Picked up JAVA_TOOL_OPTIONS\njava version \"1.8.0_292\""), Some(1));
        assert_eq!(java_version("java version \"21\""), Some(21));
        assert_eq!(java_version("not found"), None);
    }
}
