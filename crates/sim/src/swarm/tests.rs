//! Few seeds, and wrong things that the checkers must not miss.

use super::books::Books;
use super::events::Turn;
use super::judge::Judge;
use super::matcher::{Matcher, Message, Wanted};
use super::setup::Setup;
use super::trace::What;
use super::world::World;
use super::{Coverage, FaultCounts, Trace, run};
use crate::rails::RailsSetup;
use sluice_link::{PeerError, Rights};
use sluice_proto::{Completion, Failure, Kind, Recv, Send, Space};
use sluice_wire::{Addr, Credits, Packet, PacketSeq, PeerId, PtIndex, Region};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn the_first_seeds_run_and_run_again_alike() {
    for seed in 0..60 {
        let first = run(seed, &mut Trace::tail());
        assert_eq!(run(seed, &mut Trace::whole()), first, "seed {seed}");
    }
}

#[test]
fn some_of_the_first_seeds_have_deaths_and_late_reads() {
    let [mut deaths, mut late, mut both] = [0; 3];
    for seed in 0..400 {
        let setup = Setup::draw(seed);
        if setup.death.is_none() && !setup.is_late {
            continue;
        }
        let mut trace = Trace::whole();
        run(seed, &mut trace);
        let died = trace.holds(|what| matches!(what, What::Dies));
        let is_late = trace.holds(|what| matches!(what, What::Transmitted(_)));
        deaths += u64::from(died);
        late += u64::from(is_late);
        both += u64::from(died && is_late);
    }
    assert!(deaths > 10 && late > 15 && both > 0, "{deaths}, {late}, {both}");
}

#[test]
fn some_of_the_first_seeds_announce_receives_and_share_transfers() {
    let [mut announced, mut used, mut shared] = [0; 3];
    for seed in (0..200).filter(|&seed| Setup::draw(seed).chunk_claims.is_some()) {
        let mut trace = Trace::whole();
        run(seed, &mut trace);
        let is_sent = |wanted: fn(&Packet) -> bool| {
            trace.holds(
                |what| matches!(what, What::Transmits(_, parsed, _) if wanted(&parsed.packet)),
            )
        };
        announced += u64::from(is_sent(|packet| matches!(packet, Packet::Rtr(_))));
        shared +=
            u64::from(is_sent(|packet| matches!(packet, Packet::Cts(cts) if cts.claims.is_some())));
        used += u64::from(is_sent(
            |packet| matches!(packet, Packet::Put(put) if put.rts.is_some_and(|rts| rts.claims.is_some())),
        ));
    }
    assert!(announced > 50 && shared > 20 && used > 20, "{announced}, {shared}, {used}");
}

#[test]
fn the_first_seeds_meet_every_fault_of_rails_and_what_comes_of_it() {
    let seeds = (0..600).filter(|&seed| is_apart(seed));
    let summaries = seeds.map(|seed| run(seed, &mut Trace::tail()));
    let (mut faults, mut met) = (FaultCounts::default(), Coverage::default());
    for summary in summaries {
        (faults, met) = (faults + summary.faults, met + summary.coverage);
    }
    assert!(faults.iter().all(|(_, worlds)| worlds > 0), "{faults:?}");
    let met = [
        met.several_hosts,
        met.duplicates_dropped,
        met.late_bytes_dropped,
        met.streams_moved,
        met.crossed_calls,
        met.remote_writes,
        met.keys_refused,
        met.peers_given_up,
    ];
    assert!(met.iter().all(|&worlds| worlds > 0), "{met:?}");
}

/// In this world the paper's fragments, which have no window, met sockets that take one
/// frame a round trip: each suspicion asked for more than passed until the next.
#[test]
fn fragments_are_drawn_with_sockets_that_take_all_asks() {
    run(192_530, &mut Trace::tail());
}

/// In this world a frame came twice behind one that was lost, and the gap was forgotten: the
/// stream went on without the packet.
#[test]
fn a_gap_in_a_connection_stays_when_another_frame_goes_wrong() {
    run(30_957, &mut Trace::tail());
}

