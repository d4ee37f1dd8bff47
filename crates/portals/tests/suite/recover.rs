//! Recovery from exhaustion, in virtual time: nothing is lost, nothing is done twice, and
//! each initiator's operations on an entry keep their order, however small the queues.

use crate::pair;
use crate::pair::net::Mode;
use crate::pair::{Side, entry, open, pattern};
use crate::recovery::{KINDS, Kind, World, limits};
use proptest::prelude::*;
use sluice_portals::{CtEvent, EventKind, Limits, List, MdOptions, NiFail, PtOptions, Scheme};
use sluice_wire::{Packet, PtIndex, Recovery, Word};

const SCHEMES: [Scheme; 2] = [Scheme::Resume, Scheme::Pause];

fn words(world: &World, is: impl Fn(&Word) -> bool) -> usize {
    let is =
        |packet: &Packet| matches!(packet, Packet::Recovery(Recovery { word, .. }) if is(word));
    (0..world.pair.sides.len()).map(|who| world.pair.packets(who, is)).sum()
}

#[test]
fn puts_to_a_queue_of_two_events_arrive_in_order_once() {
    for scheme in SCHEMES {
        let mut world = World::new(2, 1, 2, scheme, Mode::default(), 50);
        for _ in 0..50 {
            world.issue((0, 1, 0), Kind::PutNoAck);
        }
        world.finish();
        world.assert_done();
        assert!(world.refused() > 10, "{scheme:?}: the queue was too small");
    }
}

#[test]
fn every_kind_of_operation_goes_again() {
    for scheme in SCHEMES {
        for kind in KINDS {
            let mut world = World::new(2, 1, 2, scheme, Mode::default(), 30);
            for _ in 0..30 {
                world.issue((0, 1, 0), kind);
            }
            world.finish();
            world.assert_done();
        }
    }
}

/// Nothing is said, and nothing is kept, where nothing runs out.
#[test]
fn a_healthy_entry_costs_no_word_but_asks() {
    for scheme in SCHEMES {
        let mut world = World::new(2, 1, 500, scheme, Mode::default(), 100);
        for _ in 0..50 {
            world.issue((0, 1, 0), Kind::Put);
            world.issue((0, 1, 0), Kind::Get);
        }
        world.finish();
        world.assert_done();
        assert_eq!(words(&world, |_| true), 0);
        for _ in 0..3 {
            world.issue((1, 0, 0), Kind::Put);
        }
        world.finish();
        assert_eq!(world.refused(), 0);
    }
}

#[test]
fn what_nobody_acknowledges_is_asked_about_in_lots() {
    let mut world = World::new(2, 1, 1000, Scheme::Resume, Mode::default(), 256);
    for _ in 0..256 {
        world.issue((0, 1, 0), Kind::PutNoAck);
    }
    world.finish();
    world.assert_done();
    let asks = words(&world, |word| *word == Word::Ask);
    assert!((1..=5).contains(&asks), "{asks} asks for 256 puts");
}

#[test]
fn a_process_recovers_from_itself() {
    for scheme in SCHEMES {
        let mut world = World::new(2, 2, 2, scheme, Mode::default(), 40);
        for nth in 0..40 {
            world.issue((1, 1, 0), KINDS[nth % KINDS.len()]);
            world.issue((1, 1, 1), Kind::Put);
        }
        world.finish();
        world.assert_done();
        assert!(world.refused() > 0);
    }
}

/// Several entries have run out at once, and each goes on by itself.
#[test]
fn entries_recover_each_by_itself() {
    let mut world = World::new(2, 3, 2, Scheme::Resume, Mode::default(), 20);
    for entry in 0..3 {
        for _ in 0..20 {
            world.issue((0, 1, entry), Kind::Put);
        }
    }
    // Only the last is ever looked after.
    for _ in 0..200 {
        while let Some(&event) = world.net_events().first() {
            world.happen(event);
        }
        world.drain_entry(1, 2, 1);
        world.drain_origin(0, 2);
        world.idle(0);
        world.idle(1);
    }
    assert_eq!(world.done[&(0, 1, 2)], 20);
    assert_eq!(world.done.get(&(0, 1, 0)), None);
    world.finish();
    world.assert_done();
}

