//! Failures that look the same get the same key, and keys never change.

use proptest::prelude::*;
use redrive_core::fingerprint::{Fingerprint, MESSAGE_LIMIT, PayloadHash, normalise};
use redrive_core::{Class, Reason};

#[test]
fn masks_what_differs() {
    for (message, expected) in [
        ("timeout after 3000 ms", "timeout after # ms"),
        ("timeout after 3.5s, 2 left", "timeout after #s, # left"),
        ("  a \n\t b\u{0} c ", "a b c"),
        ("order 123e4567-e89b-12d3-a456-426614174000 gone", "order # gone"),
        ("order-abcdefab-cdef-abcd-efab-abcdefabcdef gone", "order-# gone"),
        ("{abcdefab-cdef-abcd-efab-abcdefabcdef}", "{#}"),
        ("at 2026-07-01T09:00:00.123Z and 2026-07-01T09:00:00+02:00", "at # and #"),
        ("at 2026-07-01 09:00:00", "at # #"),
        ("connect 10.0.0.1:8080 refused", "connect # refused"),
        ("connect [fe80::1ff:fe23:4567:890a]:80 or ::1 refused", "connect [#]:# or # refused"),
        ("mac 00:1b:44:11:3a:b7", "mac #"),
        ("user anna.b+c@example.org unknown", "user ? unknown"),
        ("com.acme.Order@1f2e3d4c failed", "com.acme.Order@# failed"),
        ("GET https://x.org/a?b=1 failed", "GET ? failed"),
        ("url=http://x failed.", "url=? failed."),
        ("open /var/lib/x-1.db: no such file", "open ?: no such file"),
        ("open C:\\data\\x.db failed", "open ? failed"),
        ("open \\\\host\\share failed", "open ? failed"),
        ("file=~/x and ./y and ../z", "file=? and ? and ?"),
        ("at src/bin/main.rs:10:5", "at ?"),
        ("at main.rs:10:5", "at main.rs:#"),
        ("expected application/json and/or I/O", "expected application/json and/or I/O"),
        ("can't read 'x y' or \"z\\\"q\" or `w` or “v” or «u»", "can't read ? or ? or ? or ? or ?"),
        ("don't won't", "don't won't"),
        ("{\"id\":\"5\",\"n\":-7}", "{?:?,?:#}"),
        ("0xDEADBEEF 3f2a9c1e07 deadbeef facade added", "# # deadbeef facade added"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "#"),
        ("Utf8Error in Base64 for i18n", "Utf#Error in Base# for i#n"),
        ("SQLSTATE 40P01, ORA-00060", "SQLSTATE #, ORA-#"),
        ("-5 +5 1,000 1e5 1.5e-10", "# # # # #"),
        ("v1.2.3-4 issue #5", "v# issue #"),
        ("an unclosed \"quote 5", "an unclosed \"quote #"),
        ("größer als 5 für Übung7", "größer als # für Übung#"),
        ("", ""),
    ] {
        assert_eq!(normalise(message), expected, "{message}");
    }
}

#[test]
fn reads_a_bounded_part() {
    let long = format!("{} end", "word ".repeat(1_000));
    let normal = normalise(&long);
    assert!(normal.len() <= MESSAGE_LIMIT && normal.ends_with("word"));
    assert_eq!(normalise(&"x".repeat(5_000)).len(), MESSAGE_LIMIT);
    let one = format!("bad value \"{}", "a b ".repeat(1_000));
    let other = format!("bad value \"{}\" there", "c d ".repeat(2_000));
    assert_eq!(normalise(&one), "bad value ?");
    assert_eq!(normalise(&one), normalise(&other));
}

/// A change here breaks every stored group: raise the version byte and say so in the changelog.
#[test]
fn keys_never_change() {
    let key = |class, reason: &Reason, kind, error, message| {
        Fingerprint::of(class, reason, kind, error, message).to_string()
    };
    let timeout = &Reason::DOWNSTREAM_TIMEOUT;
    assert_eq!(key(Class::Transient, timeout, None, None, ""), "164fc2f265d7e4e9");
    assert_eq!(
        key(
            Class::Transient,
            timeout,
            Some("order.created"),
            Some("std::io::Error"),
            "timed out after 3000 ms"
        ),
        "38ad12b68a385a0d"
    );
    assert_eq!(
        key(Class::Poison, &Reason::HANDLER_CRASHED, Some(""), None, "größer \"x\" /a/b 10.0.0.1"),
        "d8b5946e16248bda"
    );
}

