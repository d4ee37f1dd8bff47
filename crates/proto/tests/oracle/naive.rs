//! The naive reference matcher (MPI 4.1, section 3.5): for each receive the
//! oldest message that matches, for each message the oldest receive that does.
//! It sees the order of posting and the order of arrival, and nothing else.

use sluice_proto::Space;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub from: usize,
    pub to: usize,
    pub space: Space,
    pub tag: u64,
    pub data: Option<u64>,
    pub len: u64,
}

/// What a receive or a probe accepts.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub space: Space,
    pub source: Option<usize>,
    pub tag: u64,
    pub ignore: u64,
}

impl Wanted {
    pub fn accepts(&self, message: &Message) -> bool {
        let tag_fits = (self.tag ^ message.tag) & !self.ignore == 0;
        self.space == message.space
            && self.source.is_none_or(|source| source == message.from)
            && (self.space == Space::Untagged || tag_fits)
    }
}

#[derive(Debug, Default)]
struct Process {
    /// Receives by context, oldest first.
    posted: Vec<(u64, Wanted)>,
    /// Messages, oldest first.
    unexpected: Vec<usize>,
}

#[derive(Debug)]
pub struct Oracle {
    pub messages: Vec<Message>,
    on_their_way: BTreeMap<(usize, usize), VecDeque<usize>>,
    processes: Vec<Process>,
    /// Which message each receive gets, by the receive's context.
    pub matched: BTreeMap<u64, usize>,
}

impl Oracle {
    pub fn new(processes: usize) -> Oracle {
        Oracle {
            messages: Vec::new(),
            on_their_way: BTreeMap::new(),
            processes: (0..processes).map(|_| Process::default()).collect(),
            matched: BTreeMap::new(),
        }
    }

    /// A message was sent; this is its number.
    pub fn send(&mut self, message: Message) -> usize {
        let id = self.messages.len();
        self.messages.push(message);
        self.on_their_way.entry((message.from, message.to)).or_default().push_back(id);
        id
    }

    /// A message of this pair has arrived: it must be the oldest.
    pub fn arrive(&mut self, from: usize, to: usize) -> usize {
        let id = self.on_their_way.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let id = id.expect("what arrives was sent");
        let message = self.messages[id];
        let process = &mut self.processes[to];
        match process.posted.iter().position(|(_, wanted)| wanted.accepts(&message)) {
            Some(at) => {
                let (context, _) = process.posted.remove(at);
                self.matched.insert(context, id);
            }
            None => process.unexpected.push(id),
        }
        id
    }

    /// A receive takes a message that its sender still has: it must be the
    /// oldest receive for it, and it the oldest message for the receive.
    pub fn take_waiting(&mut self, from: usize, to: usize, id: usize) {
        let message = self.messages[id];
        let posted = &self.processes[to].posted;
        let at = posted.iter().position(|(_, wanted)| wanted.accepts(&message));
        let at = at.expect("a message is taken that nobody wants");
        let (context, wanted) = self.processes[to].posted.remove(at);
        self.leave_way(from, to, id, &wanted);
        self.matched.insert(context, id);
    }

    /// A probe finds a message that its sender still has: it must be the oldest
    /// for the probe, and no older receive may want it.
    pub fn find_waiting(&self, from: usize, to: usize, id: usize, wanted: &Wanted, context: u64) {
        let message = self.messages[id];
        assert!(wanted.accepts(&message), "a probe found what it did not look for");
        let posted = &self.processes[to].posted;
        let wants = |(other, wanted): &&(u64, Wanted)| *other < context && wanted.accepts(&message);
        assert_eq!(posted.iter().find(wants).map(|(other, _)| other), None, "a receive wants it");
        self.check_oldest(from, to, id, wanted);
    }

    /// The message is not on its way any more.
    pub fn leave_way(&mut self, from: usize, to: usize, id: usize, wanted: &Wanted) {
        self.check_oldest(from, to, id, wanted);
        let way = self.on_their_way.get_mut(&(from, to)).expect("it is on its way");
        way.retain(|&one| one != id);
    }

    fn check_oldest(&self, from: usize, to: usize, id: usize, wanted: &Wanted) {
        let here = self.processes[to].unexpected.iter();
        let here = here.filter(|&&one| self.messages[one].from == from);
        let coming = &self.on_their_way[&(from, to)];
        assert!(coming.contains(&id), "message {id} is not on its way");
        let oldest = here.chain(coming).find(|&&one| wanted.accepts(&self.messages[one]));
        assert_eq!(oldest, Some(&id), "not the oldest message");
    }

    /// Messages on their way to a process, by what accepts them.
    pub fn coming(&self, who: usize, wanted: &Wanted) -> Option<usize> {
        let ways = self.on_their_way.iter().filter(|((_, to), _)| *to == who);
        let mut ids = ways.flat_map(|(_, ids)| ids);
        ids.find(|&&id| wanted.accepts(&self.messages[id])).copied()
    }

    /// What is posted, oldest first.
    pub fn wanted(&self, who: usize) -> &[(u64, Wanted)] {
        &self.processes[who].posted
    }

    pub fn post(&mut self, who: usize, context: u64, wanted: Wanted) {
        match self.take(who, &wanted) {
            Some(id) => {
                self.matched.insert(context, id);
            }
            None => self.processes[who].posted.push((context, wanted)),
        }
    }

    pub fn peek(&self, who: usize, wanted: &Wanted) -> Option<usize> {
        let mut unexpected = self.processes[who].unexpected.iter();
        unexpected.find(|&&id| wanted.accepts(&self.messages[id])).copied()
    }

    /// The oldest unexpected message that is wanted is taken out.
    pub fn take(&mut self, who: usize, wanted: &Wanted) -> Option<usize> {
        let id = self.peek(who, wanted)?;
        self.processes[who].unexpected.retain(|&one| one != id);
        Some(id)
    }

    /// Whether there was an unmatched receive to cancel.
    pub fn cancel(&mut self, who: usize, context: u64) -> bool {
        let posted = &mut self.processes[who].posted;
        let before = posted.len();
        posted.retain(|(one, _)| *one != context);
        posted.len() < before
    }

    pub fn posted(&self, who: usize) -> Vec<u64> {
        self.processes[who].posted.iter().map(|(context, _)| *context).collect()
    }

    /// Messages of a space to a process that no receive has met yet.
    pub fn unmatched_to(&self, who: usize, space: Space) -> usize {
        let unexpected = self.processes[who].unexpected.iter();
        let coming = self.on_their_way.iter().filter(|((_, to), _)| *to == who);
        let ids = unexpected.chain(coming.flat_map(|(_, ids)| ids));
        ids.filter(|&&id| self.messages[id].space == space).count()
    }

    /// The pairs with messages that have not arrived.
    pub fn pairs_on_their_way(&self) -> Vec<(usize, usize)> {
        let pairs = self.on_their_way.iter().filter(|(_, ids)| !ids.is_empty());
        pairs.map(|(&pair, _)| pair).collect()
    }

    /// Data slots that the messages of a pair which nobody has matched take at
    /// most.
    pub fn slots_unmatched(&self, from: usize, to: usize) -> u64 {
        let unexpected = self.processes[to].unexpected.iter();
        let of_pair = unexpected.filter(|&&id| self.messages[id].from == from);
        let coming = self.on_their_way.get(&(from, to)).into_iter().flatten();
        let lens = of_pair.chain(coming).map(|&id| self.messages[id].len);
        lens.map(|len| 1 + len / 60 + 1).sum()
    }
}