#[test]
fn sixteen_to_one() {
    for scheme in SCHEMES {
        let mut world = World::new(16, 1, 4, scheme, Mode::default(), 20);
        for _ in 0..20 {
            for from in 0..16 {
                world.issue((from, 0, 0), Kind::Put);
            }
        }
        world.finish();
        world.assert_done();
        let pauses = words(&world, |word| *word == Word::Pause);
        assert_eq!(pauses > 0, scheme == Scheme::Pause);
    }
}

/// Who has nothing to do with an entry that has run out hears nothing of it.
#[test]
fn only_those_concerned_hear_of_it() {
    let mut world = World::new(3, 2, 2, Scheme::Resume, Mode::default(), 30);
    world.issue((2, 1, 1), Kind::Put);
    for _ in 0..30 {
        world.issue((0, 1, 0), Kind::Put);
    }
    world.finish();
    world.assert_done();
    let net = world.pair.sides[0].port.net();
    let heard = |(from, to, packet, _): &(usize, usize, Packet, _)| {
        matches!(packet, Packet::Recovery(_)) && (*from == 2 || *to == 2)
    };
    assert!(!net.log.iter().any(heard));
    assert!(words(&world, |word| matches!(word, Word::Refuse { .. })) > 0);
}

/// A program that disables an entry itself and enables it again loses nothing.
#[test]
fn an_entry_that_the_program_disables_refuses_until_the_program_enables_it() {
    let mut world = World::new(2, 1, 100, Scheme::Resume, Mode::default(), 10);
    let pt = PtIndex(10);
    world.pair.sides[1].ni.pt_disable(pt).unwrap();
    for _ in 0..10 {
        world.issue((0, 1, 0), Kind::Put);
    }
    world.finish();
    assert!(world.done.is_empty());
    assert_eq!((world.pair.sides[0].ni.kept_now(), world.pair.sides[1].ni.refused_now()), (10, 1));
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    ni.pt_enable(port, pt).unwrap();
    world.finish();
    world.assert_done();
}

/// What matches nothing waits for an entry; others are not held up by it.
#[test]
fn what_matches_nothing_waits_for_an_entry() {
    let mut world = World::new(3, 1, 100, Scheme::Resume, Mode::default(), 10);
    let pt = PtIndex(20);
    for who in 1..3 {
        let Side { ni, .. } = &mut world.pair.sides[who];
        let flow = PtOptions { flow_control: true, ..PtOptions::default() };
        let eq = ni.eq_alloc(10).unwrap();
        ni.pt_alloc(pt, flow, Some(eq)).unwrap();
    }
    let region = world.pair.alloc(0, b"four");
    let from = world.pair.local(0, region);
    let target = sluice_portals::Target { pt_index: pt, ..pair::target(1, 9, 0) };
    let put = sluice_portals::Command::Put {
        from,
        ack: Some(sluice_wire::AckKind::Full),
        target,
        hdr_data: 0,
        user_ptr: 1,
    };
    world.pair.issue(0, &put).unwrap();
    world.issue((2, 1, 0), Kind::Put);
    world.finish();
    assert_eq!(world.done[&(2, 1, 0)], 1);
    assert_eq!(world.pair.events(0), []);
    let memory = world.pair.alloc(1, &[0; 4]);
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    ni.me_append(port, pt, List::Priority, entry(memory, 9, open(), 1)).unwrap();
    world.finish();
    assert_eq!(world.pair.outcomes(0), [(EventKind::Send, 4, Ok(())), (EventKind::Ack, 4, Ok(()))]);
    assert_eq!(world.pair.bytes(1, memory), b"four");
}

