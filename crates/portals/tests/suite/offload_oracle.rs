//! Random programs over the offloaded rendezvous: three processes that send,
//! receive, cancel and probe, while the network delivers in any order it may
//! choose, against MPI's rules written down naively. In half of the runs no
//! process makes another call after it has posted, until all is quiet.

use crate::matcher::{Envelope, Match, Matcher, Wanted};
use crate::pair::net::{Event as NetEvent, Mode, layout, random::Random, roomy};
use crate::pair::pattern;
use crate::rendezvous::{EAGER_BYTES, Job, MESSAGES, Received};
use sluice_wire::Packet;
use std::collections::{BTreeMap, VecDeque};

const PROCESSES: usize = 3;
const STEPS: usize = 150;
const SEEDS: u64 = 1_500;

/// Which runs there were, so that none of what is tested goes missing.
#[derive(Debug, Default)]
struct Seen {
    long: usize,
    short: usize,
    cut: usize,
    any_source: usize,
    early: usize,
    cancelled: usize,
    not_cancelled: usize,
    probed: usize,
    taken: usize,
    waited: usize,
    armed_late: usize,
}

struct Run {
    job: Job,
    draw: Random,
    matchers: Vec<Matcher>,
    /// Messages of each pair whose puts have not arrived.
    on_the_way: BTreeMap<(usize, usize), VecDeque<usize>>,
    /// What each receive is to get, by MPI's rules.
    due: BTreeMap<usize, usize>,
    told: Vec<usize>,
    open: Vec<usize>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut draw = Random::new(seed);
        let mode = Mode {
            payloads: true,
            pending_percent: *draw.pick(&[0, 0, 40]),
            can_read: draw.percent(70),
            forbidden_percent: *draw.pick(&[0, 0, 30]),
            only_writes: false,
            chunk_claims: false,
            connecting_percent: *Random::stream(seed, 9).pick(&[0, 60, 100]),
            placing_percent: *Random::stream(seed, 10).pick(&[0, 50, 100]),
            looking_percent: 0,
            is_network: false,
            matches: false,
            publishes: false,
        };
        let small = layout(3, 24, draw.between(2, 4) as u8, 4, draw.between(6, 14) as u16);
        let layouts = if draw.percent(60) { [small; PROCESSES] } else { [roomy(); PROCESSES] };
        Run {
            job: Job::with(&layouts, mode, EAGER_BYTES),
            draw,
            matchers: (0..PROCESSES).map(|_| Matcher::default()).collect(),
            on_the_way: BTreeMap::new(),
            due: BTreeMap::new(),
            told: Vec::new(),
            open: Vec::new(),
        }
    }

    fn process(&mut self) -> usize {
        self.draw.below(PROCESSES as u64) as usize
    }

    fn tag(&mut self) -> u32 {
        *self.draw.pick(&[0, 1, u32::MAX])
    }

    /// What a receive or a probe of a process wants.
    fn wanted(&mut self, who: usize) -> Wanted {
        let source = (who + 1 + self.draw.below(2) as usize) % PROCESSES;
        let source = (!self.draw.percent(30)).then_some(source);
        let tag = self.tag();
        Wanted { source, tag: (!self.draw.percent(35)).then_some(tag) }
    }

    fn note(&mut self, matched: Option<Match>) {
        if let Some(Match { send, receive }) = matched {
            assert!(self.due.insert(receive, send).is_none());
        }
    }

    fn send(&mut self) {
        let from = self.process();
        let to = (from + 1 + self.draw.below(2) as usize) % PROCESSES;
        let tag = self.tag();
        let longest = *self.draw.pick(&[EAGER_BYTES, EAGER_BYTES + 2, 300, 300, 20_000]);
        let len = self.draw.between(0, longest) as usize;
        let message = pattern(len, self.job.sends.len());
        let send = self.job.send(from, to, tag, &message);
        self.on_the_way.entry((from, to)).or_default().push_back(send);
    }

    fn receive(&mut self, seen: &mut Seen) {
        let who = self.process();
        let wanted = self.wanted(who);
        let room = *self.draw.pick(&[0, 30, EAGER_BYTES + 1, 200, 20_000, 20_000]);
        let receive = self.job.prepare(who, wanted, room);
        let arms_first = self.draw.percent(70);
        if arms_first {
            self.job.arm(receive);
        }
        self.job.append(receive);
        let matched = self.matchers[who].post(receive, wanted);
        seen.early += usize::from(matched.is_some());
        seen.any_source += usize::from(wanted.source.is_none());
        self.open.push(receive);
        self.note(matched);
        if !arms_first {
            // As long as nothing else is posted, its get may come late.
            for _ in 0..self.draw.below(8) {
                self.happen();
            }
            self.job.arm(receive);
            seen.armed_late += 1;
        }
    }

    /// One of the things that may happen next does.
    fn happen(&mut self) {
        let events = self.job.pair.sides[0].port.net().events();
        if events.is_empty() {
            return;
        }
        let event = *self.draw.pick(&events);
        let arrives = match event {
            NetEvent::Deliver(from, to) => {
                let net = self.job.pair.sides[0].port.net();
                let packet = net.flights(from, to).next().map(|flight| flight.parsed.packet);
                let is_message =
                    matches!(packet, Some(Packet::Put(put)) if put.pt_index == MESSAGES);
                is_message.then_some((from, to))
            }
            _ => None,
        };
        self.job.happen(event);
        if let Some((from, to)) = arrives {
            let waiting = self.on_the_way.get_mut(&(from, to)).expect("it was sent");
            let send = waiting.pop_front().expect("it was sent");
            let tag = self.job.sends[send].tag;
            let matched = self.matchers[to].arrive(send, Envelope { source: from, tag });
            self.note(matched);
        }
    }

    fn cancel(&mut self, seen: &mut Seen) {
        if self.open.is_empty() {
            return;
        }
        let receive = *self.draw.pick(&self.open);
        let who = self.job.receives[receive].who;
        let cancelled = self.matchers[who].cancel(receive);
        if self.told.contains(&receive) {
            return;
        }
        assert_eq!(self.job.cancel(receive), cancelled);
        if cancelled {
            seen.cancelled += 1;
            self.open.retain(|&open| open != receive);
        } else {
            seen.not_cancelled += 1;
        }
    }

    fn probe(&mut self, seen: &mut Seen) {
        let who = self.process();
        let wanted = self.wanted(who);
        let expected = self.matchers[who].probe(wanted);
        if expected.is_some() && self.draw.percent(50) {
            let receive = self.job.matched_probe(who, wanted).expect("it has arrived");
            let send = self.matchers[who].take(wanted).expect("it has arrived");
            self.note(Some(Match { send, receive }));
            self.open.push(receive);
            seen.taken += 1;
            return;
        }
        let found = self.job.probe(who, wanted);
        seen.probed += usize::from(found.is_some());
        let expected = expected.map(|send| &self.job.sends[send]);
        let found = found.map(|header| (header.source, header.tag, header.len));
        assert_eq!(found, expected.map(|send| (send.from, send.tag, send.bytes.len() as u64)));
    }

    /// Asks a receive whether it is complete.
    fn test(&mut self, receive: usize) -> bool {
        let Some(received) = self.job.test(receive) else { return false };
        let send = *self.due.get(&receive).expect("it was matched");
        let sent = &self.job.sends[send];
        let room = self.job.receives[receive].region.len as usize;
        let expected = Received {
            source: sent.from,
            tag: sent.tag,
            len: sent.bytes.len() as u64,
            bytes: sent.bytes[..sent.bytes.len().min(room)].to_vec(),
        };
        assert_eq!(received, expected, "receive {receive} is to get send {send}");
        self.told.push(receive);
        true
    }

    fn run(&mut self, seen: &mut Seen) {
        let is_silent = self.draw.percent(50);
        let busy = *self.draw.pick(&[50, 70, 90]);
        for _ in 0..STEPS {
            match self.draw.below(10) {
                _ if self.draw.percent(busy) => self.happen(),
                0..=3 => self.send(),
                4..=7 => self.receive(seen),
                8 if !is_silent => self.probe(seen),
                9 if !is_silent && self.draw.percent(50) => self.cancel(seen),
                _ if !is_silent && !self.open.is_empty() => {
                    let receive = *self.draw.pick(&self.open);
                    self.test(receive);
                }
                _ => {}
            }
            let waits = self.job.pair.sides.iter().any(|side| side.ni.waiting_now() > 0);
            seen.waited += usize::from(waits);
        }
        let calls = self.job.calls.clone();
        self.quiet();
        assert_eq!(self.job.calls, calls);
        for receive in self.open.clone() {
            let complete = self.told.contains(&receive) || self.test(receive);
            assert_eq!(complete, self.due.contains_key(&receive), "receive {receive}");
        }
        self.check_sends(seen);
        self.job.pair.assert_quiet();
    }

    /// All that is on its way arrives, in any order.
    fn quiet(&mut self) {
        loop {
            while !self.job.pair.sides[0].port.net().events().is_empty() {
                self.happen();
            }
            for side in &mut self.job.pair.sides {
                side.ni.on_idle(&mut side.port);
            }
            if self.job.pair.sides[0].port.net().events().is_empty() {
                return;
            }
        }
    }

    /// Of the long messages those are fetched that were received.
    fn check_sends(&mut self, seen: &mut Seen) {
        let unfetched = self.job.unfetched();
        let rooms: BTreeMap<usize, u64> = self
            .due
            .iter()
            .map(|(&receive, &send)| (send, self.job.receives[receive].region.len))
            .collect();
        for (send, sending) in self.job.sends.iter().enumerate() {
            let len = sending.bytes.len() as u64;
            let is_long = len > EAGER_BYTES;
            let room = rooms.get(&send);
            assert_eq!(unfetched.contains(&send), is_long && room.is_none(), "send {send}");
            if let Some(&room) = room {
                *if is_long { &mut seen.long } else { &mut seen.short } += 1;
                seen.cut += usize::from(room < len);
            }
        }
    }
}

#[test]
fn offload_random_programs_receive_as_mpi_says() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        run.run(&mut seen);
    }
    let Seen { long, short, cut, any_source, early, cancelled, not_cancelled, .. } = seen;
    let Seen { probed, taken, waited, armed_late, .. } = seen;
    let rare =
        [cut, any_source, early, cancelled, not_cancelled, probed, taken, waited, armed_late];
    assert!(rare.iter().all(|&count| count > 300), "{seen:?}");
    assert!(long > 3_000 && short > 1_500, "{seen:?}");
}
