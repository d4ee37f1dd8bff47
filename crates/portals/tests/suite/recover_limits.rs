//! Recovery where it is narrow: queues that are shared or shorter than one operation needs,
//! operations that fail by themselves, memory that the rail still reads, pauses that end
//! early, a log that is full, initiators that die.

use crate::pair::net::{Event as NetEvent, Mode};
use crate::pair::{Side, entry, open, pattern, target};
use crate::recovery;
use crate::recovery::{KINDS, Kind, World, limits};
use sluice_link::Layout;
use sluice_portals::{
    Command, EqTaken, EventKind, Limits, List, Local, MdOptions, MeOptions, NiFail, PtOptions,
    PtlError, Scheme, Target,
};
use sluice_wire::{AckKind, Addr, Packet, PtIndex, Recovery, Region, Word};

const SCHEMES: [Scheme; 2] = [Scheme::Resume, Scheme::Pause];
const FIRST: PtIndex = PtIndex(10);

fn words(world: &World, who: usize, wanted: impl Fn(&Word) -> bool) -> usize {
    let is =
        |packet: &Packet| matches!(packet, Packet::Recovery(Recovery { word, .. }) if wanted(word));
    world.pair.packets(who, is)
}

fn puts(world: &World, who: usize) -> usize {
    world.pair.packets(who, |packet| matches!(packet, Packet::Put(_)))
}

/// Places that were kept for own operations filled the queue that others' operations needed
/// too, so two processes waited for each other.
#[test]
fn a_queue_for_own_and_for_others_operations_never_stops() {
    for scheme in SCHEMES {
        let mut refused = 0;
        for queue in 1..5 {
            let (limits, mode) = (limits(scheme), Mode::default());
            let mut world = World::with_queues(3, 2, [queue, 0], true, limits, mode, 40);
            for nth in 0..40 {
                let kind = KINDS[nth % KINDS.len()];
                world.issue((0, 1, 0), kind);
                world.issue((1, 0, 0), kind);
                world.issue((2, 0, 0), kind);
                world.issue((1, 1, (nth % 2) as u8), kind);
            }
            world.finish();
            world.assert_done();
            refused += world.refused();
        }
        assert!(refused > 20, "{scheme:?}: {refused}");
    }
}

/// What the program appends itself is told of where others' operations fill the queue.
#[test]
fn a_full_queue_has_a_place_for_what_is_appended() {
    let mut world = World::new(2, 1, 2, Scheme::Resume, Mode::default(), 20);
    for _ in 0..20 {
        world.issue((0, 1, 0), Kind::Put);
    }
    world.pair.settle();
    let memory = world.pair.alloc(1, &[0; 8]);
    let eq = world.queue_of(1, 0);
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    let options = MeOptions { event_link_disable: false, ..open() };
    let spec = sluice_portals::MeSpec { options, ..entry(memory, 99, open(), 77) };
    ni.me_append(port, FIRST, List::Priority, spec).unwrap();
    let mut kinds = Vec::new();
    loop {
        match ni.eq_take(eq) {
            EqTaken::Empty => break,
            EqTaken::Event(event) => kinds.push(event.kind),
            EqTaken::EventAfterDrop(event) => panic!("an event was lost before {event:?}"),
        }
    }
    assert_eq!(kinds, [EventKind::Put, EventKind::Put, EventKind::Link]);
}

/// An operation that failed before it was sent, among those that the target then refuses, is
/// told once, and the initiator does not give the target up for it.
#[test]
fn what_fails_by_itself_behind_a_refusal_is_told_once() {
    for ack in [Some(AckKind::Full), None] {
        for faulty in 0..4 {
            let mut world = World::new(2, 1, 100, Scheme::Resume, Mode::default(), 10);
            world.pair.sides[1].ni.pt_disable(FIRST).unwrap();
            let sources: Vec<Region> =
                (0..4).map(|nth| world.pair.alloc(0, &pattern(8, nth))).collect();
            world.pair.sides[0].port.unmap(sources[faulty]);
            for (nth, &source) in sources.iter().enumerate() {
                let from = world.pair.local(0, source);
                let target =
                    Target { pt_index: FIRST, ..target(1, 0, nth as u64 * recovery::STRIDE) };
                let user_ptr = nth as u64;
                let put = Command::Put { from, ack, target, hdr_data: 0, user_ptr };
                world.pair.issue(0, &put).unwrap();
            }
            world.finish_without_judging();
            assert_eq!(world.pair.sides[0].ni.status().protocol_violations, 0);
            let Side { ni, port, .. } = &mut world.pair.sides[1];
            ni.pt_enable(port, FIRST).unwrap();
            world.finish_without_judging();
            for nth in 0..4 {
                let way = (0, 1, 0);
                let bytes = world.bytes_from(way, nth as u64 * recovery::STRIDE, 8);
                let wanted =
                    if nth == faulty { vec![recovery::BEFORE; 8] } else { pattern(8, nth) };
                assert_eq!(bytes, wanted, "{nth} of {faulty}");
            }
            let told = world.pair.events(0);
            let each = if ack.is_some() { 2 } else { 1 };
            assert_eq!(told.len(), 4 * each);
            for event in told {
                let failed = event.user_ptr == faulty as u64;
                assert_eq!(event.outcome, if failed { Err(NiFail::Segv) } else { Ok(()) });
            }
            world.pair.assert_quiet();
            assert_eq!(world.pair.sides[0].ni.kept_now(), 0);
        }
    }
}