#[test]
fn where_interfaces_match_no_process_does() {
    let [mut worlds, mut far, mut deaths, mut full, mut crowded, mut exceeded] = [0; 6];
    for seed in (0..800).filter(|&seed| Setup::draw(seed).nics.is_some()) {
        let mut trace = Trace::whole();
        let summary = run(seed, &mut trace);
        let is_sent = |wanted: fn(&Packet) -> bool| {
            trace.holds(
                |what| matches!(what, What::Transmits(_, parsed, _) if wanted(&parsed.packet)),
            )
        };
        assert!(
            !is_sent(|packet| match packet {
                Packet::Put(put) => put.pt_index <= PtIndex(1),
                other => matches!(other, Packet::Rtr(_)),
            }),
            "seed {seed} has a message that no interface matches"
        );
        let is_fetched = is_sent(|packet| matches!(packet, Packet::GetDone(_)));
        worlds += summary.coverage.matched_by_interfaces;
        full += summary.faults.count("interface_sends_exhausted");
        crowded += summary.faults.count("interface_receives_exhausted");
        exceeded += summary.coverage.interfaces_exceeded;
        far += u64::from(is_fetched) * summary.coverage.several_hosts;
        deaths += u64::from(trace.holds(|what| matches!(what, What::Dies)));
    }
    assert!(worlds > 60 && far > 15 && deaths > 2, "{worlds}, {far}, {deaths}");
    assert!(full > 20 && crowded > 20 && exceeded > 20, "{full}, {crowded}, {exceeded}");
}

/// Whether a seed has processes on several hosts.
pub(super) fn is_apart(seed: u64) -> bool {
    Setup::draw(seed).rails.host.iter().any(|host| *host > 0)
}

/// How a request on this process ends once that has.
fn gone(peer: u32) -> Result<(), Failure> {
    Err(Failure::PeerGone { peer: PeerId(peer), why: PeerError::Dead })
}

fn on_one_host() -> Setup {
    let setup = Setup::draw(1);
    let rails = RailsSetup::one_host(setup.layouts.len());
    Setup { rails, ..setup }
}

/// Process 1 ends before process 0 is told of it. What then is said of a receive
/// of process 0, of `source`, that ends as if only process 1 could fill it.
fn verdict_on_a_receive_of_the_dead(source: Option<usize>) -> bool {
    let mut trace = Trace::tail();
    let setup = Setup { death: Some((1, 0)), ..on_one_host() };
    let mut world = World::new(1, &setup, &mut trace);
    let mut judge = Judge::new(0, setup.layouts.len());
    let Turn::Died(dead) = world.next() else { panic!("the first thing that happens") };
    judge.died(dead);
    let wanted = Wanted { space: Space::Tagged, source, tag: 5, ignore: 0 };
    let buf = judge.posts(world.memory(0), 0, 1, &wanted, 32, true);
    let end = Completion {
        kind: Kind::Recv,
        space: Space::Tagged,
        context: 1,
        len: 0,
        buf: buf.addr,
        tag: 5,
        data: None,
        peer: None,
        quiet: false,
        outcome: gone(1),
    };
    catch_unwind(AssertUnwindSafe(|| judge.ended(&mut world, 0, &end, None))).is_ok()
}

#[test]
fn only_what_the_dead_alone_could_fill_may_fail() {
    assert!(verdict_on_a_receive_of_the_dead(Some(1)));
    assert!(!verdict_on_a_receive_of_the_dead(Some(0)));
    assert!(!verdict_on_a_receive_of_the_dead(None), "another process may send it");
}

/// What the judge says of one message of 20 bytes, sent to oneself, after
/// `meddle` has changed its completion or its bytes.
fn verdict_on(meddle: impl FnOnce(&mut Completion, &mut [u8])) -> Result<(), String> {
    let mut trace = Trace::tail();
    let setup = Setup { death: None, ..on_one_host() };
    let mut world = World::new(1, &setup, &mut trace);
    let mut judge = Judge::new(0, setup.layouts.len());
    let wanted = Wanted { space: Space::Tagged, source: None, tag: 5, ignore: 0 };
    let buf = judge.posts(world.memory(0), 0, 1, &wanted, 32, true);
    let (space, tag, report) = (Space::Tagged, 5, true);
    let recv = Recv { space, source: None, buf, tag, ignore: 0, context: 1, report };
    world.call(0, |endpoint, now, port| endpoint.recv(now, port, &recv)).expect("room");

    let bytes: Vec<u8> = super::judge::content(2, 20).collect();
    let source = world.memory(0).alloc(20);
    world.memory(0).write(source.addr, &bytes);
    let (peer, data) = (PeerId(0), Some(9));
    let (inject, delivery) = (false, None);
    let send = Send { space, peer, buf: source, tag, data, context: 2, report, inject, delivery };
    world.call(0, |endpoint, now, port| endpoint.send(now, port, &send)).expect("room");
    judge.sent(&mut world, 0, &send, false);

    let mut meddle = Some(meddle);
    loop {
        match world.next() {
            Turn::Woken(who) => {
                while let Some(read) = world.read(who) {
                    judge.read(who, &read);
                }
                world.idle(who);
            }
            Turn::Moved(_) | Turn::Connected(_) => {}
            Turn::Tagged { .. } => unreachable!("no interface matches"),
            Turn::Died(_) | Turn::Lost(..) => unreachable!("nobody ends"),
            Turn::Rest => break,
        }
        while let Some(mut end) = world.pop(0) {
            if end.kind == Kind::Recv
                && let Some(meddle) = meddle.take()
            {
                let mut found = world.memory(0).read(buf).to_vec();
                meddle(&mut end, &mut found);
                world.memory(0).write(buf.addr, &found);
            }
            let look = AssertUnwindSafe(|| judge.ended(&mut world, 0, &end, None));
            catch_unwind(look).map_err(|cause| match cause.downcast::<String>() {
                Ok(text) => *text,
                Err(_) => "a panic without words".to_owned(),
            })?;
        }
    }
    assert!(meddle.is_none(), "the message has come");
    Ok(())
}

