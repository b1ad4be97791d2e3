//! Processes as handlers need them: started without a shell, ended with everything they started.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::str::FromStr;

use redrive_core::Failure;
use redrive_core::classify::IoKind;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::ENDPOINT_MISCONFIGURED;

/// A program and its arguments, written as one line and split like a shell does it. No shell is involved: nothing
/// is expanded, and nothing of a message ever stands in it.
///
/// ```
/// use redrive_engine::handler::CommandLine;
///
/// let line: CommandLine = "./handle.sh --name 'two words'".parse()?;
/// assert_eq!(line.program(), "./handle.sh");
/// assert!("./handle.sh 'open".parse::<CommandLine>().is_err());
/// # Ok::<(), redrive_engine::handler::CommandLineError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
}

/// A text that is no command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    /// There is no program.
    #[error("a command names a program")]
    Empty,
    /// A quote is not closed.
    #[error("a quote in the command is not closed")]
    OpenQuote,
    /// A null character cannot be passed to a program.
    #[error("a command has no null characters")]
    Null,
}

impl FromStr for CommandLine {
    type Err = CommandLineError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('\0') {
            return Err(CommandLineError::Null);
        }
        let mut words = shell_words::split(text).map_err(|_| CommandLineError::OpenQuote)?.into_iter();
        let program = words.next().filter(|program| !program.is_empty()).ok_or(CommandLineError::Empty)?;
        Ok(Self { program, arguments: words.collect() })
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        f.write_str(&shell_words::join(words))
    }
}

impl CommandLine {
    /// A program and its arguments, split already.
    pub fn from_words(words: &[String]) -> Result<Self, CommandLineError> {
        if words.iter().any(|word| word.contains('\0')) {
            return Err(CommandLineError::Null);
        }
        let (program, arguments) = words.split_first().ok_or(CommandLineError::Empty)?;
        if program.is_empty() {
            return Err(CommandLineError::Empty);
        }
        Ok(Self { program: program.clone(), arguments: arguments.to_vec() })
    }

    /// The program, as written.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The command, leading a process group of its own, with pipes to its input and from its errors.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What a program that could not be started leaves.
    ///
    /// One that is not there or may not run is the endpoint's fault; anything else, such as a full process table,
    /// may be over soon.
    pub(super) fn not_started(&self, error: &io::Error) -> Failure {
        let text = format!("`{}` cannot be started: {error}", self.program);
        let failure = Failure::from_message(text).with_io(IoKind::from(error.kind()));
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => {
                failure.with_type(ENDPOINT_MISCONFIGURED)
            }
            // Not a program at all, such as a script without its first line.
            _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                failure.with_type(ENDPOINT_MISCONFIGURED)
            }
            _ => failure.with_type("command"),
        }
    }

    /// What a process that ended badly leaves: how, and the last words that it wrote.
    pub(super) fn ended(&self, status: &io::Result<ExitStatus>, last_words: &str) -> Failure {
        let how = match status {
            Ok(status) => status.to_string(),
            Err(error) => format!("its end is not known: {error}"),
        };
        let last_line = last_words.lines().rev().find(|line| !line.trim().is_empty());
        let text = match last_line {
            Some(line) => format!("`{}` ended with {how}: {}", self.program, line.trim()),
            None => format!("`{}` ended with {how}", self.program),
        };
        let failure = Failure::from_message(text);
        if last_words.is_empty() { failure } else { failure.with_body(last_words) }
    }
}

/// The process group of a child, killed when this is dropped: a child's own children end with it.
#[derive(Debug)]
pub(super) struct Group(Option<Pid>);

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self(pid)
    }

    /// Kills what is left of the group. Right after the child's end its number cannot be another's yet: as long
    /// as a member lives the number is taken, and without one there is nobody to kill.
    pub(super) fn end(mut self) {
        self.kill();
    }

    fn kill(&mut self) {
        if let Some(pid) = self.0.take() {
            // It fails when nobody is left, which is what was wanted.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_like_a_shell_and_expands_nothing() {
        let line: CommandLine = r#"sh  "a b" 'c $HOME' d\ e '*.rs' $(id)"#.parse().unwrap();
        assert_eq!(line.arguments, ["a b", "c $HOME", "d e", "*.rs", "$(id)"]);
        assert_eq!(line.to_string().parse(), Ok(line));
        assert_eq!("".parse::<CommandLine>(), Err(CommandLineError::Empty));
        assert_eq!("'' a".parse::<CommandLine>(), Err(CommandLineError::Empty));
        assert_eq!("a\0b".parse::<CommandLine>(), Err(CommandLineError::Null));
    }
}
