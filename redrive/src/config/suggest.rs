//! "Did you mean": the known name that is nearest to what somebody wrote.

/// The nearest of the known names, if it is near enough to be meant, or else the first that holds what was written.
///
/// ```
/// use redrive::config::nearest;
///
/// assert_eq!(nearest("ordres", ["orders", "returns"]), Some("orders"));
/// assert_eq!(nearest("x", ["orders"]), None);
/// ```
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written: String = written.chars().take(64).flat_map(char::to_lowercase).collect();
    let known: Vec<_> = known.into_iter().collect();
    let nearness = |name: &str| strsim::normalized_damerau_levenshtein(&written, &name.to_lowercase());
    let best = known.iter().max_by(|a, b| nearness(a).total_cmp(&nearness(b)));
    let best = best.filter(|name| nearness(name) >= 0.6);
    best.or_else(|| known.iter().find(|name| written.len() >= 3 && name.to_lowercase().contains(&written)))
        .copied()
}

/// The help for a name that is not known: the nearest one, or all of them when they are few.
pub(crate) fn help(written: &str, known: &[&str]) -> Option<String> {
    if let Some(name) = nearest(written, known.iter().copied()) {
        return Some(format!("did you mean `{name}`?"));
    }
    match known {
        [] => None,
        _ => Some(format!("known are {}", known.join(", "))),
    }
}