/// The entry is gone that had refused: the initiator learns what the specification says.
#[test]
fn an_entry_that_is_freed_refuses_for_good() {
    let mut world = World::new(2, 1, 100, Scheme::Resume, Mode::default(), 10);
    let pt = PtIndex(20);
    let flow = PtOptions { flow_control: true, ..PtOptions::default() };
    let Side { ni, eq, .. } = &mut world.pair.sides[1];
    ni.pt_alloc(pt, flow, Some(*eq)).unwrap();
    let region = world.pair.alloc(0, &pattern(8, 1));
    let from = world.pair.local(0, region);
    let target = sluice_portals::Target { pt_index: pt, ..pair::target(1, 9, 0) };
    let ack = Some(sluice_wire::AckKind::Full);
    for user_ptr in 0..5 {
        let put = sluice_portals::Command::Put { from, ack, target, hdr_data: 0, user_ptr };
        world.pair.issue(0, &put).unwrap();
    }
    world.finish();
    world.pair.sides[1].ni.pt_free(pt).unwrap();
    world.finish();
    let acks: Vec<_> = world.pair.outcomes(0).into_iter().map(|(_, _, outcome)| outcome).collect();
    assert_eq!(acks, [Ok(()), Err(NiFail::NoMatch)].repeat(5));
    world.assert_done();
}

/// Triggered operations are kept like others.
#[test]
fn triggered_operations_go_again() {
    let mut world = World::new(2, 1, 2, Scheme::Resume, Mode::default(), 40);
    let ct = world.pair.sides[0].ct;
    for nth in 0..40 {
        let command = world.command((0, 1, 0), KINDS[nth % KINDS.len()]);
        let Side { ni, port, .. } = &mut world.pair.sides[0];
        ni.trigger(port, command, ct, 1).unwrap();
    }
    let by = CtEvent { success: 1, failure: 0 };
    world.pair.issue(0, &sluice_portals::Command::CtInc { ct, by }).unwrap();
    world.finish();
    world.assert_done();
    assert!(world.refused() > 0);
}

/// Memory that may change when the call has returned is copied, and the copy is what goes again.
#[test]
fn volatile_memory_is_sent_again_as_it_was() {
    let mut world = World::new(2, 1, 100, Scheme::Resume, Mode::default(), 10);
    let pt = PtIndex(10);
    world.pair.sides[1].ni.pt_disable(pt).unwrap();
    let Side { ni, eq, port, .. } = &mut world.pair.sides[0];
    let whole = sluice_wire::Region { addr: sluice_wire::Addr(0), len: u64::MAX };
    let volatile = MdOptions { volatile: true, ..MdOptions::default() };
    let md = ni.md_bind(whole, None, Some(*eq), None, volatile).unwrap();
    let region = port.alloc(&[7; 8]);
    let from = sluice_portals::Local { md, offset: region.addr.0, length: 8 };
    let target = sluice_portals::Target { pt_index: pt, ..pair::target(1, 0, 0) };
    let put = sluice_portals::Command::Put { from, ack: None, target, hdr_data: 0, user_ptr: 0 };
    world.pair.issue(0, &put).unwrap();
    world.finish_without_judging();
    use sluice_link::LocalMemory;
    let Side { port, .. } = &mut world.pair.sides[0];
    port.store(region.addr, &[9; 8]);
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    ni.pt_enable(port, pt).unwrap();
    world.finish_without_judging();
    assert_eq!(world.bytes_at((0, 1, 0), 8), [7; 8]);
    world.pair.assert_quiet();
    assert_eq!(world.pair.sides[0].ni.kept_now(), 0);
}

