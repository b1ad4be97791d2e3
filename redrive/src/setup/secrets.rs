//! Passwords that stand elsewhere than in the configuration.

/// The password that an environment variable or a file holds, if either is named. `Err` says what of it is wrong.
pub(super) fn password(
    variable: Option<&str>,
    file: Option<&str>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, String> {
    match (variable, file) {
        (Some(name), _) => match env(name) {
            Some(password) => Ok(Some(password)),
            None => Err(format!("password_env: the environment has no `{name}`")),
        },
        (None, Some(file)) => match std::fs::read_to_string(file) {
            Ok(password) => Ok(Some(password.trim_end_matches(['\r', '\n']).to_owned())),
            Err(error) => Err(format!("password_file: {file}: {error}")),
        },
        (None, None) => Ok(None),
    }
}