/// An entry whose queue is shorter than what one operation causes takes it when the queue is
/// empty, instead of refusing and resuming it for ever.
#[test]
fn an_operation_that_needs_more_than_the_queue_has_is_taken() {
    for queue in 1..4 {
        let mut world = World::new(2, 1, 100, Scheme::Resume, Mode::default(), 10);
        let pt = PtIndex(20);
        let memory = world.pair.alloc(1, &[0; 64]);
        let Side { ni, port, .. } = &mut world.pair.sides[1];
        let eq = ni.eq_alloc(queue).unwrap();
        ni.pt_alloc(pt, PtOptions { flow_control: true, disabled: false }, Some(eq)).unwrap();
        // Used once, and in the overflow list without headers: three events each.
        let options = MeOptions { use_once: true, unexpected_hdr_disable: true, ..open() };
        for _ in 0..6 {
            let region = Region { len: 8, ..memory };
            ni.me_append(port, pt, List::Overflow, entry(region, 0, options, 5)).unwrap();
        }
        for nth in 0..6 {
            let source = world.pair.alloc(0, &pattern(8, nth));
            let from = world.pair.local(0, source);
            let target = Target { pt_index: pt, ..target(1, 0, 0) };
            let ack = Some(AckKind::Full);
            let put = Command::Put { from, ack, target, hdr_data: 0, user_ptr: 0 };
            world.pair.issue(0, &put).unwrap();
        }
        let mut told = Vec::new();
        for _ in 0..200 {
            world.pair.settle();
            match world.pair.sides[1].ni.eq_take(eq) {
                EqTaken::Empty => {}
                EqTaken::Event(event) => told.push(event.kind),
                EqTaken::EventAfterDrop(event) => panic!("an event was lost before {event:?}"),
            }
        }
        use EventKind::{AutoFree, AutoUnlink, Put};
        let count = |wanted| told.iter().filter(|&&kind| kind == wanted).count();
        assert_eq!((count(Put), count(AutoUnlink), count(AutoFree)), (6, 6, 6), "queue of {queue}");
        world.pair.assert_quiet();
    }
}

/// The memory of an operation is not told free while the rail still reads it for the first,
/// refused sending; and the operation does not go again before.
#[test]
fn what_was_refused_goes_again_when_the_rail_is_done_with_it() {
    let mode = Mode { pending_percent: 100, ..Mode::default() };
    for kind in [Kind::Put, Kind::PutNoAck, Kind::Sum, Kind::Fetch] {
        let mut world = World::new(2, 1, 100, Scheme::Resume, mode, 10);
        world.pair.sides[1].ni.pt_disable(FIRST).unwrap();
        world.issue((0, 1, 0), kind);
        let sent = |world: &World| {
            world.pair.packets(0, |packet| matches!(packet, Packet::Put(_) | Packet::Atomic(_)))
        };
        all_but_reports(&mut world);
        assert_eq!((sent(&world), world.pair.sides[1].ni.refused_now()), (1, 1), "{kind:?}");
        let Side { ni, port, .. } = &mut world.pair.sides[1];
        ni.pt_enable(port, FIRST).unwrap();
        for _ in 0..10 {
            all_but_reports(&mut world);
            world.idle(0);
            world.idle(1);
        }
        assert_eq!(sent(&world), 1, "{kind:?}: it is still with the rail");
        assert_eq!(world.count_origin(0), 0);
        world.finish();
        assert_eq!(sent(&world), 2, "{kind:?}");
        world.assert_done();
    }
}

