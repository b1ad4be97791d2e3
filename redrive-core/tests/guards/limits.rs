use proptest::prelude::*;
use redrive_core::guard::{ConcurrencyLimit, FairShare, Turn};

#[test]
fn refuses_limits_that_hold_everything() {
    assert!(
        ConcurrencyLimit::new(0).unwrap_err().to_string().starts_with("`concurrency` is 0; write at least 1")
    );
    assert!(ConcurrencyLimit::new(1).unwrap().resize(0).is_err());
    for share in [0.0, 1.0, -0.1, 1.1, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 0.999_999_999] {
        assert!(FairShare::new(share).is_err(), "{share}");
    }
}

#[derive(Debug, Clone)]
enum Ask {
    Acquire,
    Release,
    Resize(u32),
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![3 => Just(Ask::Acquire), 2 => Just(Ask::Release), 1 => (0u32..6).prop_map(Ask::Resize)]
}

proptest! {
    #[test]
    fn concurrency_counts_places(limit in 1u32..6, asks in prop::collection::vec(ask(), 0..200)) {
        let mut guard = ConcurrencyLimit::new(limit).unwrap();
        let (mut places, mut taken) = (limit, Vec::new());
        for ask in asks {
            match ask {
                Ask::Acquire => {
                    let free = taken.len() < places as usize;
                    prop_assert_eq!(guard.try_acquire(), free);
                    if free {
                        taken.push(());
                    }
                }
                Ask::Release => prop_assert_eq!(guard.release(), taken.pop().is_some()),
                Ask::Resize(to) => {
                    prop_assert_eq!(guard.resize(to).is_ok(), to > 0);
                    places = if to > 0 { to } else { places };
                }
            }
            prop_assert_eq!(guard.in_flight() as usize, taken.len());
            prop_assert_eq!(guard.limit(), places);
            prop_assert_eq!(guard.available() as usize, (places as usize).saturating_sub(taken.len()));
        }
    }

    #[test]
    fn fair_share_keeps_to_its_share_in_every_stretch(
        share in 0.001f64..0.999,
        ready in prop::collection::vec((any::<bool>(), any::<bool>()), 0..300),
    ) {
        let mut fair = FairShare::new(share).unwrap();
        // Running count of retries over the turns for which both kinds waited.
        let mut retries = vec![0u32];
        for (fresh, retry) in ready {
            let turn = fair.next(fresh, retry);
            match (fresh, retry) {
                (false, false) => prop_assert_eq!(turn, None),
                (true, false) => prop_assert_eq!(turn, Some(Turn::Fresh)),
                (false, true) => prop_assert_eq!(turn, Some(Turn::Retry)),
                (true, true) => {
                    let so_far = retries[retries.len() - 1];
                    retries.push(so_far + u32::from(turn == Some(Turn::Retry)));
                }
            }
        }
        for (from, before) in retries.iter().enumerate() {
            for (to, after) in retries.iter().enumerate().skip(from) {
                let fair = share * (to - from) as f64;
                let got = f64::from(after - before);
                // The share is kept to a millionth.
                prop_assert!((got - fair).abs() < 1.0 + 0.001, "{got} of {} at {share}", to - from);
            }
        }
    }
}
