//! Every route adds up, and none is longer than it must be.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::route::{BinaryLevels, Level, LevelError, Levels, MAX_HOPS, Route};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn levels(of: &[u64]) -> Levels {
    Levels::new(of.iter().copied().map(ms)).unwrap()
}

fn millis(route: &Route) -> Vec<u64> {
    route.levels().iter().copied().map(Level::as_millis).collect()
}

#[test]
fn the_documents_seventeen_minutes() {
    let minutes = Levels::new([10, 5, 1].map(|n| Duration::from_secs(60 * n))).unwrap();
    let route = Route::repeating(Duration::from_mins(17), &minutes, MAX_HOPS);
    assert_eq!(route.to_string(), "10m,5m,1m,1m");
    assert_eq!((route.remainder(), route.still_to_plan()), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn seven_days_take_at_most_eight_hops_on_a_short_ladder() {
    let ladder =
        Levels::new([1, 5, 20, 80, 320, 1_280, 5_120, 20_480, 86_400].map(Duration::from_secs)).unwrap();
    let route = Route::repeating(Duration::from_hours(168), &ladder, MAX_HOPS);
    assert_eq!(route.to_string(), "1d,1d,1d,1d,1d,1d,1d");
}

#[test]
fn hops_that_do_not_suffice_cover_as_much_as_they_can() {
    let route = Route::repeating(ms(18), &levels(&[10, 7, 1]), 2);
    assert_eq!((millis(&route), route.still_to_plan()), (vec![10, 7], ms(1)));
    // Longest first would cover 10+1 only.
    let route = Route::repeating(ms(16), &levels(&[10, 7, 1]), 2);
    assert_eq!((millis(&route), route.still_to_plan()), (vec![7, 7], ms(2)));
    let route = Route::repeating(ms(5), &levels(&[1]), 0);
    assert_eq!((millis(&route), route.still_to_plan()), (vec![], ms(5)));
    let route = Route::repeating(Duration::MAX, &levels(&[10, 7, 1]), 100);
    assert_eq!(millis(&route), vec![10; 8]);
    assert_eq!(route.covered() + route.still_to_plan(), Duration::MAX);
}

#[test]
fn forty_awkward_levels_are_planned() {
    let awkward: Vec<u64> = (0..40u64).map(|n| if n == 0 { 1 } else { 1_000_003 + n * n * 7_919 }).collect();
    let set = levels(&awkward);
    let goal: u64 = awkward[3..11].iter().sum();
    let route = Route::repeating(ms(goal), &set, MAX_HOPS);
    assert_eq!(route.covered(), ms(goal));
    assert!(route.levels().len() <= MAX_HOPS);
    let route = Route::repeating(ms(goal + 17), &set, MAX_HOPS);
    assert_eq!(route.covered() + route.still_to_plan(), ms(goal + 17));
}

#[test]
fn binary_reaches_its_limit_and_goes_on_from_there() {
    let all = BinaryLevels::default();
    assert_eq!(Route::binary(ms(0), &all).levels(), []);
    assert_eq!(millis(&Route::binary(Duration::from_nanos(1), &all)), vec![1]);
    // The largest delay that six bits below 2^32 can hold.
    let top: Vec<u64> = (26..32).rev().map(|n| 1 << n).collect();
    let largest = ms(top.iter().sum());
    let route = Route::binary(largest, &all);
    assert_eq!((millis(&route), route.late(), route.still_to_plan()), (top.clone(), ms(0), ms(0)));
    let route = Route::binary(largest + ms(1), &all);
    assert_eq!((millis(&route), route.still_to_plan()), (top, ms(1)));
    assert_eq!(all.up_to(Duration::MAX).count(), 32);
    assert_eq!(all.up_to(Duration::ZERO).count(), 0);
    // 127 has seven bits; kept to six and rounded up it is 128, a level of its own.
    let names: Vec<_> = all.up_to(ms(127)).map(Level::as_millis).collect();
    assert_eq!(names, [128, 64, 32, 16, 8, 4, 2, 1]);
}

#[test]
fn tiered_takes_one_hop() {
    let set = levels(&[10, 60, 300]);
    let of = |delay| {
        let route = Route::tiered(ms(delay), &set);
        (millis(&route), route.late(), route.still_to_plan())
    };
    assert_eq!(of(0), (vec![], ms(0), ms(0)));
    assert_eq!(of(10), (vec![10], ms(0), ms(0)));
    assert_eq!(of(11), (vec![60], ms(49), ms(0)));
    assert_eq!(of(301), (vec![300], ms(0), ms(1)));
}

#[test]
fn refuses_what_no_route_can_be_planned_on() {
    assert_eq!(Levels::new([]), Err(LevelError::Empty));
    assert_eq!(Levels::new([ms(5), ms(1), ms(5)]), Err(LevelError::Twice(Level::new(ms(5)).unwrap())));
    assert_eq!(Levels::new((1..=41).map(ms)), Err(LevelError::TooMany(41)));
    for delay in [Duration::ZERO, Duration::from_micros(1_500), Duration::MAX] {
        assert_eq!(Level::new(delay), Err(LevelError::OutOfRange(delay)));
    }
    assert_eq!(BinaryLevels::new(ms(1), 0), Err(LevelError::Bits(0)));
    assert_eq!(BinaryLevels::new(ms(1), 33), Err(LevelError::Bits(33)));
    assert!(BinaryLevels::new(ms(1 << 32), 6).is_err());
    for text in
        ["", "10", "s", "1.5s", "-1s", "+1s", "0s", "10 s", "99999999999999999999d", "99999999d", "1x"]
    {
        assert!(text.parse::<Level>().is_err(), "{text}");
    }
}

/// The fewest hops and then the first way, found by trying every way there is.
fn brute_force(levels: &[u64], delay: u64, hops: usize) -> (Vec<u64>, bool) {
    fn walk(levels: &[u64], left: u64, hops: usize, way: &mut Vec<u64>, found: &mut Vec<(u64, Vec<u64>)>) {
        found.push((left, way.clone()));
        if hops == 0 {
            return;
        }
        for (at, level) in levels.iter().enumerate() {
            if *level <= left {
                way.push(*level);
                walk(&levels[at..], left - level, hops - 1, way, found);
                way.pop();
            }
        }
    }
    let mut found = Vec::new();
    walk(levels, delay, hops, &mut Vec::new(), &mut found);
    let smallest = *levels.last().unwrap();
    let complete: Vec<_> = found.iter().filter(|(left, _)| *left < smallest).collect();
    let by_first = |a: &Vec<u64>, b: &Vec<u64>| b.cmp(a);
    if complete.is_empty() {
        let least = found.iter().map(|(left, _)| *left).min().unwrap();
        let way =
            found.iter().filter(|(left, _)| *left == least).map(|(_, way)| way).min_by(|a, b| by_first(a, b));
        return (way.unwrap().clone(), false);
    }
    let fewest = complete.iter().map(|(_, way)| way.len()).min().unwrap();
    let way =
        complete.iter().map(|(_, way)| way).filter(|way| way.len() == fewest).min_by(|a, b| by_first(a, b));
    (way.unwrap().clone(), true)
}

proptest! {
    #[test]
    fn repeating_is_minimal(
        set in prop::collection::btree_set(1u64..40, 1..5),
        delay in 0u64..150,
        hops in 0usize..=8,
    ) {
        let descending: Vec<u64> = set.into_iter().rev().collect();
        let (way, is_complete) = brute_force(&descending, delay, hops);
        let route = Route::repeating(ms(delay), &levels(&descending), hops);
        prop_assert_eq!(millis(&route), way);
        prop_assert_eq!(route.still_to_plan().is_zero(), is_complete);
    }

    #[test]
    fn repeating_adds_up(
        set in prop::collection::btree_set(1u64..1_000_000_000, 1..12),
        nanos in 0u64..u64::MAX / 1_000,
        hops in 0usize..=20,
    ) {
        let delay = Duration::from_nanos(nanos);
        let descending: Vec<u64> = set.iter().copied().rev().collect();
        let set = levels(&descending);
        let route = Route::repeating(delay, &set, hops);
        prop_assert!(route.levels().len() <= hops.min(MAX_HOPS));
        prop_assert!(route.levels().is_sorted_by(|a, b| a >= b));
        prop_assert_eq!(route.covered() + route.remainder() + route.still_to_plan(), delay);
        prop_assert!(route.remainder() < set.smallest().duration());
        prop_assert!(route.still_to_plan().is_zero() || route.still_to_plan() >= set.smallest().duration());
        prop_assert_eq!(route.late(), Duration::ZERO);
    }

    #[test]
    fn planning_again_at_each_hop_arrives(
        set in prop::collection::btree_set(1u64..100_000, 1..8),
        delay in 0u64..2_000_000,
    ) {
        let descending: Vec<u64> = set.iter().copied().rev().collect();
        let set = levels(&descending);
        let mut left = ms(delay);
        let mut hops = 0u64;
        while let Some(next) = Route::repeating(left, &set, MAX_HOPS).levels().first() {
            left -= next.duration();
            hops += 1;
            prop_assert!(hops <= delay);
        }
        prop_assert!(left < set.smallest().duration());
    }

    #[test]
    fn binary_rounds_up_and_never_repeats(
        delay in 0u64..5_000_000_000, unit in 1u64..100_000, bits in 1u8..=32,
    ) {
        let route = Route::binary(ms(delay), &BinaryLevels::new(ms(unit), bits).unwrap());
        let way = millis(&route);
        prop_assert!(way.len() <= usize::from(bits));
        prop_assert!(way.is_sorted_by(|a, b| a > b));
        prop_assert!(way.iter().all(|level| *level < 1 << 32 && (level / unit).is_power_of_two() && level % unit == 0));
        if route.still_to_plan().is_zero() {
            let whole = delay.div_ceil(unit) * unit;
            let covered = route.covered().as_millis() as u64;
            prop_assert!(covered >= whole);
            prop_assert!(u128::from(covered - whole) << (bits - 1) <= u128::from(whole));
            prop_assert_eq!(route.covered(), ms(delay) + route.late());
        } else {
            prop_assert_eq!(route.covered() + route.still_to_plan(), ms(delay));
        }
        if let Some(top) = way.first() && route.still_to_plan().is_zero() {
            let reachable: Vec<u64> = BinaryLevels::new(ms(unit), bits).unwrap()
                .up_to(ms(delay)).map(Level::as_millis).collect();
            prop_assert_eq!(reachable.first(), Some(top));
            prop_assert!(way.iter().all(|level| reachable.contains(level)));
        }
    }

    #[test]
    fn tiered_is_the_nearest_that_is_not_early(
        set in prop::collection::btree_set(1u64..1_000, 1..20), delay in 1u64..1_200,
    ) {
        let route = Route::tiered(ms(delay), &levels(&set.iter().copied().collect::<Vec<_>>()));
        let expected = set.range(delay..).next().or(set.last()).copied();
        prop_assert_eq!(route.levels().first().copied().map(Level::as_millis), expected);
        prop_assert_eq!(route.covered() + route.still_to_plan(), ms(delay) + route.late());
    }

    #[test]
    fn names_print_and_parse(millis in 1u64..315_000_000_000, text: String) {
        let level = Level::new(ms(millis)).unwrap();
        prop_assert_eq!(level.to_string().parse(), Ok(level));
        let json = serde_json::to_string(&level).unwrap();
        prop_assert_eq!(serde_json::from_str::<Level>(&json).unwrap(), level);
        if let Ok(level) = text.parse::<Level>() {
            prop_assert_eq!(level.to_string().parse(), Ok(level));
        }
    }
}