/// Everything happens but that the rail says it is done.
fn all_but_reports(world: &mut World) {
    let is_report = |event: &NetEvent| matches!(event, NetEvent::Transmitted(..));
    while let Some(event) = world.net_events().into_iter().find(|event| !is_report(event)) {
        world.happen(event);
    }
}

/// The target has told that it took a put, and dies before the rail says that it is done with
/// the put's memory: it was told as failed.
#[test]
fn what_was_taken_was_sent_though_its_target_dies_before_the_rail_says_so() {
    let mode = Mode { pending_percent: 100, ..Mode::default() };
    for is_told in [true, false] {
        let mut world = World::new(2, 1, 100, Scheme::Resume, mode, 10);
        world.issue((0, 1, 0), Kind::PutNoAck);
        for _ in 0..20 {
            if is_told {
                all_but_reports(&mut world);
                world.idle(0);
                world.idle(1);
            }
        }
        let told = words(&world, 1, |word| *word == Word::Told);
        assert_eq!(told, usize::from(is_told));
        world.pair.kill(1);
        while let Some(&event) = world.net_events().first() {
            world.pair.happen(event);
        }
        world.idle(0);
        let ends = world.origin_ends(0);
        assert!(
            matches!(&ends[..], [(EventKind::Send, end)] if end.is_ok() == is_told),
            "{ends:?}"
        );
    }
}

/// An entry that the program disables during a pause for it holds nobody up at others.
#[test]
fn a_pause_ends_when_the_program_disables_its_entry() {
    let mut world = World::new(3, 2, 2, Scheme::Pause, Mode::default(), 20);
    world.issue((2, 1, 1), Kind::Put);
    world.finish();
    for _ in 0..10 {
        world.issue((0, 1, 0), Kind::Put);
    }
    while words(&world, 1, |word| *word == Word::Pause) == 0 {
        let event = world.net_events()[0];
        world.happen(event);
    }
    // The pauses arrive, their answers do not yet.
    for _ in 0..20 {
        let to_others = |event: &NetEvent| matches!(event, NetEvent::Deliver(1, _));
        match world.net_events().into_iter().find(to_others) {
            Some(event) => world.happen(event),
            None => break,
        }
    }
    let Side { ni, .. } = &mut world.pair.sides[1];
    ni.pt_disable(FIRST).unwrap();
    assert!(ni.wants_attention(), "somebody is to be told");
    world.issue((2, 1, 1), Kind::Put);
    world.finish();
    assert_eq!(world.done[&(2, 1, 1)], 2);
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    ni.pt_enable(port, FIRST).unwrap();
    world.finish();
    world.assert_done();
}

/// A flow that is held fills its share of the log and of what waits, and no more: the
/// program is told that there is no space on that peer, and others go on.
#[test]
fn a_flow_that_is_held_leaves_room_for_others() {
    let limits = Limits { operations_max: 64, ..limits(Scheme::Resume) };
    let mut world = World::with_limits(3, 1, [500, 500], limits, Mode::default(), 200);
    world.pair.sides[1].ni.pt_disable(FIRST).unwrap();
    let mut issued = 0;
    loop {
        let command = world.command((0, 1, 0), Kind::Put);
        match world.pair.issue(0, &command) {
            Ok(()) => issued += 1,
            Err(error) => {
                assert!(matches!(error, PtlError::NoSpace(_)));
                world.issued.get_mut(&(0, 1, 0)).unwrap().pop();
                break;
            }
        }
        world.pair.settle();
        assert!(issued < 200, "one peer has all");
    }
    assert!(issued >= 40, "{issued}");
    assert!(world.pair.sides[0].ni.kept_now() <= 32);
    for _ in 0..100 {
        world.issue((0, 2, 0), Kind::Put);
        world.pair.settle();
        world.drain_origin(0, 10);
    }
    assert_eq!(world.done.get(&(0, 2, 0)), None, "not looked at yet");
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    ni.pt_enable(port, FIRST).unwrap();
    world.finish();
    world.assert_done();
}

