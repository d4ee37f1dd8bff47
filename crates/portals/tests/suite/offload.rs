//! The rendezvous without its receiver (`docs/offload.md`): a process posts a
//! receive and then makes no call; what it posted is enough for its engine to
//! fetch the message, whichever it turns out to be.

use crate::matcher::Wanted;
use crate::pair::net::{Event as NetEvent, Mode, roomy};
use crate::pair::{pattern, program_limits};
use crate::rendezvous;
use crate::rendezvous::{DATA, EAGER_BYTES, Job, Received, entry, target, word};
use sluice_portals::{Command, List, Local};
use sluice_wire::Packet;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

/// Process 0 is the source.
const fn tagged(tag: u32) -> Wanted {
    Wanted { source: Some(0), tag: Some(tag) }
}

const ANY_TAG: Wanted = Wanted { source: Some(0), tag: None };

fn got(tag: u32, message: &[u8], most: u64) -> Option<Received> {
    let bytes = message[..message.len().min(most as usize)].to_vec();
    Some(Received { source: 0, tag, len: message.len() as u64, bytes })
}

fn gets(job: &Job) -> usize {
    job.pair.packets(1, |packet| matches!(packet, Packet::Get(_)))
}

/// A NIC beside two hosts, in virtual time: what it does takes time, and it does
/// nothing else for them.
struct Nic {
    now_ns: u64,
}

impl Nic {
    const PACKET_NS: u64 = 1_000;
    const BYTES_PER_NS: u64 = 10;

    /// The hosts compute until then, and nobody calls. Returns when the last
    /// thing happened.
    fn run_until(&mut self, job: &mut Job, until_ns: u64, bulk_bytes: u64) -> u64 {
        let mut last_ns = self.now_ns;
        loop {
            let event = job.pair.sides[0].port.net().events().first().copied();
            let Some(event) = event else { break };
            let takes_ns = match event {
                NetEvent::Read(_) => bulk_bytes / Nic::BYTES_PER_NS,
                _ => Nic::PACKET_NS,
            };
            if self.now_ns + takes_ns > until_ns {
                break;
            }
            self.now_ns += takes_ns;
            last_ns = self.now_ns;
            job.happen(event);
        }
        self.now_ns = until_ns;
        last_ns
    }
}

#[test]
fn offload_a_simulated_nic_receives_while_the_host_computes() {
    let message = pattern(1 << 20, 3);
    let mut job = Job::new(2);
    let mut nic = Nic { now_ns: 0 };
    let receive = job.receive(1, tagged(77), message.len() as u64);
    let quiet_ns = nic.run_until(&mut job, 50_000, 0);
    assert_eq!(quiet_ns, 0, "nothing happens before the send");
    let send = job.send(0, 1, 77, &message);
    let done_ns = nic.run_until(&mut job, 1_000_000, message.len() as u64);
    // Two packets and their answers, and the data: nothing has waited for a host.
    assert!(done_ns < 50_000 + 8 * Nic::PACKET_NS + (1 << 20) / Nic::BYTES_PER_NS, "{done_ns}");
    assert_eq!((job.calls[0], job.calls[1]), (1, 1), "the send and the receive");
    assert_eq!(job.memory(receive), message, "the host has not called yet");
    assert!(job.is_sent(send));
    assert_eq!(job.test(receive), got(77, &message, u64::MAX));
    job.pair.assert_quiet();
}

#[test]
fn offload_a_message_that_came_first_is_fetched_by_what_the_receive_posts() {
    let message = pattern(100_000, 4);
    let mut job = Job::new(2);
    let send = job.send(0, 1, 5, &message);
    job.settle();
    assert!(!job.is_sent(send), "nobody has asked for it");
    let receive = job.receive(1, ANY_TAG, message.len() as u64);
    assert_eq!(gets(&job), 1, "the append has counted the first bytes");
    job.settle();
    assert_eq!(job.calls[1], 1);
    let rest = EAGER_BYTES as usize + 1;
    assert_eq!(job.memory(receive)[rest..], message[rest..], "the first bytes lie elsewhere");
    assert!(job.is_sent(send));
    assert_eq!(job.test(receive), got(5, &message, u64::MAX));
    job.pair.assert_quiet();
}

