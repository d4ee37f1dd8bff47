//! Counters, what they trigger, acknowledgements, and flow control.

use super::{PT, Stage, World, entry};
use crate::pair::{open, pattern, program_limits};
use sluice_portals::{
    Command, CtEvent, EventKind, Limits, List, Local, MdOptions, MeOptions, MeSpec, NiFail,
};
use sluice_wire::AckKind;

use EventKind::{Ack, PtDisabled, Put};

const DISABLED: (u64, Result<(), NiFail>) = (0, Err(NiFail::PtDisabled));

fn by(success: u64) -> CtEvent {
    CtEvent { success, failure: 0 }
}

pub fn counters_count_what_was_asked_for<W: World>(setting: W::Setting) {
    let none = MdOptions::default();
    for (len, mlength) in [(40, 30), (3000, 2000)] {
        for (options, expected) in [
            (none, 0),
            (MdOptions { ct_send: true, ..none }, 1),
            (MdOptions { ct_ack: true, ct_reply: true, ..none }, 2),
            (MdOptions { ct_send: true, ct_bytes: true, ..none }, len),
            (MdOptions { ct_ack: true, ct_bytes: true, ..none }, mlength),
        ] {
            let mut stage = Stage::<W>::open(setting, 2);
            let memory = stage.room(1, mlength);
            let counting = MeOptions { ct_comm: true, ct_bytes: true, ..open() };
            let spec = crate::pair::entry(memory, 7, counting, 1);
            let ct = Some(stage.ct_handle(1));
            stage.post(1, MeSpec { ct, ..spec });
            let md = stage.md(0, options);
            let region = stage.room(0, len);
            let local = Local { md, offset: region.addr.0, length: len };
            let target = stage.target(0, 1, 7, 0);
            let (ack, hdr_data, user_ptr) = (Some(AckKind::Full), 0, 1);
            let put = Command::Put { from: local, ack, target, hdr_data, user_ptr };
            stage.issue(0, &put).unwrap();
            stage.settle();
            stage.issue(0, &Command::Get { into: local, target, user_ptr }).unwrap();
            stage.settle();
            assert_eq!(stage.ct(0), (expected, 0), "{options:?}");
            assert_eq!(stage.ct(1), (2 * mlength, 0));
            stage.assert_quiet();
        }
    }
}

pub fn a_chain_of_triggers_goes_round<W: World>(setting: W::Setting) {
    const ROUNDS: u64 = 10;
    for len in [8, 3000] {
        let mut stage = Stage::<W>::open(setting, 3);
        let counting = MeOptions { ct_comm: true, ..open() };
        let memory = [0, 1, 2].map(|who| stage.room(who, len));
        for (who, &region) in memory.iter().enumerate() {
            let ct = stage.ct_handle(who);
            let spec = crate::pair::entry(region, 7, counting, 1);
            stage.post(who, MeSpec { ct: Some(ct), ..spec });
            // What has come is passed on; the last that comes to 0 stays.
            for round in 1..=ROUNDS {
                if (who, round) == (0, ROUNDS) {
                    continue;
                }
                let from = stage.local(who, region);
                let target = stage.target(who, (who + 1) % 3, 7, 0);
                let (ack, hdr_data, user_ptr) = (None, round, 1);
                let put = Command::Put { from, ack, target, hdr_data, user_ptr };
                stage.trigger(who, put, ct, round);
            }
        }
        stage.settle();
        assert_eq!((0..3).map(|who| stage.events(who).len()).sum::<usize>(), 0);
        let start = stage.alloc(0, &pattern(len as usize, 3));
        stage.put_at(0, 1, 7, 0, start, None);
        stage.settle();
        for (who, &region) in memory.iter().enumerate() {
            assert_eq!(stage.ct(who), (ROUNDS, 0));
            assert_eq!(stage.received(who), [(Put, len, Ok(())); ROUNDS as usize]);
            assert!(stage.bytes(who, region) == pattern(len as usize, 3));
        }
        stage.assert_quiet();
    }
}

pub fn cancelled_triggers_do_nothing<W: World>(setting: W::Setting) {
    let mut stage = Stage::<W>::open(setting, 2);
    let memory = stage.room(1, 64);
    stage.post(1, entry(memory, 7, 1));
    let ct = stage.ct_handle(0);
    let source = stage.alloc(0, &pattern(64, 1));
    let from = stage.local(0, source);
    let target = stage.target(0, 1, 7, 0);
    let put = |hdr_data| Command::Put { from, ack: None, target, hdr_data, user_ptr: 1 };
    // The last is a get that was guessed wrongly.
    stage.trigger(0, put(1), ct, 1);
    stage.trigger(0, Command::Get { into: from, target, user_ptr: 2 }, ct, 1);
    stage.ni(0).ct_cancel_triggered(ct).unwrap();
    stage.issue(0, &Command::CtInc { ct, by: by(5) }).unwrap();
    stage.settle();
    assert_eq!((stage.sent(0), stage.received(1)), (vec![], vec![]));
    // The counter goes on; equal thresholds keep their order.
    for hdr_data in 2..6 {
        stage.trigger(0, put(hdr_data), ct, 6);
    }
    stage.issue(0, &Command::CtInc { ct, by: by(1) }).unwrap();
    stage.settle();
    let arrived: Vec<_> = stage.events(1).iter().map(|event| event.hdr_data).collect();
    assert_eq!(arrived, [2, 3, 4, 5]);
    stage.assert_quiet();
}

