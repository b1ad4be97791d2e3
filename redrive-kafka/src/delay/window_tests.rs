use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;

const START: i64 = 1_782_896_400_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

fn window(records: usize, bytes: usize) -> Window<u64> {
    Window::new(crate::Window { records, bytes })
}

fn waiting(until: i64, appended: i64, record: u64) -> Waiting<u64> {
    Waiting { until: at(until), appended: at(appended), bytes: 100, record }
}

#[test]
fn ten_thousand_of_an_hour_do_not_hold_up_one_of_a_second() {
    let mut window = window(100_000, 64 << 20);
    window.add_stream(0, Duration::ZERO);
    for number in 0..10_000_u64 {
        let number_at = i64::try_from(number).unwrap();
        window.push(0, waiting(3_600_000 + number_at, number_at, number)).unwrap();
        assert_eq!(window.steer(at(number_at)), Steering::default());
    }
    window.push(0, waiting(11_000, 10_000, 10_000)).unwrap();
    assert_eq!(window.next_due(), Some(at(11_000)));
    assert_eq!(window.pop_due(at(10_999)), None);
    assert_eq!(window.pop_due(at(11_000)), Some((0, 10_000)));
    assert_eq!(window.pop_due(at(11_000)), None);
}

#[test]
fn a_level_of_an_hour_leaves_room_for_a_level_of_a_second() {
    let mut window = window(1_000, 64 << 20);
    window.add_stream(0, Duration::from_secs(3_600));
    window.add_stream(1, Duration::ZERO);
    let mut read = 0;
    while !window.is_paused(0) {
        window.push(0, waiting(3_600_000, 0, read)).unwrap();
        window.steer(at(0));
        read += 1;
    }
    // Its share is a quarter of the room, and not a record more is read.
    assert_eq!(read, 251);
    for number in 0..500 {
        window.push(1, waiting(1_000, 0, 1_000 + number)).unwrap();
        assert!(!window.steer(at(0)).pause.contains(&1), "{number}");
    }
    assert_eq!(window.next_due(), Some(at(1_000)));
    // The long level is read on well before its first unread record can be due, although nothing was taken from it.
    while window.pop_due(at(1_000)).is_some() {}
    assert_eq!(window.steer(at(3_595_999)), Steering::default());
    assert_eq!(window.steer(at(3_596_000)).resume, [0]);
}

#[test]
fn a_full_window_says_so_and_reads_on_when_it_has_drained() {
    let mut window = window(100, 1 << 20);
    window.add_stream(7, Duration::ZERO);
    let mut number = 0;
    while !window.is_paused(7) {
        window.push(7, waiting(60_000, 0, number)).unwrap();
        window.steer(at(0));
        number += 1;
    }
    assert!(window.is_full());
    assert_eq!(number, 100);
    assert_eq!(window.steer(at(1)), Steering::default());
    for _ in 0..14 {
        assert!(window.pop_due(at(60_000)).is_some());
    }
    assert_eq!(window.steer(at(60_000)).resume, [7]);
    assert!(!window.is_full());
}

#[test]
fn a_record_of_a_lost_stream_is_given_back() {
    let mut window = window(100, 1 << 20);
    assert_eq!(window.push(3, waiting(0, 0, 9)), Err(9));
    window.add_stream(3, Duration::ZERO);
    window.push(3, waiting(5, 0, 9)).unwrap();
    assert_eq!(window.remove_stream(3), 1);
    assert_eq!((window.len(), window.bytes(), window.next_due()), (0, 0, None));
}

#[derive(Debug, Clone)]
enum Do {
    Read { stream: u32, wait: i64, bytes: usize },
    Pass { millis: i64 },
    Lose { stream: u32 },
}

fn deeds() -> impl Strategy<Value = Vec<Do>> {
    let deed = prop_oneof![
        8 => (0..6_u32, 0..20_000_i64, 1..400_usize)
            .prop_map(|(stream, wait, bytes)| Do::Read { stream, wait, bytes }),
        3 => (0..4_000_i64).prop_map(|millis| Do::Pass { millis }),
        1 => (0..6_u32).prop_map(|stream| Do::Lose { stream }),
    ];
    proptest::collection::vec(deed, 1..400)
}

proptest! {
    /// Nothing is lost or handed out twice, nothing comes early, equals keep their order, and the room is bounded when
    /// paused streams are not read.
    #[test]
    fn the_window_keeps_its_word(deeds in deeds(), records in 1..60_usize, bytes in 1..4_000_usize) {
        let mut window = window(records, bytes);
        for stream in 0..6 {
            // Half of them are levels, whose records all wait equally long.
            window.add_stream(stream, Duration::from_millis(if stream < 3 { 5_000 } else { 0 }));
        }
        let (mut now, mut number, mut paused) = (0_i64, 0_u64, HashSet::new());
        let mut inside: BTreeSet<(i64, u64, u32)> = BTreeSet::new();
        for deed in deeds {
            match deed {
                Do::Read { stream, .. } if paused.contains(&stream) => continue,
                Do::Read { stream, wait, bytes } => {
                    let wait = if stream < 3 { 5_000 } else { wait };
                    let record = Waiting { until: at(now + wait), appended: at(now), bytes, record: number };
                    window.push(stream, record).unwrap();
                    inside.insert((now + wait, number, stream));
                    number += 1;
                }
                Do::Pass { millis } => {
                    now += millis;
                    while let Some((stream, record)) = window.pop_due(at(now)) {
                        let first = inside.pop_first().unwrap();
                        prop_assert_eq!((first.1, first.2), (record, stream));
                        prop_assert!(first.0 <= now);
                    }
                    prop_assert!(inside.first().is_none_or(|first| first.0 > now));
                }
                Do::Lose { stream } => {
                    let before = inside.len();
                    inside.retain(|kept| kept.2 != stream);
                    prop_assert_eq!(window.remove_stream(stream), before - inside.len());
                    window.add_stream(stream, Duration::ZERO);
                    paused.remove(&stream);
                }
            }
            let steering = window.steer(at(now));
            paused.extend(steering.pause.iter().copied());
            for stream in &steering.resume {
                prop_assert!(paused.remove(stream));
            }
            for stream in 0..6 {
                prop_assert_eq!(window.is_paused(stream), paused.contains(&stream));
                // Nobody is kept out: a stream that holds nothing is read.
                if paused.contains(&stream) {
                    prop_assert!(inside.iter().any(|kept| kept.2 == stream));
                }
            }
            prop_assert_eq!(window.len(), inside.len());
            prop_assert_eq!(window.next_due(), inside.first().map(|first| at(first.0)));
            // At most one record a stream above the limit, and the one that reached it.
            prop_assert!(window.len() <= records + 7);
            prop_assert!(window.bytes() < bytes + 7 * 400);
        }
        while let Some((_, record)) = window.pop_due(at(now + 20_000)) {
            prop_assert_eq!(inside.pop_first().unwrap().1, record);
        }
        prop_assert!(inside.is_empty());
        prop_assert_eq!(window.bytes(), 0);
    }
}