#[test]
fn offload_an_eager_message_sets_nothing_off() {
    for early in [false, true] {
        let message = pattern(EAGER_BYTES as usize, 5);
        let mut job = Job::new(2);
        if early {
            job.send(0, 1, 5, &message);
            job.settle();
        }
        let receive = job.receive(1, ANY_TAG, 1000);
        if !early {
            job.send(0, 1, 5, &message);
        }
        job.settle();
        assert_eq!((gets(&job), job.calls[1]), (0, 1));
        assert_eq!(job.test(receive), got(5, &message, 1000));
        // Its get is gone: a long message is fetched by the next receive only.
        let (long, next) = (pattern(500, 6), job.receive(1, tagged(5), 500));
        job.send(0, 1, 5, &long);
        job.settle();
        assert_eq!((gets(&job), job.test(next)), (1, got(5, &long, 500)));
        job.pair.assert_quiet();
    }
}

/// Every length against every buffer: what fits arrives, the receiver knows what
/// did not, and no entry is left behind that a later get would find.
#[test]
fn offload_any_length_into_any_buffer() {
    const LENGTHS: [u64; 11] = [0, 1, 40, 62, 63, 64, 65, 66, 127, 200, 5000];
    for can_read in [true, false] {
        for early in [false, true] {
            for (sent, room) in LENGTHS.iter().flat_map(|sent| LENGTHS.map(|room| (*sent, room))) {
                let mode = Mode { can_read, ..Mode::default() };
                let mut job = Job::with(&[roomy(); 2], mode, EAGER_BYTES);
                let message = pattern(sent as usize, 7);
                if early {
                    job.send(0, 1, 9, &message);
                    job.settle();
                }
                let id = job.receive(1, ANY_TAG, room);
                if !early {
                    job.send(0, 1, 9, &message);
                }
                job.settle();
                assert_eq!(job.test(id), got(9, &message, room), "{sent} into {room}");
                assert_eq!(job.unfetched(), []);
                let next = pattern(300, 8);
                job.send(0, 1, 9, &next);
                let id = job.receive(1, ANY_TAG, 300);
                job.settle();
                assert_eq!(job.test(id), got(9, &next, 300), "after {sent} into {room}");
                job.pair.assert_quiet();
            }
        }
    }
}

/// A message of the same tag, and one of any, and one out of order.
#[test]
fn offload_many_receives_wait_at_once() {
    let messages: Vec<Vec<u8>> = (0..4).map(|salt| pattern(700 + salt, salt)).collect();
    let mut job = Job::new(2);
    let receives =
        [tagged(2), ANY_TAG, tagged(1), tagged(1)].map(|wanted| job.receive(1, wanted, 1000));
    for (message, tag) in messages.iter().zip([1, 1, 2, 1]) {
        job.send(0, 1, tag, message);
    }
    job.settle();
    assert_eq!((job.calls[1], gets(&job)), (4, 4));
    let received = receives.map(|receive| job.test(receive));
    let expected = [(2, 2), (1, 0), (1, 1), (1, 3)].map(|(tag, at)| got(tag, &messages[at], 1000));
    assert_eq!(received, expected);
    job.pair.assert_quiet();
}

#[test]
fn offload_a_receive_is_taken_back_with_its_get_or_not_at_all() {
    let message = pattern(400, 9);
    let mut job = Job::new(2);
    let receives = [job.receive(1, tagged(1), 400), job.receive(1, tagged(1), 400)];
    assert!(job.cancel(receives[0]));
    job.send(0, 1, 1, &message);
    // Its put has arrived, its data has not.
    job.happen(NetEvent::Deliver(0, 1));
    assert!(!job.cancel(receives[1]), "it has its message");
    job.settle();
    assert_eq!(job.test(receives[1]), got(1, &message, 400));
    assert_eq!(job.test(receives[0]), None);
    job.pair.assert_quiet();
}