pub fn each_kind_of_acknowledgement<W: World>(setting: W::Setting) {
    for len in [20, 2000] {
        // Events and counts if it lands, and if nothing matches.
        for (ack, landed, dropped) in [
            (None, (0, (0, 0)), (0, (0, 0))),
            (Some(AckKind::Full), (1, (1, 0)), (1, (0, 1))),
            (Some(AckKind::Count), (0, (1, 0)), (0, (0, 1))),
            (Some(AckKind::OperationCompleted), (0, (1, 0)), (0, (1, 0))),
        ] {
            for (bits, expected) in [(7, landed), (8, dropped)] {
                let mut stage = Stage::<W>::open(setting, 2);
                let memory = stage.room(1, len);
                stage.post(1, entry(memory, 7, 1));
                let md = stage.md(0, MdOptions { ct_ack: true, ..MdOptions::default() });
                let region = stage.room(0, len);
                let from = Local { md, offset: region.addr.0, length: len };
                let target = stage.target(0, 1, bits, 0);
                let put = Command::Put { from, ack, target, hdr_data: 0, user_ptr: 1 };
                stage.issue(0, &put).unwrap();
                stage.settle();
                let acks = stage.sent(0).iter().filter(|event| event.0 == Ack).count();
                assert_eq!((acks, stage.ct(0)), expected, "{ack:?} {bits}");
                stage.ni(0).md_release(md).expect("it is over in any case");
                stage.assert_quiet();
            }
        }
    }
}

pub fn flow_control_disables_until_enabled<W: World>(setting: W::Setting) {
    for len in [20, 2000] {
        let mut stage = Stage::<W>::open(setting, 3);
        stage.control(1, 100);
        for _ in 0..2 {
            for from in [0, 2] {
                stage.put(from, 1, 7, &pattern(len, 1));
                stage.settle();
                assert_eq!(stage.outcome_of(from, Ack), DISABLED);
            }
        }
        let told = stage.received(1);
        assert_eq!((told.len(), told[0].0), (1, PtDisabled), "once");
        let memory = stage.room(1, len as u64);
        stage.post(1, entry(memory, 7, 1));
        stage.get(0, 1, 7, 0, len as u64);
        stage.settle();
        assert_eq!(stage.outcome_of(0, EventKind::Reply), DISABLED, "whatever would match");
        stage.enable(1);
        stage.put(0, 1, 7, &pattern(len, 2));
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack), (len as u64, Ok(())));
        assert_eq!(stage.received(1), [(Put, len as u64, Ok(()))]);
        assert!(stage.bytes(1, memory) == pattern(len, 2));
        stage.ni(1).pt_disable(PT).unwrap();
        stage.put(2, 1, 7, &pattern(len, 3));
        stage.settle();
        assert_eq!(stage.outcome_of(2, Ack), DISABLED);
        assert_eq!(stage.received(1), [], "who disables it knows");
        stage.assert_quiet();
    }
}

pub fn too_many_headers_disable<W: World>(setting: W::Setting) {
    for len in [20, 2000] {
        let limits = Limits { unexpected_headers_max: 2, ..program_limits() };
        let mut stage = Stage::<W>::with_limits(setting, 2, limits);
        stage.control(1, 100);
        let memory = stage.room(1, 10 * len);
        let managed = MeOptions { manage_local: true, ..open() };
        stage.append(1, List::Overflow, crate::pair::entry(memory, 7, managed, 1));
        let mut acks = Vec::new();
        for number in 0..4 {
            stage.put(0, 1, 7, &pattern(len as usize, number));
            stage.settle();
            acks.push(stage.outcome_of(0, Ack));
        }
        assert_eq!(acks, [(len, Ok(())), (len, Ok(())), DISABLED, DISABLED]);
        let told: Vec<_> = stage.received(1).iter().map(|event| event.0).collect();
        assert_eq!(told, [Put, Put, PtDisabled]);
        stage.post(1, entry(memory, 7, 2));
        stage.enable(1);
        stage.put(0, 1, 7, &pattern(len as usize, 9));
        stage.settle();
        assert_eq!(stage.outcome_of(0, Ack), (len, Ok(())));
        assert_eq!(stage.received(1).len(), 3, "two early ones, and this");
        stage.assert_quiet();
    }
}

pub fn a_full_queue_disables<W: World>(setting: W::Setting) {
    for len in [20, 2000] {
        let mut stage = Stage::<W>::open(setting, 2);
        stage.control(1, 3);
        let memory = stage.room(1, len);
        stage.post(1, entry(memory, 7, 1));
        // All at once: places are kept for what is on its way.
        for number in 0..8 {
            stage.put(0, 1, 7, &pattern(len as usize, number));
        }
        stage.settle();
        let acks: Vec<_> = stage.sent(0).into_iter().filter(|event| event.0 == Ack).collect();
        assert_eq!(acks.iter().filter(|ack| ack.2.is_ok()).count(), 3);
        assert_eq!(acks.iter().filter(|ack| ack.2 == DISABLED.1).count(), 5);
        let told: Vec<_> = stage.received(1).iter().map(|event| event.0).collect();
        assert_eq!(told, [Put, Put, Put, PtDisabled]);
        stage.enable(1);
        stage.put(0, 1, 7, &pattern(len as usize, 9));
        stage.settle();
        assert_eq!(stage.received(1), [(Put, len, Ok(()))]);
        stage.assert_quiet();
    }
}
