//! Signing: what verifies, what does not, and what follows from it.

mod trails;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use redrive_core::Headers;
use redrive_core::headers::{
    Field, Key, Keyring, MacCheck, Spelling, Trail, Trust, after_bad_mac, decode, encode,
};
use trails::{full, spelling, trail};

const COVERED: &[Field] = &[
    Field::OriginalTopic,
    Field::OriginalPartition,
    Field::OriginalOffset,
    Field::OriginalTimestamp,
    Field::RetryAttempt,
    Field::RetryMax,
    Field::ProcessAfter,
    Field::DelayRoute,
    Field::FirstFailureTimestamp,
    Field::CallsUsed,
    Field::DelayTotal,
    Field::Held,
    Field::DelayCounter,
    Field::EntryId,
    Field::WaitId,
    Field::ForwardTo,
    Field::MacFailures,
    Field::Mac,
];

proptest! {
    #[test]
    fn a_signed_message_verifies_in_every_spelling(trail in trail(), spelling in spelling(), body in option::of(vec(any::<u8>(), 0..64)), secret: [u8; 32]) {
        let ring = Keyring::new(Key::generate(secret));
        let mut headers = Headers::new();
        encode(&trail, &mut headers, spelling);
        ring.sign(&trail, body.as_deref(), &mut headers);
        let read = decode(&headers, spelling);
        prop_assert_eq!(ring.verify(read.mac.as_deref(), &read.trail, body.as_deref()), MacCheck::Valid);
        prop_assert_eq!(after_bad_mac(MacCheck::Valid, &read.trail), Trust::Trusted);
    }

    #[test]
    fn a_changed_byte_in_a_covered_header_is_found(trail in trail(), which: prop::sample::Index, place: prop::sample::Index, change in 1..=255_u8) {
        let ring = Keyring::new(Key::generate([9; 32]));
        let mut headers = Headers::new();
        encode(&trail, &mut headers, Spelling::Default);
        ring.sign(&trail, Some(b"body"), &mut headers);
        let covered: Vec<_> = COVERED.iter().filter(|field| headers.get(field.name()).is_some_and(|v| !v.is_empty())).collect();
        let field = which.get(&covered);
        let mut value = headers.get(field.name()).unwrap().to_vec();
        let at = place.index(value.len());
        value[at] ^= change;
        headers.set(field.name(), value);
        let read = decode(&headers, Spelling::Default);
        // A change that a reader does not see, such as a leading zero, is none.
        prop_assume!(read.trail != trail || **field == Field::Mac);
        prop_assert_ne!(ring.verify(read.mac.as_deref(), &read.trail, Some(b"body")), MacCheck::Valid);
    }

    #[test]
    fn a_changed_body_is_found(trail in trail(), body in vec(any::<u8>(), 1..200), place: prop::sample::Index, change in 1..=255_u8) {
        let ring = Keyring::new(Key::generate([9; 32]));
        let mut headers = Headers::new();
        ring.sign(&trail, Some(&body), &mut headers);
        let mac = headers.get("x-redrive-mac").map(|mac| &mac[..]);
        let mut other = body.clone();
        other[place.index(body.len())] ^= change;
        prop_assert_eq!(ring.verify(mac, &trail, Some(&other)), MacCheck::Mismatch);
        prop_assert_eq!(ring.verify(mac, &trail, None), MacCheck::Mismatch);
        prop_assert_eq!(ring.verify(mac, &trail, Some(&body)), MacCheck::Valid);
    }

    #[test]
    fn no_mac_and_no_key_text_panics(mac in vec(any::<u8>(), 0..80), key: String) {
        let ring = Keyring::new(Key::generate([9; 32]));
        prop_assert_ne!(ring.verify(Some(&mac), &Trail::default(), None), MacCheck::Valid);
        let _ = key.parse::<Key>();
        let _ = format!("k:{key}").parse::<Key>();
    }
}

