//! Who stands in the audit.

/// `$REDRIVE_USER`, else the login name; nothing when neither is known, and then the API says `local`.
pub(crate) fn name() -> Option<String> {
    ["REDRIVE_USER", "USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
}