#[test]
fn what_is_told_wrongly_or_altered_is_noticed() {
    assert_eq!(verdict_on(|_, _| {}), Ok(()));
    let wrong: [fn(&mut Completion, &mut [u8]); 9] = [
        |end, _| end.tag ^= 1,
        |end, _| end.len -= 1,
        |end, _| end.data = None,
        |end, _| end.peer = Some(PeerId(1)),
        |end, _| end.outcome = Err(Failure::Cancelled),
        |end, _| end.outcome = gone(0),
        |end, _| end.space = Space::Untagged,
        |_, bytes| bytes[19] ^= 1,
        |_, bytes| bytes[20] ^= 1,
    ];
    for (at, meddle) in wrong.into_iter().enumerate() {
        assert!(verdict_on(meddle).is_err(), "change {at} went unseen");
    }
}

fn message(from: usize, tag: u64) -> Message {
    Message { from, to: 0, space: Space::Tagged, tag, data: None, len: 0, content: 0 }
}

fn wanted(tag: u64) -> Wanted {
    Wanted { space: Space::Tagged, source: Some(1), tag, ignore: 0 }
}

#[test]
#[should_panic(expected = "not the oldest message")]
fn a_newer_message_may_not_be_taken_first() {
    let mut matcher = Matcher::new(2);
    matcher.send(message(1, 7));
    let newer = matcher.send(message(1, 7));
    matcher.post(0, 1, wanted(7));
    matcher.take_waiting(1, 0, newer);
}

#[test]
#[should_panic(expected = "a receive wants it")]
fn a_probe_may_not_find_what_an_older_receive_wants() {
    let mut matcher = Matcher::new(2);
    let id = matcher.send(message(1, 7));
    matcher.post(0, 1, wanted(7));
    matcher.find_waiting(1, 0, id, &wanted(7), 2);
}

#[test]
fn the_older_receive_gets_the_message() {
    let mut matcher = Matcher::new(2);
    let id = matcher.send(message(1, 7));
    matcher.post(0, 1, wanted(7));
    matcher.post(0, 2, wanted(7));
    matcher.arrive(1, 0);
    assert_eq!(matcher.matched.get(&1), Some(&id));
    assert_eq!(matcher.matched.get(&2), None);
}

#[test]
#[should_panic(expected = "data credits of 1 toward 0")]
fn a_credit_that_is_nobodys_is_noticed() {
    let mut trace = Trace::tail();
    let setup = Setup::draw(1);
    let world = World::new(1, &setup, &mut trace);
    let mut books = Books::new(setup.layouts.len());
    let credits = Credits { data: 1, control: 0 };
    let head = Packet::Credit.emit(PacketSeq(0), credits, 0);
    let packet = Packet::parse(head.bytes()).expect("it was emitted");
    books.send(0, 1, &packet);
    books.check(0, &setup.layouts, |who| world.endpoint(who).links());
}

#[test]
#[should_panic(expected = "0 has nothing pending and exposes 1")]
fn memory_that_stays_exposed_is_found_out() {
    let setup = Setup::draw(1);
    let mut trace = Trace::tail();
    let mut world = World::new(1, &setup, &mut trace);
    let region = Region { addr: Addr(64), len: 8 };
    world.exposures[0].expose(PeerId(1), region, Rights::READ);
    world.check();
}