#[test]
fn offload_probes_look_and_matched_probes_fetch() {
    let messages = [pattern(400, 1), pattern(20, 2), pattern(600, 3)];
    let mut job = Job::new(2);
    assert!(job.probe(1, ANY_TAG).is_none());
    for message in &messages {
        job.send(0, 1, 1, message);
    }
    job.settle();
    let header = job.probe(1, tagged(1)).expect("it is there");
    assert_eq!((header.source, header.tag, header.len), (0, 1, 400));
    assert_eq!(gets(&job), 0, "a look fetches nothing");
    let first = job.matched_probe(1, ANY_TAG).expect("it is there");
    let second = job.matched_probe(1, tagged(1)).expect("it is there");
    let third = job.receive(1, ANY_TAG, 600);
    job.settle();
    for (receive, message) in [first, second, third].into_iter().zip(&messages) {
        assert_eq!(job.test(receive), got(1, message, 600));
    }
    job.pair.assert_quiet();
}

/// An engine that its own thread runs: hosts are threads that call it, and the
/// receiving one calls only to post.
#[test]
fn offload_the_engines_thread_receives_while_the_host_computes() {
    type Call = Box<dyn FnOnce(&mut Job) + Send>;
    fn engine(calls: &Receiver<Call>) {
        let mut job = Job::new(2);
        loop {
            let event = job.pair.sides[0].port.net().events().first().copied();
            let call = match event {
                // With nothing to do it sleeps until it is called.
                None => calls.recv().map_err(|_| TryRecvError::Disconnected),
                Some(event) => {
                    job.happen(event);
                    calls.try_recv()
                }
            };
            match call {
                Ok(call) => call(&mut job),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return job.pair.assert_quiet(),
            }
        }
    }
    fn call<T: Send + 'static>(
        engine: &Sender<Call>,
        what: impl FnOnce(&mut Job) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = channel();
        engine.send(Box::new(move |job| answer.send(what(job)).unwrap())).unwrap();
        answered.recv().unwrap()
    }
    let (to_engine, calls) = channel();
    let engine = thread::spawn(move || engine(&calls));
    let message = pattern(1 << 18, 11);
    let (posted, is_posted) = channel();
    let (all_sent, is_sent) = channel();
    let sender = thread::spawn({
        let (to_engine, message) = (to_engine.clone(), message.clone());
        move || {
            is_posted.recv().unwrap();
            let sends = [1, 2, 1].map(|tag| {
                let message = message.clone();
                call(&to_engine, move |job| job.send(0, 1, tag, &message))
            });
            for send in sends {
                while !call(&to_engine, move |job| job.is_sent(send)) {
                    thread::yield_now();
                }
            }
            all_sent.send(()).unwrap();
        }
    });
    let receives = [tagged(2), ANY_TAG, tagged(1)].map(|wanted| {
        let len = message.len() as u64;
        call(&to_engine, move |job| job.receive(1, wanted, len))
    });
    posted.send(()).unwrap();
    // Computes. The sender says when its messages are gone, not by the engine.
    is_sent.recv().unwrap();
    let memories = call(&to_engine, move |job| receives.map(|receive| job.memory(receive)));
    assert!(memories.iter().all(|memory| *memory == message), "nothing is left to be moved");
    assert_eq!(call(&to_engine, |job| job.calls[1]), 3, "no call since the receives");
    for (receive, tag) in receives.into_iter().zip([2, 1, 1]) {
        // The answer to the last get may be on its way still.
        let received = call(&to_engine, move |job| {
            job.settle();
            job.test(receive)
        });
        assert_eq!(received, got(tag, &message, u64::MAX));
    }
    drop(to_engine);
    sender.join().unwrap();
    engine.join().unwrap();
}

/// Each condition of `docs/offload.md`, broken: what happens then.
mod conditions {
    use super::*;

    /// Two long messages with one tag; which data each of two receives has got.
    fn swapped(job: &mut Job, receives: [usize; 2], messages: &[Vec<u8>; 2]) -> bool {
        let data = receives.map(|receive| job.memory(receive));
        let rest = job.eager_bytes as usize + 1;
        data[0][rest..] == messages[1][rest..] && data[1][rest..] == messages[0][rest..]
    }

    fn two() -> [Vec<u8>; 2] {
        [pattern(500, 1), pattern(500, 2)]
    }