/// A target that dies frees all that was kept for it, and every operation is told.
#[test]
fn the_death_of_a_peer_ends_what_is_kept() {
    for scheme in SCHEMES {
        for pending_percent in [0, 100] {
            let mode = Mode { pending_percent, ..Mode::default() };
            let mut world = World::new(3, 1, 200, scheme, mode, 20);
            world.pair.sides[1].ni.pt_disable(PtIndex(10)).unwrap();
            for nth in 0..20 {
                world.issue((0, 1, 0), KINDS[nth % KINDS.len()]);
                world.issue((2, 1, 0), Kind::PutNoAck);
            }
            for _ in 0..30 {
                if let Some(&event) = world.net_events().first() {
                    world.pair.happen(event);
                }
            }
            world.pair.kill(1);
            while let Some(&event) = world.net_events().first() {
                world.pair.happen(event);
            }
            for who in [0, 2] {
                world.idle(who);
                let told = world.count_origin(who);
                let owed: usize = world
                    .issued
                    .iter()
                    .filter(|((from, ..), _)| *from == who)
                    .flat_map(|(_, issued)| issued.iter().map(|one| one.told.len()))
                    .sum();
                assert_eq!(told, owed, "{scheme:?}, {pending_percent} % pending, process {who}");
                assert_eq!(world.pair.sides[who].ni.kept_now(), 0);
            }
            world.pair.assert_quiet();
        }
    }
}

/// An ask that left before the refusal was known covered what went again behind it, so a
/// second refusal of that found it ended.
#[test]
fn an_ask_does_not_cover_what_goes_again_behind_it() {
    let mut world = World::new(2, 1, 1, Scheme::Resume, Mode::default(), 10);
    for _ in 0..3 {
        world.issue((0, 1, 0), Kind::PutNoAck);
    }
    for _ in 0..3 {
        world.happen(pair::net::Event::Deliver(0, 1));
    }
    world.drain_entry(1, 0, 1);
    world.idle(1);
    world.ask(0);
    let is_word = |world: &World, wanted: Word| words(world, |word| *word == wanted);
    assert_eq!((is_word(&world, Word::Ask), is_word(&world, Word::Resume { epoch: 0 })), (1, 1));
    // The refusal and the resumption.
    while world.net_events().contains(&pair::net::Event::Deliver(1, 0)) {
        world.happen(pair::net::Event::Deliver(1, 0));
    }
    // The ask, and its answer.
    world.happen(pair::net::Event::Deliver(0, 1));
    while is_word(&world, Word::Told) == 1
        && world.net_events().contains(&pair::net::Event::Deliver(1, 0))
    {
        world.happen(pair::net::Event::Deliver(1, 0));
    }
    assert_eq!(world.pair.sides[0].ni.kept_now(), 2);
    world.finish();
    world.assert_done();
}

/// The specified behaviour stays what it was: off is off.
#[test]
fn an_interface_without_recovery_takes_no_word_of_it() {
    let off = Limits { recovery: None, ..limits(Scheme::Resume) };
    let mut world = World::with_limits(2, 1, [2, 100], off, Mode::default(), 4);
    let net = world.pair.sides[0].port.clone();
    let said = Packet::Recovery(Recovery { pt_index: PtIndex(10), word: Word::Pause });
    let head = said.emit(sluice_wire::PacketSeq(0), sluice_wire::Credits::default(), 0);
    net.net_mut().forge(0, 1, &head, &[]);
    let event = world.net_events()[0];
    world.pair.happen(event);
    assert_eq!(world.pair.taken, Some(sluice_portals::Taken::Violation));
}

/// Words that nobody honest says are refused, and change nothing.
#[test]
fn words_out_of_place_are_violations() {
    let first = sluice_wire::PacketSeq(5);
    let wrong = [
        Word::Refuse { epoch: 0, first },
        Word::Resume { epoch: 0 },
        Word::Restart { epoch: 0 },
        Word::Told,
        Word::Unpause,
    ];
    for word in wrong {
        let mut world = World::new(2, 1, 10, Scheme::Resume, Mode::default(), 4);
        world.issue((1, 0, 0), Kind::Put);
        let net = world.pair.sides[0].port.clone();
        let said = Packet::Recovery(Recovery { pt_index: PtIndex(10), word });
        let head = said.emit(sluice_wire::PacketSeq(0), sluice_wire::Credits::default(), 0);
        net.net_mut().forge(0, 1, &head, &[]);
        let event = pair::net::Event::Deliver(0, 1);
        world.pair.happen(event);
        assert_eq!(world.pair.taken, Some(sluice_portals::Taken::Violation), "{word:?}");
    }
}