/// Very many flows are held, each of which goes on issuing: one that runs still finds room.
#[test]
fn many_held_flows_leave_room_for_one_that_runs() {
    const HELD: u8 = 30;
    let limits = Limits { operations_max: 256, ..limits(Scheme::Resume) };
    let mut world = World::with_limits(2, HELD + 1, [500, 500], limits, Mode::default(), 100);
    for entry in 0..HELD {
        world.pair.sides[1].ni.pt_disable(PtIndex(FIRST.0 + entry)).unwrap();
        world.issue((0, 1, entry), Kind::Put);
        world.pair.settle();
    }
    // What the first flows would have had of the log by half of what is left each.
    for entry in (0..HELD).rev() {
        for _ in 0..20 {
            let command = world.command((0, 1, entry), Kind::Put);
            if world.pair.sides[0].ni.waiting_now() == 0 {
                world.pair.issue(0, &command).unwrap();
            } else {
                world.issued.get_mut(&(0, 1, entry)).unwrap().pop();
            }
        }
    }
    world.pair.settle();
    let held = world.pair.sides[0].ni.kept_now();
    assert!((128..=128 + usize::from(HELD)).contains(&held), "{held}");
    for entry in 0..HELD {
        let Side { ni, port, .. } = &mut world.pair.sides[1];
        ni.pt_enable(port, PtIndex(FIRST.0 + entry)).unwrap();
    }
    world.finish();
    world.assert_done();
}

/// How many are resumed at once depends on what each may have on its way to the entry, and
/// not on what the process may send to them.
#[test]
fn as_many_are_resumed_as_the_entry_has_granted_places_to() {
    const INITIATORS: usize = 8;
    let processes = INITIATORS as u16 + 1;
    let wide = Layout::divide(processes, 1 << 14).expect("they fit");
    let narrow = wide.within(8 * u32::from(processes)).expect("they fit");
    let mut layouts = vec![wide; INITIATORS];
    layouts.push(narrow);
    let limits = limits(Scheme::Resume);
    let mut world =
        World::with_layouts(&layouts, 1, [64, 1000], false, limits, Mode::default(), 10);
    world.pair.sides[INITIATORS].ni.pt_disable(FIRST).unwrap();
    for who in 0..INITIATORS {
        world.issue((who, INITIATORS, 0), Kind::Put);
    }
    world.pair.settle();
    let Side { ni, port, .. } = &mut world.pair.sides[INITIATORS];
    ni.pt_enable(port, FIRST).unwrap();
    let resumed = words(&world, INITIATORS, |word| matches!(word, Word::Resume { .. }));
    assert_eq!(resumed, INITIATORS, "64 places hold what eight may have on their way");
    world.finish();
    world.assert_done();
}

/// An operation that is held keeps no place in the queue that others have too.
#[test]
fn what_is_held_keeps_no_place_in_a_queue() {
    let mut world = World::with_limits(3, 1, [500, 2], limits(Scheme::Resume), Mode::default(), 50);
    world.pair.sides[1].ni.pt_disable(FIRST).unwrap();
    for _ in 0..20 {
        world.issue((0, 1, 0), Kind::Put);
        world.pair.settle();
    }
    for _ in 0..20 {
        world.issue((0, 2, 0), Kind::Put);
        world.pair.settle();
        assert_eq!(world.drain_origin(0, 2), 2, "it is told");
    }
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    ni.pt_enable(port, FIRST).unwrap();
    world.finish();
    world.assert_done();
}

/// Copies of volatile memory go back before the process is idle.
#[test]
fn copies_go_back_while_a_process_is_busy() {
    let mut world = World::new(2, 1, 500, Scheme::Resume, Mode::default(), 500);
    let Side { ni, eq, port, .. } = &mut world.pair.sides[0];
    let whole = Region { addr: Addr(0), len: u64::MAX };
    let volatile = MdOptions { volatile: true, ..MdOptions::default() };
    let md = ni.md_bind(whole, None, Some(*eq), None, volatile).unwrap();
    let region = port.alloc(&[7; 8]);
    let from = Local { md, offset: region.addr.0, length: 8 };
    let target = Target { pt_index: FIRST, ..target(1, 0, 0) };
    for _ in 0..200 {
        let ack = Some(AckKind::Full);
        let put = Command::Put { from, ack, target, hdr_data: 0, user_ptr: 0 };
        world.pair.issue(0, &put).unwrap();
        world.pair.run();
        let (lent, _) = world.pair.sides[0].port.net().lent(0);
        assert!(lent <= 2, "{lent} copies are kept");
    }
}

/// The death of an initiator that was refused, or that a pause waits for, holds nobody up.
#[test]
fn the_death_of_an_initiator_holds_nobody_up() {
    for scheme in SCHEMES {
        for steps in 0..60 {
            let mut world = World::new(4, 1, 2, scheme, Mode::default(), 20);
            for _ in 0..10 {
                for from in [0, 2, 3] {
                    world.issue((from, 1, 0), Kind::Put);
                }
            }
            for _ in 0..steps {
                if let Some(&event) = world.net_events().first() {
                    world.happen(event);
                }
                if steps % 3 == 0 {
                    world.drain_entry(1, 0, 1);
                    world.idle(1);
                }
            }
            world.pair.kill(0);
            world.finish_of(&[1, 2, 3]);
            assert_eq!((world.done[&(2, 1, 0)], world.done[&(3, 1, 0)]), (10, 10), "{scheme:?}");
            assert_eq!(world.pair.sides[1].ni.refused_now(), 0);
        }
    }
}

