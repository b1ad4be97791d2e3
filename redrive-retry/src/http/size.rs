//! How long a body is that has something before it.

use http_body::SizeHint;

/// The hint of a body behind so many bytes. What a length cannot count is without an upper end.
pub(crate) fn behind(bytes: u64, rest: &SizeHint) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower().saturating_add(bytes));
    if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(bytes)) {
        hint.set_upper(upper);
    }
    hint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_cannot_be_counted_has_no_upper_end() {
        let ends = |hint: &SizeHint| (hint.lower(), hint.upper());
        assert_eq!(ends(&behind(2, &SizeHint::with_exact(3))), (5, Some(5)));
        assert_eq!(ends(&behind(2, &SizeHint::new())), (2, None));
        assert_eq!(ends(&behind(2, &SizeHint::with_exact(u64::MAX))), (u64::MAX, None));
        let mut far = SizeHint::new();
        far.set_upper(u64::MAX);
        assert_eq!(ends(&behind(2, &far)), (2, None));
    }
}
