//! Jars by Maven, fetched once per target folder, and small Java programs compiled against them.
//!
//! The compiler is a jar among the others: a machine that runs Kafka has a Java runtime and need not have more.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::command::tied;
use crate::error::{Context, Error, Result, failed};
use crate::install;
use crate::place;

use super::process::finish;
use super::service::{Ending, Trouble};

/// Where the output of Maven and of the compiler goes, and who may stop them.
pub(crate) struct Workshop {
    pub(super) logs: PathBuf,
    pub(super) ending: Ending,
}

impl Workshop {
    /// One whose logs lie with those of the other commands.
    pub(crate) fn new() -> Result<Self> {
        let logs = place::logs();
        fs::create_dir_all(&logs).context(format_args!("cannot create {}", logs.display()))?;
        Ok(Self { logs, ending: Ending::default() })
    }

    /// The folder with the jars of a pom.
    pub(super) fn jars(&self, name: &str, pom: &str) -> std::result::Result<PathBuf, Trouble> {
        let jars = place::services().join(name);
        if jars.is_dir() {
            return Ok(jars);
        }
        if !place::on_path("mvn") {
            return Err(Trouble::Unavailable(format!(
                "Maven is not installed, and the jars of {name} are not there yet"
            )));
        }
        // Fetched beside and then renamed: a killed download leaves no half a Kafka.
        let fresh = fresh(name)?;
        write(&fresh.path().join("pom.xml"), pom)?;
        let lib = fresh.path().join("lib");
        let mut output = std::ffi::OsString::from("-DoutputDirectory=");
        output.push(&lib);
        let mut attempt = 1;
        loop {
            let mut command = tied("KILL", "mvn");
            command
                .current_dir(fresh.path())
                .args(["-q", "-B", "-Dmaven.wagon.http.retryHandler.count=3", "dependency:copy-dependencies"])
                .arg(&output);
            match finish(&mut command, &self.log(name, "maven"), Duration::from_mins(15), &self.ending) {
                Ok(()) => break,
                Err(Error::Failed(_)) if attempt < 3 => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
        keep(&lib, jars)
    }

    /// Compiles a program and answers with its class path.
    pub(super) fn program(&self, program: Program) -> std::result::Result<String, Trouble> {
        // Two tests that ask at once build it once.
        static BUILDING: Mutex<()> = Mutex::new(());
        let building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(java) = install::JAVA.first().filter(|java| !(java.present)()) {
            return Err(Trouble::Unavailable(format!("{} is not installed", java.what)));
        }
        let folder = program.folder();
        let pom = read(&folder.join("pom.xml"))?;
        let jars = self.jars(&format!("{}-jars-{:016x}", program.name(), hash(&[&pom])), &pom)?;
        let sources = sources(&folder)?;
        let texts = sources.iter().map(|source| read(source)).collect::<Result<Vec<_>>>()?;
        let mut parts: Vec<&str> = texts.iter().map(String::as_str).collect();
        parts.push(&pom);
        let classes = self.compile(&format!("{}-{:016x}", program.name(), hash(&parts)), &jars, &sources)?;
        drop(building);
        Ok(format!("{}:{}", classes.display(), jars.join("*").display()))
    }

    /// The same for one who cannot do without it.
    pub(crate) fn built(&self, program: Program) -> Result<String> {
        self.program(program).map_err(|trouble| match trouble {
            Trouble::Unavailable(why) => failed(why),
            Trouble::Failed(error) => error,
        })
    }

    fn compile(&self, name: &str, jars: &Path, sources: &[PathBuf]) -> std::result::Result<PathBuf, Trouble> {
        let classes = place::services().join(name);
        if classes.is_dir() {
            return Ok(classes);
        }
        let list = files(jars, "jar")?;
        let compiler = list
            .iter()
            .find(|jar| jar.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ecj-")))
            .ok_or_else(|| failed(format!("there is no compiler among the jars of {name}")))?;
        let path: Vec<String> = list.iter().map(|jar| jar.display().to_string()).collect();
        let fresh = fresh(name)?;
        let output = fresh.path().join("classes");
        let mut command = tied("KILL", "java");
        command
            .env_remove("JAVA_TOOL_OPTIONS")
            .env_remove("_JAVA_OPTIONS")
            .arg("-jar")
            .arg(compiler)
            .args([
                "-source",
                "17",
                "-target",
                "17",
                "-encoding",
                "UTF-8",
                "-parameters",
                "-proc:none",
                "-nowarn",
            ])
            .args(["-classpath", &path.join(":"), "-d"])
            .arg(&output)
            .args(sources);
        finish(&mut command, &self.log(name, "compile"), Duration::from_mins(5), &self.ending)?;
        keep(&output, classes)
    }

    fn log(&self, name: &str, part: &str) -> PathBuf {
        self.logs.join(format!("{name}-{part}.log"))
    }
}

/// A Java program that tests or the samples need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Program {
    /// Spring Kafka's listeners, for interoperation.
    Spring,
    /// Spring AMQP's listeners, for interoperation.
    SpringAmqp,
    /// Kafka Connect and Kafka Streams, for the samples of the dialects.
    Writers,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Spring => "spring",
            Self::SpringAmqp => "spring-amqp",
            Self::Writers => "writers",
        }
    }

    /// Where its pom and its sources are.
    fn folder(self) -> PathBuf {
        place::root().join("testkit/java").join(self.name())
    }
}

fn fresh(name: &str) -> Result<tempfile::TempDir> {
    let parent = place::services();
    fs::create_dir_all(&parent).context(format_args!("cannot create {}", parent.display()))?;
    tempfile::Builder::new()
        .prefix(&format!("{name}-fresh-"))
        .tempdir_in(&parent)
        .context(format_args!("cannot create a folder for {name}"))
}

fn keep(made: &Path, kept: PathBuf) -> std::result::Result<PathBuf, Trouble> {
    match fs::rename(made, &kept) {
        // Another supervisor was quicker.
        Err(_) if kept.is_dir() => Ok(kept),
        Err(error) => Err(failed(format!("cannot keep {}: {error}", kept.display())).into()),
        Ok(()) => Ok(kept),
    }
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    files(&folder.join("redrive"), "java")
}

/// The files of a folder whose names end so, sorted.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).context(format_args!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    Ok(files)
}

/// Names what was built of these texts. Another version of the compiler may name it otherwise, and builds it again.
fn hash(texts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    texts.hash(&mut hasher);
    hasher.finish()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).context(format_args!("cannot read {}", path.display()))
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).context(format_args!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_pom_with_a_compiler_and_sources() {
        for program in [Program::Spring, Program::SpringAmqp, Program::Writers] {
            let folder = program.folder();
            assert!(read(&folder.join("pom.xml")).unwrap().contains("<artifactId>ecj</artifactId>"));
            assert!(!sources(&folder).unwrap().is_empty(), "{program:?}");
        }
    }

    #[test]
    fn a_change_of_a_source_has_another_name() {
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
        assert_ne!(hash(&["a", "b"]), hash(&["ab", ""]));
    }
}