/// Two are refused at an entry that the program has disabled. Once it is enabled neither
/// matches anything, and their turns do not go round for ever.
#[test]
fn who_matches_nothing_is_not_resumed_in_turn() {
    let mut world = World::new(3, 1, 100, Scheme::Resume, Mode::default(), 10);
    let pt = PtIndex(20);
    let Side { ni, .. } = &mut world.pair.sides[1];
    let eq = ni.eq_alloc(4).unwrap();
    ni.pt_alloc(pt, PtOptions { flow_control: true, disabled: false }, Some(eq)).unwrap();
    ni.pt_disable(pt).unwrap();
    for who in [0, 2] {
        let source = world.pair.alloc(who, &[5; 8]);
        let from = world.pair.local(who, source);
        let target = Target { pt_index: pt, ..target(1, 7, 0) };
        let ack = Some(AckKind::Full);
        let put = Command::Put { from, ack, target, hdr_data: 0, user_ptr: 0 };
        world.pair.issue(who, &put).unwrap();
    }
    world.pair.settle();
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    ni.pt_enable(port, pt).unwrap();
    world.pair.settle();
    let sent = puts(&world, 0) + puts(&world, 2);
    for _ in 0..20 {
        for side in &mut world.pair.sides {
            side.ni.on_idle(&mut side.port);
        }
        world.pair.settle();
    }
    assert_eq!(puts(&world, 0) + puts(&world, 2), sent, "nothing goes again without a match");
    let memory = world.pair.alloc(1, &[0; 8]);
    let Side { ni, port, .. } = &mut world.pair.sides[1];
    ni.me_append(port, pt, List::Priority, entry(memory, 7, open(), 1)).unwrap();
    world.pair.settle();
    let mut told = 0;
    while let EqTaken::Event(event) = world.pair.sides[1].ni.eq_take(eq) {
        told += u32::from(event.kind == EventKind::Put);
        world.pair.settle();
    }
    assert_eq!(told, 2);
}

/// Entries that take one operation each, appended as the program goes on: what matches none
/// waits, and none is lost.
#[test]
fn entries_that_are_used_once_may_come_late() {
    for scheme in SCHEMES {
        let mut world = World::new(3, 1, 100, scheme, Mode::default(), 10);
        let pt = PtIndex(20);
        let Side { ni, .. } = &mut world.pair.sides[1];
        let eq = ni.eq_alloc(4).unwrap();
        ni.pt_alloc(pt, PtOptions { flow_control: true, disabled: false }, Some(eq)).unwrap();
        for nth in 0..30_u8 {
            for who in [0, 2] {
                let source = world.pair.alloc(who, &[nth; 8]);
                let from = world.pair.local(who, source);
                let target = Target { pt_index: pt, ..target(1, 7, 0) };
                let ack = Some(AckKind::Full);
                let hdr_data = u64::from(nth);
                let put = Command::Put { from, ack, target, hdr_data, user_ptr: hdr_data };
                world.pair.issue(who, &put).unwrap();
            }
        }
        let (mut next, mut told, mut unlinked) = ([0, 0, 0], 0, 0);
        let memory = world.pair.alloc(1, &[0; 8]);
        for _ in 0..400 {
            world.pair.settle();
            let Side { ni, port, .. } = &mut world.pair.sides[1];
            let options = MeOptions { use_once: true, ..open() };
            if told == unlinked && told < 60 {
                let is_awaited = ni.refused_now() > 0;
                ni.me_append(port, pt, List::Priority, entry(memory, 7, options, 1)).unwrap();
                assert_eq!(ni.wants_attention(), is_awaited);
            }
            while let EqTaken::Event(event) = ni.eq_take(eq) {
                match event.kind {
                    EventKind::Put => {
                        let from = event.peer.index();
                        assert_eq!(event.hdr_data, next[from], "in order, once");
                        next[from] += 1;
                        told += 1;
                    }
                    EventKind::AutoUnlink => unlinked += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!((next, unlinked), ([30, 0, 30], 60), "{scheme:?}");
        world.pair.assert_quiet();
        assert!(puts(&world, 0) > 30, "some were refused");
    }
}