    /// A put that is longer than what travels with a header is counted when its
    /// data is there, and that may be in any order.
    #[test]
    fn offload_fails_if_the_first_put_does_not_travel_with_its_header() {
        let longer = u64::from(program_limits().eager_bytes_max);
        let mut job = Job::with(&[roomy(); 2], Mode::default(), longer);
        let messages = two();
        let receives = [tagged(1), tagged(1)].map(|wanted| job.receive(1, wanted, 500));
        for message in &messages {
            job.send(0, 1, 1, message);
            job.happen(NetEvent::Deliver(0, 1));
        }
        // Both are matched. The data of the second is there first.
        job.happen(NetEvent::Read(1));
        job.settle();
        assert!(swapped(&mut job, receives, &messages));
    }

    /// A receive whose get is not prepared yet has its message already, and one
    /// that is posted meanwhile is faster.
    #[test]
    fn offload_fails_if_another_receive_is_posted_before_a_get_is_prepared() {
        let mut job = Job::new(2);
        let messages = two();
        let first = job.prepare(1, tagged(1), 500);
        job.append(first);
        let second = job.receive(1, tagged(1), 500);
        for message in &messages {
            job.send(0, 1, 1, message);
        }
        job.settle();
        job.arm(first);
        job.settle();
        assert!(swapped(&mut job, [first, second], &messages));
    }

    /// A message that a matched probe has taken and not asked for is still at the
    /// sender, and older than what the next receive gets.
    #[test]
    fn offload_fails_if_a_matched_probe_fetches_late() {
        let mut job = Job::new(2);
        let messages = two();
        for message in &messages {
            job.send(0, 1, 1, message);
        }
        job.settle();
        let first = job.matched_probe_only(1, tagged(1)).expect("it is there");
        let second = job.receive(1, tagged(1), 500);
        job.fetch(first);
        job.settle();
        assert!(swapped(&mut job, [first, second], &messages));
    }

    /// A receive that has got its message must fetch it, even if it was to be
    /// taken back.
    #[test]
    fn offload_fails_if_a_get_is_cancelled_before_its_entry() {
        let mut job = Job::new(2);
        let messages = two();
        let receives = [tagged(1), tagged(1)].map(|wanted| job.receive(1, wanted, 500));
        job.cancel_get_only(receives[0]);
        for message in &messages {
            job.send(0, 1, 1, message);
        }
        job.settle();
        let rest = EAGER_BYTES as usize + 1;
        assert_eq!(job.memory(receives[0])[..rest], messages[0][..rest], "it was not taken back");
        assert_eq!(job.memory(receives[1])[rest..], messages[0][rest..], "not its own");
    }

    /// A message whose put was cut to the buffer sets nothing off, and its entry
    /// meets the next receive.
    #[test]
    fn offload_fails_if_a_short_buffer_has_no_room_for_the_first_put() {
        let mut job = Job::new(2);
        let messages = two();
        let short = job.prepare(1, tagged(1), 10);
        let next = job.receive(1, tagged(1), 500);
        let region = job.receives[short].region;
        let ct = job.pair.sides[1].ni.ct_alloc().unwrap();
        let side = &mut job.pair.sides[1];
        let into = Local { md: side.md, offset: region.addr.0, length: 0 };
        let get = Command::Get { into, target: target(0, DATA, word(Some(1)), 0), user_ptr: 0 };
        side.ni.trigger(&mut side.port, get, ct, EAGER_BYTES + 1).unwrap();
        job.send(0, 1, 1, &messages[0]);
        let spec = entry(short, tagged(1), region, Some(ct));
        let side = &mut job.pair.sides[1];
        side.ni.me_append(&mut side.port, rendezvous::MESSAGES, List::Priority, spec).unwrap();
        // The older receive takes the first message; the short one the second.
        job.send(0, 1, 1, &messages[1]);
        let third = job.receive(1, tagged(1), 500);
        job.send(0, 1, 1, &pattern(500, 3));
        job.settle();
        let rest = EAGER_BYTES as usize + 1;
        assert_eq!(job.memory(next), messages[0]);
        assert_eq!(gets(&job), 2, "that of the short one is missing");
        assert_eq!(job.memory(third)[rest..], messages[1][rest..], "not its own");
    }
}
