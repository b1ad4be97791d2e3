//! The token: made at the first start, kept in a file that only its owner can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

use crate::codes::{self, Code};

const SHORTEST: usize = 16;
const LONGEST: usize = 512;

/// A secret that opens the API over TCP, and the name under which its holder stands in the audit.
///
/// ```
/// use redrive_server::Token;
///
/// let token = Token::new("deploy", "correct-horse-battery")?;
/// assert!(!format!("{token:?}").contains("horse"));
/// assert!(Token::new("deploy", "short").is_err());
/// # Ok::<(), redrive_server::TokenError>(())
/// ```
#[derive(Clone)]
pub struct Token {
    name: String,
    secret: String,
}

/// A token that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The text is no token.
    #[error("a token is {SHORTEST} to {LONGEST} visible ASCII characters without spaces")]
    NotAToken,
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others can read the file, so it is no secret.
    #[error("{} can be read by others (mode {mode:o}); `chmod 600` it, or delete it to get a new token", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The operating system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(getrandom::Error),
}

impl TokenError {
    /// The code of its page.
    pub const fn code(&self) -> Code {
        codes::TOKEN_UNUSABLE
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Token {
    /// A token with this secret.
    pub fn new(name: impl Into<String>, secret: impl Into<String>) -> Result<Self, TokenError> {
        let secret = secret.into();
        let fits = (SHORTEST..=LONGEST).contains(&secret.len());
        if !fits || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NotAToken);
        }
        Ok(Self { name: name.into(), secret })
    }

    /// The token of a data folder: `given` (from `$REDRIVE_TOKEN`) when there is one, else what stands in the file
    /// `token`, which is made when it is not there.
    pub fn of_folder(folder: &Path, given: Option<&str>) -> Result<Self, TokenError> {
        if let Some(secret) = given {
            return Self::new("token", secret);
        }
        let path = folder.join("token");
        match fs::read_to_string(&path) {
            Ok(text) => {
                let file = |source| TokenError::File { path: path.clone(), source };
                let mode = fs::metadata(&path).map_err(file)?.permissions().mode() & 0o777;
                if mode & 0o077 != 0 {
                    return Err(TokenError::Open { path, mode });
                }
                Self::new("token", text.trim_end())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(&path),
            Err(source) => Err(TokenError::File { path, source }),
        }
    }

    fn make(path: &Path) -> Result<Self, TokenError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
        let token = Self::new("token", URL_SAFE_NO_PAD.encode(bytes))?;
        write_private(path, format!("{}\n", token.secret).as_bytes())
            .map_err(|source| TokenError::File { path: path.to_owned(), source })?;
        Ok(token)
    }

    /// The name of its holder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The secret, for a client that sends it.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Whether `secret` is this token's; how long it takes tells nothing of where they differ.
    pub(crate) fn fits(&self, secret: &[u8]) -> bool {
        self.secret.as_bytes().ct_eq(secret).into()
    }
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    // What a crash left here may have another mode.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_made_once_and_only_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let made = Token::of_folder(folder.path(), None).unwrap();
        assert_eq!(made.secret().len(), 43);
        let mode = fs::metadata(folder.path().join("token")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = Token::of_folder(folder.path(), None).unwrap();
        assert_eq!(read.secret(), made.secret());
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Token::of_folder(other.path(), None).unwrap().secret(), made.secret());
    }

    #[test]
    fn a_given_one_wins_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let given = Token::of_folder(folder.path(), Some("0123456789abcdef")).unwrap();
        assert!(given.fits(b"0123456789abcdef") && !given.fits(b"0123456789abcdeX"));
        assert!(!folder.path().join("token").exists());
        for bad in ["", "short", "0123456789 abcdef", "0123456789äbcdef"] {
            assert!(Token::of_folder(folder.path(), Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        Token::of_folder(folder.path(), None).unwrap();
        let path = folder.path().join("token");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Token::of_folder(folder.path(), None).unwrap_err();
        assert!(matches!(error, TokenError::Open { mode: 0o644, .. }), "{error}");
        assert_eq!(error.code().id(), "RD-API-24");
    }

    #[test]
    fn a_leftover_of_a_crash_does_not_widen_the_mode() {
        let folder = tempfile::tempdir().unwrap();
        let fresh = folder.path().join("token.new");
        fs::write(&fresh, "half").unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o666)).unwrap();
        Token::of_folder(folder.path(), None).unwrap();
        let mode = fs::metadata(folder.path().join("token")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!fresh.exists());
    }
}