/// A queue of the initiator's own that is too short never loses an event.
#[test]
fn a_process_never_exhausts_its_own_queue() {
    for queue in 2..5 {
        let limits = limits(Scheme::Resume);
        let mut world = World::with_limits(2, 1, [2, queue], limits, Mode::default(), 60);
        for nth in 0..60 {
            world.issue((0, 1, 0), KINDS[nth % KINDS.len()]);
        }
        assert!(world.pair.sides[0].ni.waiting_now() > 0, "the rest waits");
        world.finish();
        world.assert_done();
    }
}

#[derive(Clone, Debug)]
struct Case {
    scheme: Scheme,
    processes: usize,
    entries: u8,
    queues: [usize; 2],
    /// The queue of the first entry is that of own operations too.
    shared: bool,
    mode: Mode,
    /// What is done next, as numbers that are taken modulo what there is.
    steps: Vec<(u8, u8, u8, u8)>,
}

fn case() -> impl Strategy<Value = Case> {
    let shared = any::<bool>();
    let mode =
        (any::<bool>(), prop_oneof![Just(0), Just(40_u64)], prop_oneof![Just(0), Just(50_u64)]);
    let steps = prop::collection::vec(any::<(u8, u8, u8, u8)>(), 50..600);
    (any::<bool>(), 2..5_usize, 1..4_u8, [1..6_usize, 2..12_usize], shared, mode, steps).prop_map(
        |(
            pauses,
            processes,
            entries,
            queues,
            shared,
            (can_read, pending_percent, connecting_percent),
            steps,
        )| Case {
            scheme: if pauses { Scheme::Pause } else { Scheme::Resume },
            processes,
            entries,
            queues,
            shared,
            mode: Mode { can_read, pending_percent, connecting_percent, ..Mode::default() },
            steps,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any programs, any schedule.
    #[test]
    fn nothing_is_lost_and_nothing_done_twice(case in case()) {
        let Case { scheme, processes, entries, queues, shared, mode, steps } = case;
        let limits = limits(scheme);
        let mut world =
            World::with_queues(processes, entries, queues, shared, limits, mode, 100);
        for (what, a, b, c) in steps {
            let who = a as usize % processes;
            match what % 8 {
                0..=2 => {
                    let way = (who, b as usize % processes, c % entries);
                    if world.issued.get(&way).is_none_or(|issued| issued.len() < 100) {
                        world.issue(way, KINDS[(what / 8) as usize % KINDS.len()]);
                    }
                }
                3..=5 => {
                    let events = world.net_events();
                    if !events.is_empty() {
                        let nth = (a as usize * 256 + b as usize) % events.len();
                        world.happen(events[nth]);
                    }
                }
                6 => {
                    world.drain_entry(who, b % entries, 2);
                    world.drain_origin(who, 2);
                }
                _ => world.idle(who),
            }
        }
        world.finish();
        world.assert_done();
    }
}

/// Without the layer the same programs lose what they put, and the oracle says so.
#[test]
#[should_panic(expected = "(0, 1, 0)")]
fn the_oracle_bites() {
    let off = Limits { recovery: None, ..limits(Scheme::Resume) };
    let mut world = World::with_limits(2, 1, [2, 100], off, Mode::default(), 10);
    for _ in 0..10 {
        world.issue((0, 1, 0), Kind::PutNoAck);
    }
    world.finish_without_judging();
    assert_eq!(world.pair.sides[1].ni.status().dropped, 8);
    world.assert_done();
}
