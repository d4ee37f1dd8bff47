//! The states of rails, told as time passes.

use proptest::prelude::*;
use sluice_multirail::{RailId, RailState, Rails, Timing, Verdict};
use sluice_wire::Nanos;

const MS: u64 = 1_000_000;
const A: RailId = RailId(0);
const B: RailId = RailId(1);

fn at(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

fn verdicts(rails: &mut Rails, now: Nanos) -> Vec<Verdict> {
    std::iter::from_fn(|| rails.next_verdict(now)).collect()
}

/// Two rails that are up at time zero.
fn two() -> Rails {
    let mut rails = Rails::new(Timing::default(), 2, at(0));
    assert_eq!(verdicts(&mut rails, at(0)), [Verdict::Open(A), Verdict::Open(B)]);
    assert!(rails.opened(A, at(0)) && rails.opened(B, at(0)));
    assert_eq!(verdicts(&mut rails, at(0)), []);
    rails
}

#[test]
fn a_rail_that_is_silent_while_its_sibling_speaks_is_suspect_and_comes_back() {
    let mut rails = two();
    rails.expect(A, at(0));
    rails.expect(B, at(0));
    assert!(!rails.heard(B, at(14), true));
    assert_eq!(verdicts(&mut rails, at(14)), []);
    assert_eq!(rails.deadline(at(14)), Some(at(15)));
    assert_eq!(verdicts(&mut rails, at(15)), [Verdict::Suspect(A)]);
    assert_eq!(rails.state(A), RailState::Suspect);
    assert_eq!(rails.usable().collect::<Vec<_>>(), [B]);
    assert!(rails.heard(A, at(20), false), "it speaks");
    assert_eq!(rails.usable().collect::<Vec<_>>(), [A, B]);
    assert!(!rails.heard(A, at(21), false), "it was up");
}

/// Their core is busy.
#[test]
fn all_that_are_silent_are_waited_for_longer() {
    let mut rails = two();
    rails.expect(A, at(0));
    rails.expect(B, at(0));
    assert_eq!(verdicts(&mut rails, at(400)), []);
    assert_eq!(rails.deadline(at(400)), Some(at(500)));
    assert_eq!(verdicts(&mut rails, at(500)), [Verdict::Suspect(A), Verdict::Suspect(B)]);
    assert!(!rails.is_gone());
}

#[test]
fn nothing_is_expected_of_an_idle_rail() {
    let mut rails = two();
    assert_eq!(rails.deadline(at(0)), None);
    assert_eq!(verdicts(&mut rails, at(1_000_000)), []);
    rails.watch();
    assert_eq!(verdicts(&mut rails, at(1_000_000)), [Verdict::Probe(A), Verdict::Probe(B)]);
    rails.heard(A, at(1_000_001), false);
    assert_eq!(verdicts(&mut rails, at(1_000_014)), []);
    assert_eq!(verdicts(&mut rails, at(1_000_015)), [Verdict::Suspect(B)]);
}

#[test]
fn a_suspect_rail_that_stays_silent_is_closed_and_opened_anew() {
    let mut rails = two();
    rails.expect(A, at(0));
    rails.heard(B, at(10), true);
    assert_eq!(verdicts(&mut rails, at(15)), [Verdict::Suspect(A)]);
    assert_eq!(verdicts(&mut rails, at(510)), [Verdict::Suspect(B)]);
    rails.heard(B, at(1014), false);
    assert_eq!(verdicts(&mut rails, at(1015)), [Verdict::Close(A)]);
    assert_eq!(rails.deadline(at(1015)), Some(at(1025)));
    assert_eq!(verdicts(&mut rails, at(1025)), [Verdict::Open(A)]);
    // Opening takes too long, and the next time comes later.
    assert_eq!(verdicts(&mut rails, at(3025)), [Verdict::Close(A)]);
    assert_eq!(verdicts(&mut rails, at(3044)), []);
    assert_eq!(verdicts(&mut rails, at(3045)), [Verdict::Open(A)]);
    assert!(rails.opened(A, at(3046)));
    assert!(!rails.opened(A, at(3046)), "it is open already");
    // What the peer opens is wanted before this process would.
    rails.broke(A, at(3047));
    assert!(rails.opened(A, at(3048)));
    assert_eq!(rails.usable().collect::<Vec<_>>(), [A, B]);
}

#[test]
fn a_peer_without_any_rail_is_gone_after_a_while() {
    let mut rails = two();
    rails.broke(A, at(100));
    rails.broke(B, at(200));
    let mut now = at(200);
    let mut opened = 0;
    let gone = loop {
        match rails.next_verdict(now) {
            Some(Verdict::Gone) => break now,
            Some(Verdict::Open(rail)) => {
                opened += 1;
                rails.broke(rail, now);
            }
            Some(other) => panic!("{other:?} of rails that break at once"),
            None => now = rails.deadline(now).expect("something comes"),
        }
    };
    assert_eq!(gone, at(30_200));
    assert!((60..90).contains(&opened), "tried again and again, ever more seldom: {opened}");
    assert!(rails.is_gone() && rails.deadline(gone).is_none());
    assert_eq!(verdicts(&mut rails, at(100_000)), []);
    assert!(!rails.opened(A, at(100_000)));
}

#[test]
fn a_rail_that_returns_in_time_ends_the_wait_for_the_end() {
    let mut rails = two();
    rails.broke(A, at(0));
    rails.broke(B, at(0));
    assert_eq!(verdicts(&mut rails, at(29_999)), [Verdict::Open(A), Verdict::Open(B)]);
    assert!(rails.opened(B, at(29_999)));
    assert_eq!(verdicts(&mut rails, at(30_001)), []);
    assert!(!rails.is_gone());
}

/// It computed, and its rails broke meanwhile. The peer waits for it.
#[test]
fn who_returns_after_a_minute_does_not_find_its_peer_gone() {
    let mut rails = two();
    rails.broke(A, at(100));
    rails.broke(B, at(100));
    assert_eq!(verdicts(&mut rails, at(60_000)), [Verdict::Open(A), Verdict::Open(B)]);
    assert!(!rails.is_gone() && rails.opened(A, at(60_001)));
}

/// The first that it hears on its return is that its call was in vain.
#[test]
fn who_returns_and_hears_that_a_rail_has_broken_does_not_find_its_peer_gone() {
    for returns_ms in [30_001, 30_400, 40_000, 90_000] {
        let mut rails = Rails::new(Timing::default(), 1, at(0));
        assert_eq!(verdicts(&mut rails, at(0)), [Verdict::Open(A)]);
        rails.broke(A, at(returns_ms));
        assert_eq!(verdicts(&mut rails, at(returns_ms)), []);
        assert_eq!(verdicts(&mut rails, at(returns_ms + 10)), [Verdict::Open(A)]);
    }
}

/// Each of two sides would otherwise come while the other waits to try again.
#[test]
fn a_rail_that_the_peer_opens_is_welcome_before_this_side_has_tried_again() {
    let mut rails = two();
    rails.broke(A, at(100));
    assert_eq!(rails.state(A), RailState::Down);
    assert!(rails.opened(A, at(101)));
    assert_eq!(rails.usable().collect::<Vec<_>>(), [A, B]);
    assert_eq!(verdicts(&mut rails, at(200)), [], "it is not opened once more");
}

/// Its answers take 20 ms, and it is up for no 15 ms else.
#[test]
fn a_rail_that_answers_late_again_and_again_is_waited_for_longer() {
    let mut rails = two();
    rails.expect(A, at(0));
    rails.heard(B, at(14), true);
    assert_eq!(verdicts(&mut rails, at(15)), [Verdict::Suspect(A)]);
    assert!(rails.heard(A, at(20), true));
    rails.heard(B, at(36), true);
    assert_eq!(verdicts(&mut rails, at(38)), []);
    assert!(!rails.heard(A, at(40), true), "it was not suspect");
    // When it has answered soon for three seconds it is waited for no longer again.
    for ms in (1..600).map(|step| 40 + 5 * step) {
        rails.heard(A, at(ms), true);
        rails.heard(B, at(ms), true);
    }
    rails.heard(B, at(3049), true);
    assert_eq!(verdicts(&mut rails, at(3050)), [Verdict::Suspect(A)]);
}

/// What a suspect rail owes is asked for elsewhere, and its answers are in vain. One that is
/// suspected every second, and needs a second for its answers, would never be of use.
#[test]
fn a_rail_whose_answers_always_take_long_is_not_suspected_for_ever() {
    let mut rails = two();
    let mut suspected = 0;
    for step in 1..3000 {
        rails.expect(A, at(20 * step - 20));
        for ms in 20 * step - 19..20 * step {
            rails.heard(B, at(ms), true);
            suspected += verdicts(&mut rails, at(ms)).len();
        }
        rails.heard(A, at(20 * step), false);
    }
    assert_eq!(suspected, 1, "in a minute");
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Opened,
    Broke,
    Expect,
    Heard(bool),
    Watch,
    Cut,
    Mended,
    Retry,
}

fn input() -> impl Strategy<Value = (u64, u8, Input)> {
    let what = prop_oneof![
        3 => Just(Input::Opened),
        1 => Just(Input::Broke),
        3 => Just(Input::Expect),
        3 => any::<bool>().prop_map(Input::Heard),
        1 => Just(Input::Watch),
        1 => Just(Input::Cut),
        1 => Just(Input::Mended),
        1 => Just(Input::Retry),
    ];
    (0..3000_u64, 0..3_u8, what)
}

proptest! {
    /// Whatever happens, whoever sleeps until the deadline makes progress, a rail is used
    /// only while it is open, and it is opened from here only when it is closed.
    #[test]
    fn deadlines_lie_ahead_and_rails_are_opened_and_closed_in_turn(
        inputs in prop::collection::vec(input(), 1..100)
    ) {
        let mut rails = Rails::new(Timing::default(), 3, Nanos(0));
        let mut is_open = [false; 3];
        let mut now = Nanos(0);
        for (ms, rail, input) in inputs {
            now = now.saturating_add(at(ms));
            let rail = RailId(rail);
            match input {
                // By the peer, if it was not asked for here.
                Input::Opened if rails.opened(rail, now) => is_open[rail.index()] = true,
                Input::Broke if is_open[rail.index()] => {
                    rails.broke(rail, now);
                    is_open[rail.index()] = false;
                }
                Input::Expect if rails.state(rail) == RailState::Up => rails.expect(rail, now),
                Input::Heard(owed)
                    if matches!(rails.state(rail), RailState::Up | RailState::Suspect) =>
                {
                    rails.heard(rail, now, owed);
                }
                Input::Watch => rails.watch(),
                Input::Cut => rails.cut(rail),
                Input::Mended => rails.mended(rail),
                Input::Retry => rails.retry(),
                _ => {}
            }
            for verdict in verdicts(&mut rails, now) {
                match verdict {
                    Verdict::Open(rail) => {
                        prop_assert!(!std::mem::replace(&mut is_open[rail.index()], true));
                    }
                    Verdict::Close(rail) => {
                        prop_assert!(std::mem::replace(&mut is_open[rail.index()], false));
                    }
                    Verdict::Suspect(rail) | Verdict::Probe(rail) => {
                        prop_assert!(is_open[rail.index()]);
                    }
                    Verdict::Gone => prop_assert!(rails.usable().next().is_none()),
                }
            }
            prop_assert!(rails.usable().all(|rail| is_open[rail.index()]));
            prop_assert!(rails.deadline(now).is_none_or(|deadline| deadline > now));
        }
    }
}

#[test]
fn who_computes_is_waited_for_as_long_as_its_host_lives() {
    let timing = Timing::default();
    let mut rails = Rails::new(timing, 1, Nanos(0));
    let rail = RailId(0);
    assert_eq!(rails.next_verdict(Nanos(0)), Some(Verdict::Open(rail)));
    let mut now = 0;
    // Its kernel takes the connection, and the process answers after a minute.
    while now < 60_000_000_000 {
        now += 100_000_000;
        assert!(!rails.alive(rail, Nanos(now), true));
        assert_eq!(rails.next_verdict(Nanos(now)), None);
    }
    assert!(rails.opened(rail, Nanos(now)));
    rails.expect(rail, Nanos(now));
    while now < 120_000_000_000 {
        now += 100_000_000;
        assert!(!rails.alive(rail, Nanos(now), true));
        assert_eq!(rails.next_verdict(Nanos(now)), None);
    }
    // Once its host is silent too, time runs.
    now += timing.suspect_alone_ns;
    assert_eq!(rails.next_verdict(Nanos(now)), Some(Verdict::Suspect(rail)));
    assert!(rails.alive(rail, Nanos(now), true), "it can be used again");
}

#[test]
fn a_link_that_returns_is_not_waited_for() {
    let timing = Timing::default();
    let mut rails = Rails::new(timing, 2, Nanos(0));
    let open = |rails: &mut Rails, now| {
        let mut opens = 0;
        while let Some(verdict) = rails.next_verdict(now) {
            opens += u64::from(matches!(verdict, Verdict::Open(_)));
        }
        opens
    };
    assert_eq!(open(&mut rails, Nanos(0)), 2);
    assert!(rails.opened(RailId(0), Nanos(1)));
    // It fails again and again, and is tried ever later.
    let mut now = Nanos(2);
    for _ in 0..20 {
        rails.broke(RailId(1), now);
        now = now.saturating_add(Nanos(timing.retry_ns_max));
        assert_eq!(open(&mut rails, now), 1);
    }
    rails.broke(RailId(1), now);
    assert_eq!(open(&mut rails, now), 0);
    rails.retry();
    assert!(rails.deadline(now).is_some_and(|due| due <= now));
    assert_eq!(open(&mut rails, now), 1);
    assert_eq!(rails.state(RailId(0)), RailState::Up);

    // One that was only silent is not waited for either.
    assert!(rails.opened(RailId(1), now));
    rails.expect(RailId(1), now);
    now = now.saturating_add(Nanos(timing.suspect_alone_ns));
    assert_eq!(rails.next_verdict(now), Some(Verdict::Suspect(RailId(1))));
    rails.retry();
    let both = [Verdict::Close(RailId(1)), Verdict::Open(RailId(1))];
    assert_eq!(verdicts(&mut rails, now), both);
    // What comes of it is not tried again at once.
    rails.broke(RailId(1), now);
    assert_eq!(verdicts(&mut rails, now), []);
}

/// What is to be done now says nothing about how long the others have been waited for.
#[test]
fn a_rail_that_is_opened_at_once_does_not_excuse_the_silence_of_another() {
    for how in 0..2 {
        let mut rails = Rails::new(Timing::default(), 3, at(0));
        let c = RailId(2);
        if how == 0 {
            rails.spare_others(A);
        }
        while rails.next_verdict(at(0)).is_some() {}
        assert!(rails.opened(A, at(0)) && rails.opened(B, at(0)));
        if how == 1 {
            // It has been tried in vain for long, and is to be tried again in a second.
            for ms in (0..5_400).step_by(600) {
                rails.broke(c, at(ms));
                assert_eq!(rails.state(c), RailState::Down);
                while rails.next_verdict(at(ms + 599)).is_some() {}
            }
            rails.broke(c, at(5_400));
        }
        assert_eq!(verdicts(&mut rails, at(5_986)), []);
        rails.expect(A, at(5_986));
        rails.heard(B, at(6_000), true);
        match how {
            0 => assert!(rails.wake()),
            _ => rails.retry(),
        }
        assert_eq!(verdicts(&mut rails, at(6_000)), [Verdict::Open(c)]);
        rails.heard(B, at(6_001), true);
        assert_eq!(verdicts(&mut rails, at(6_001)), [Verdict::Suspect(A)], "{how}");
    }
}

#[test]
fn a_rail_whose_device_is_cut_is_closed_at_once_and_opened_when_it_is_mended() {
    let mut rails = two();
    assert_eq!(verdicts(&mut rails, at(100)), []);
    // Nothing is expected of it. Its peer may try to open it, and hear nothing.
    rails.cut(A);
    assert_eq!(rails.deadline(at(100)), Some(at(100)));
    assert_eq!(verdicts(&mut rails, at(100)), [Verdict::Close(A)]);
    assert_eq!(rails.usable().collect::<Vec<_>>(), [B]);
    // Other news, and failures of others, change nothing.
    rails.retry();
    rails.cut(A);
    assert_eq!(verdicts(&mut rails, at(5_000)), []);
    assert_eq!(rails.deadline(at(5_000)), Some(at(10_100)));
    rails.mended(A);
    assert_eq!(verdicts(&mut rails, at(5_000)), [Verdict::Open(A)]);
    rails.mended(A);
    assert_eq!(verdicts(&mut rails, at(5_000)), [], "it is being opened");
    // An attempt that is under way is in vain.
    rails.cut(A);
    assert_eq!(verdicts(&mut rails, at(5_001)), [Verdict::Close(A)]);
    assert_eq!(verdicts(&mut rails, at(15_000)), []);
    // What the peer has opened carries something.
    assert!(rails.opened(A, at(15_000)));
    rails.broke(A, at(15_001));
    assert_eq!(verdicts(&mut rails, at(15_021)), [Verdict::Open(A)]);
}

/// Its address may be at another device by then.
#[test]
fn a_cut_rail_is_tried_now_and_then() {
    let mut rails = two();
    rails.cut(A);
    assert_eq!(verdicts(&mut rails, at(0)), [Verdict::Close(A)]);
    let (mut now, mut tried) = (at(0), 0);
    while now < at(100_000) {
        now = rails.deadline(now).expect("it is tried again");
        for verdict in verdicts(&mut rails, now) {
            assert_eq!(verdict, Verdict::Open(A));
            rails.broke(A, now);
            tried += 1;
        }
    }
    assert!((5..=10).contains(&tried), "{tried}");
}

/// It is hardly tried, so nobody need look for long.
#[test]
fn a_peer_whose_only_rail_is_cut_is_gone_in_time() {
    let timing = Timing::default();
    let mut rails = Rails::new(timing, 1, at(0));
    assert_eq!(verdicts(&mut rails, at(0)), [Verdict::Open(A)]);
    assert!(rails.opened(A, at(0)));
    rails.cut(A);
    let mut now = at(0);
    while !rails.is_gone() {
        for verdict in verdicts(&mut rails, now) {
            if verdict == Verdict::Open(A) {
                rails.broke(A, now);
            }
        }
        now = rails.deadline(now).unwrap_or(now);
    }
    assert!(now.0 <= timing.gone_ns + 1_000_000_000, "{now:?}");
}

#[test]
fn a_spare_rail_is_opened_when_it_is_needed_or_another_one_fails() {
    let timing = Timing::default();
    for how in 0..3 {
        let mut rails = Rails::new(timing, 3, Nanos(0));
        rails.spare_others(A);
        assert_eq!(rails.next_verdict(Nanos(0)), Some(Verdict::Open(A)));
        assert_eq!(rails.next_verdict(Nanos(0)), None);
        assert!(rails.opened(A, Nanos(1)));
        assert_eq!(rails.next_verdict(Nanos(2)), None);
        assert_eq!((rails.deadline(Nanos(2)), rails.state(B)), (None, RailState::Spare));
        let now = match how {
            0 => {
                assert!(rails.wake());
                Nanos(3)
            }
            1 => {
                rails.broke(A, Nanos(3));
                Nanos(3)
            }
            _ => {
                rails.expect(A, Nanos(3));
                let late = Nanos(3 + timing.suspect_alone_ns);
                assert_eq!(rails.next_verdict(late), Some(Verdict::Suspect(A)));
                late
            }
        };
        assert!(rails.deadline(now).is_some_and(|due| due <= now), "at once");
        assert_eq!(rails.next_verdict(now), Some(Verdict::Open(B)));
        assert_eq!(rails.next_verdict(now), Some(Verdict::Open(RailId(2))));
        assert_eq!(rails.next_verdict(now), None);
        assert!(rails.is_fresh(B) && rails.opened(B, now) && !rails.is_fresh(B));
        assert!(!rails.wake(), "none is spare any more");
    }
    // One that the peer has opened is none.
    let mut rails = Rails::new(timing, 2, Nanos(0));
    rails.spare_others(A);
    assert!(rails.opened(B, Nanos(1)));
    assert_eq!(rails.state(B), RailState::Up);
}