#[test]
fn every_field_counts_and_absent_is_not_empty() {
    let of =
        |class, kind, error, message| Fingerprint::of(class, &Reason::UNKNOWN_FAILURE, kind, error, message);
    let base = of(Class::Unknown, Some("a"), Some("b"), "c");
    for other in [
        of(Class::Poison, Some("a"), Some("b"), "c"),
        of(Class::Unknown, None, Some("b"), "c"),
        of(Class::Unknown, Some(""), Some("b"), "c"),
        of(Class::Unknown, Some("ab"), Some(""), "c"),
        of(Class::Unknown, Some("a"), Some("bc"), ""),
        of(Class::Unknown, Some("a"), Some("b"), "d"),
        Fingerprint::of(Class::Unknown, &Reason::DEADLOCK, Some("a"), Some("b"), "c"),
    ] {
        assert_ne!(base, other);
    }
}

#[test]
fn texts_that_are_no_keys_are_refused() {
    for text in ["", "0123", "0123456789ABCDEF", "0123456789abcdeg", "0123456789abcdef0", "é123456789abcde"]
    {
        assert!(text.parse::<Fingerprint>().is_err(), "{text}");
    }
    assert!("e3b0".parse::<PayloadHash>().is_err());
    assert!("sha256:e3b0".parse::<PayloadHash>().is_err());
}

/// Text of the characters that matter here.
fn tricky() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[0-9a-f]{1,9}",
        "[a-zA-Z0-9]{1,5}",
        r#"[-'"`/\\.:,;@#?=&~+_ \t\[\]{}()]{1,3}"#,
        "[“”‘’«»„éß٣Ⅷ\u{301}]",
        Just("://".to_owned()),
        Just("123e4567-e89b-12d3-a456-426614174000".to_owned()),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// A message of fixed words with holes, and one filling of the holes.
fn filled(template: &[(String, u8)], fillings: &[(u64, u128, String)]) -> String {
    let mut text = String::new();
    for ((word, kind), (number, id, quoted)) in template.iter().zip(fillings) {
        let hole = match kind {
            0 => format!("{number}"),
            1 => {
                let hex = format!("{id:032x}");
                format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
            }
            2 => format!("\"{quoted}\""),
            3 => format!("'{quoted}'"),
            4 => format!("id={number}"),
            5 => format!("{number}ms"),
            6 => format!("/{quoted}/{number}").replace(' ', "_"),
            7 => format!("https://host/{number}?x={id}"),
            8 => format!("10.{}.{}.7:{}", number % 256, id % 256, number % 60_000),
            _ => format!("{:.3}", *number as f64 / 7.0),
        };
        text.extend([word.as_str(), " ", &hole, " "]);
    }
    text
}

proptest! {
    #[test]
    fn any_text_is_normalised_once_and_for_all(text in prop_oneof![tricky(), any::<String>(), "\\PC{0,3000}"]) {
        let once = normalise(&text);
        prop_assert!(once.len() <= MESSAGE_LIMIT.min(text.len()));
        prop_assert_eq!(normalise(&once), once);
    }

    #[test]
    fn numbers_ids_and_quoted_values_do_not_count(
        template in prop::collection::vec(("[a-zA-Z]{1,10}", 0u8..10), 1..8),
        one in prop::collection::vec((any::<u64>(), any::<u128>(), "[a-zA-Z0-9 ]{1,20}"), 8),
        other in prop::collection::vec((any::<u64>(), any::<u128>(), "[a-zA-Z0-9 ]{1,20}"), 8),
    ) {
        let (one, other) = (filled(&template, &one), filled(&template, &other));
        prop_assert_eq!(normalise(&one), normalise(&other), "{} / {}", one, other);
    }

    #[test]
    fn different_words_are_different_groups(one in "[g-zG-Z]{1,20}", other in "[g-zG-Z]{1,20}") {
        let of = |text: &str| Fingerprint::of(Class::Unknown, &Reason::UNKNOWN_FAILURE, None, None, text);
        prop_assert_eq!(of(&one) == of(&other), one == other);
    }

    #[test]
    fn keys_print_and_parse(payload: Vec<u8>, message: String) {
        let hash = PayloadHash::of(&payload);
        prop_assert_eq!(hash.to_string().parse(), Ok(hash));
        let key = Fingerprint::of(Class::Unknown, &Reason::UNKNOWN_FAILURE, None, Some(&message), &message);
        prop_assert_eq!(key.to_string().parse(), Ok(key));
        let json = serde_json::to_string(&key).unwrap();
        prop_assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), key);
    }
}
