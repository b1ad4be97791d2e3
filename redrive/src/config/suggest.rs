//! "Did you mean": the known name that is nearest to what somebody wrote.

/// The nearest of the known names, if it is near enough to be meant.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written: String = written.chars().take(64).collect();
    known
        .into_iter()
        .map(|name| {
            (strsim::normalized_damerau_levenshtein(&written.to_lowercase(), &name.to_lowercase()), name)
        })
        .filter(|(nearness, _)| *nearness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The help for a name that is not known: the nearest one, or all of them when they are few.
pub(crate) fn help<'a>(written: &str, known: &[&'a str]) -> Option<String> {
    if let Some(name) = nearest(written, known.iter().copied()) {
        return Some(format!("did you mean `{name}`?"));
    }
    match known {
        [] => None,
        _ => Some(format!("known are {}", known.join(", "))),
    }
}
