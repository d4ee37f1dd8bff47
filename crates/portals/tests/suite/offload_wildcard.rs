//! The same for a receive from any source, whose get cannot know whom it will
//! ask: the extension `GetFromHeader` (`docs/offload.md`).

use crate::matcher::Wanted;
use crate::pair::net::Event as NetEvent;
use crate::pair::{Side, pattern};
use crate::rendezvous::{DATA, EAGER_BYTES, Job, MESSAGES, Received, entry};
use sluice_portals::{Command, CtEvent, EventKind, List, Local, MdOptions, NiFail, PtlError};
use sluice_wire::Packet;

const RECEIVER: usize = 2;
const ANY: Wanted = Wanted { source: None, tag: None };

const fn tagged(tag: u32) -> Wanted {
    Wanted { source: None, tag: Some(tag) }
}

fn got(source: usize, tag: u32, message: &[u8]) -> Option<Received> {
    Some(Received { source, tag, len: message.len() as u64, bytes: message.to_vec() })
}

fn gets(job: &Job) -> usize {
    job.pair.packets(RECEIVER, |packet| matches!(packet, Packet::Get(_)))
}

#[test]
fn offload_a_receive_from_any_source_asks_whoever_has_sent() {
    for early in [false, true] {
        let messages = [pattern(700, 1), pattern(900, 2), pattern(40, 3)];
        let mut job = Job::new(3);
        let post =
            |job: &mut Job| [tagged(8), ANY, ANY].map(|wanted| job.receive(RECEIVER, wanted, 1000));
        let send = |job: &mut Job| {
            for (from, tag, at) in [(1, 7, 0), (0, 8, 1), (1, 8, 2)] {
                job.send(from, RECEIVER, tag, &messages[at]);
                job.happen(NetEvent::Deliver(from, RECEIVER));
            }
        };
        let receives = if early {
            send(&mut job);
            post(&mut job)
        } else {
            let receives = post(&mut job);
            send(&mut job);
            receives
        };
        job.settle();
        assert_eq!((job.calls[RECEIVER], gets(&job)), (3, 2), "the short one needs no get");
        assert_eq!(job.unfetched(), []);
        assert_eq!(job.test(receives[0]), got(0, 8, &messages[1]));
        assert_eq!(job.test(receives[1]), got(1, 7, &messages[0]));
        assert_eq!(job.test(receives[2]), got(1, 8, &messages[2]));
        job.pair.assert_quiet();
    }
}

/// Gets of receives from any source keep their place among those from a known
/// one: they are set off by the same matches.
#[test]
fn offload_receives_from_any_and_from_known_sources_share_a_sender() {
    let messages: Vec<Vec<u8>> = (0..4).map(|salt| pattern(600, salt)).collect();
    let mut job = Job::new(3);
    let known = Wanted { source: Some(0), tag: None };
    let receives = [ANY, known, tagged(1), known].map(|wanted| job.receive(RECEIVER, wanted, 600));
    for message in &messages {
        job.send(0, RECEIVER, 1, message);
    }
    job.settle();
    assert_eq!(job.calls[RECEIVER], 4);
    for (receive, message) in receives.into_iter().zip(&messages) {
        assert_eq!(job.test(receive), got(0, 1, message));
    }
    job.pair.assert_quiet();
}

/// What it replaces: software that asks for the message when it looks. By then a
/// younger message of the same tag may have been fetched in its place.
#[test]
fn offload_fails_if_a_receive_from_any_source_fetches_late() {
    let messages = [pattern(500, 1), pattern(500, 2)];
    let mut job = Job::new(3);
    let first = job.prepare(RECEIVER, ANY, 500);
    let spec = entry(first, ANY, job.receives[first].region, None);
    let Side { ni, port, .. } = &mut job.pair.sides[RECEIVER];
    ni.me_append(port, MESSAGES, List::Priority, spec).unwrap();
    let known = Wanted { source: Some(0), tag: Some(1) };
    let second = job.receive(RECEIVER, known, 500);
    for message in &messages {
        job.send(0, RECEIVER, 1, message);
    }
    job.settle();
    assert_eq!(job.test(first), None, "its header is there");
    job.fetch(first);
    job.settle();
    let rest = EAGER_BYTES as usize + 1;
    assert_eq!(job.memory(first)[rest..], messages[1][rest..], "not its own");
    assert_eq!(job.memory(second)[rest..], messages[0][rest..], "not its own");
}

#[test]
fn offload_a_get_from_a_header_waits_for_a_counter_that_has_one() {
    let mut job = Job::new(2);
    let Side { ni, port, eq, md, .. } = &mut job.pair.sides[1];
    let region = port.alloc(&[0; 8]);
    let into = Local { md: *md, offset: region.addr.0, length: 8 };
    let get = Command::GetFromHeader { into, pt_index: DATA, remote_offset: 0, user_ptr: 5 };
    let alone = Err(PtlError::ArgInvalid("only a counter knows a header"));
    assert_eq!(ni.issue(port, &get), alone);
    let ct = ni.ct_alloc().unwrap();
    ni.trigger(port, get, ct, 1).unwrap();
    // A count that no message has made.
    let by = CtEvent { success: 1, failure: 0 };
    ni.issue(port, &Command::CtInc { ct, by }).unwrap();
    let sluice_portals::EqTaken::Event(event) = ni.eq_take(*eq) else { panic!("no event") };
    assert_eq!((event.kind, event.user_ptr), (EventKind::Reply, 5));
    assert_eq!((event.outcome, event.peer), (Err(NiFail::NoMatch), sluice_portals::NOBODY));
    // Beyond its memory, or beyond the portal table, it is wrong at once.
    let short = ni.md_bind(region, None, Some(*eq), None, MdOptions::default()).unwrap();
    let beyond = Local { md: short, offset: 0, length: 9 };
    let wrong =
        Command::GetFromHeader { into: beyond, pt_index: DATA, remote_offset: 0, user_ptr: 5 };
    assert!(matches!(ni.trigger(port, wrong, ct, 9), Err(PtlError::ArgInvalid(_))));
    let nowhere = sluice_wire::PtIndex(200);
    let wrong = Command::GetFromHeader { into, pt_index: nowhere, remote_offset: 0, user_ptr: 5 };
    assert!(matches!(ni.trigger(port, wrong, ct, 9), Err(PtlError::ArgInvalid(_))));
    // What it names may be released before its time; it is void then.
    let into = Local { md: short, offset: 0, length: 8 };
    let get = Command::GetFromHeader { into, pt_index: DATA, remote_offset: 0, user_ptr: 6 };
    ni.trigger(port, get, ct, 9).unwrap();
    ni.md_release(short).unwrap();
    ni.issue(port, &Command::CtInc { ct, by: CtEvent { success: 9, failure: 0 } }).unwrap();
    assert_eq!(ni.eq_take(*eq), sluice_portals::EqTaken::Empty);
    ni.check_invariants();
    job.pair.assert_quiet();
}