#[test]
fn each_covered_header_is_covered() {
    let ring = Keyring::new(Key::generate([9; 32]));
    let mut signed = Headers::new();
    encode(&full(), &mut signed, Spelling::Default);
    ring.sign(&full(), Some(b"body"), &mut signed);
    for field in COVERED {
        let mut changed = signed.clone();
        let mut value = changed.get(field.name()).unwrap().to_vec();
        value[0] ^= 1;
        changed.set(field.name(), value);
        let read = decode(&changed, Spelling::Default);
        let check = ring.verify(read.mac.as_deref(), &read.trail, Some(b"body"));
        assert_ne!(check, MacCheck::Valid, "{}", field.name());
        changed.remove(field.name());
        let read = decode(&changed, Spelling::Default);
        let check = ring.verify(read.mac.as_deref(), &read.trail, Some(b"body"));
        assert_ne!(check, MacCheck::Valid, "{}", field.name());
    }
}

#[test]
fn keys_rotate() {
    let old = Key::new("old", &[1; 32]).unwrap();
    let new: Key = Key::generate([2; 32]).to_secret_text().parse().unwrap();
    let mut headers = Headers::new();
    Keyring::new(old.clone()).sign(&full(), None, &mut headers);
    let mac = headers.get("x-redrive-mac").map(|mac| &mac[..]);
    let both = Keyring::from_keys([new.clone(), old.clone()]).unwrap();
    assert_eq!(both.verify(mac, &full(), None), MacCheck::Valid);
    assert_eq!(Keyring::new(new.clone()).verify(mac, &full(), None), MacCheck::UnknownKey);
    // A key read from its text is the key that was generated.
    let mut signed = Headers::new();
    Keyring::new(Key::generate([2; 32])).sign(&full(), None, &mut signed);
    let mac = signed.get("x-redrive-mac").map(|mac| &mac[..]);
    assert_eq!(both.verify(mac, &full(), None), MacCheck::Valid);
    assert_eq!(both.verify(Some(b"v2,old,AAAA"), &full(), None), MacCheck::Malformed);
    assert!(Keyring::from_keys([old.clone(), old]).is_err());
    assert!(Keyring::from_keys([]).is_err());
    assert!(!format!("{new:?}").contains(new.to_secret_text().split_once(':').unwrap().1));
}

#[test]
fn wrong_keys_say_what_was_expected() {
    let message = |text: &str| text.parse::<Key>().unwrap_err().to_string();
    insta::assert_snapshot!(message("secret"), @"a signing key is `<id>:<secret>`, and this text has no colon");
    insta::assert_snapshot!(message("a b:c"), @"the secret of a signing key is 32 to 64 bytes in base64url without padding");
    insta::assert_snapshot!(message(&format!("a b:{}", "A".repeat(43))), @"the id of a signing key is 1 to 32 of A-Z, a-z, 0-9, `_`, `-` and `.`");
}

#[test]
fn a_second_bad_mac_parks() {
    let claimed = Trail { mac_failures: 0, ..full() };
    let Trust::Restart(first) = after_bad_mac(MacCheck::Mismatch, &claimed) else {
        panic!("the first bad one starts over");
    };
    assert_eq!((first.attempt, first.calls_used, first.mac_failures), (0, 0, 1));
    assert_eq!(first.idempotency_key, claimed.idempotency_key);
    assert_eq!(first.entry_id, None);
    let Trust::Park(second) = after_bad_mac(MacCheck::UnknownKey, &Trail { attempt: 9, ..*first }) else {
        panic!("the second bad one parks");
    };
    assert_eq!((second.attempt, second.mac_failures), (0, 2));
    assert_eq!(after_bad_mac(MacCheck::Missing, &Trail::default()), Trust::Trusted);
    let traced = Trail { correlation_id: Some("c".into()), ..Trail::default() };
    assert_eq!(after_bad_mac(MacCheck::Missing, &traced), Trust::Trusted);
    assert!(matches!(after_bad_mac(MacCheck::Malformed, &Trail::default()), Trust::Restart(_)));
}
