//! The naive reference matcher (MPI 4.1, section 3.5): for each receive the
//! oldest message that matches, for each message the oldest receive that does.
//!
//! It is told the order in which receives are posted and messages arrive at each
//! process, and nothing else; that order is the stack's own, so what it foretells
//! is exact, whatever the timing. Messages of a pair must arrive in the order in
//! which they were sent. A message may be matched while its sender still has it:
//! then no older message of that sender may match, nor any older receive.
//!
//! The tests of `proto` include this file: their random programs are held to it
//! too.

use sluice_proto::Space;
use std::collections::{BTreeMap, VecDeque};

/// A message, as its sender knows it.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub from: usize,
    pub to: usize,
    pub space: Space,
    pub tag: u64,
    pub data: Option<u64>,
    pub len: u64,
    /// What its bytes are drawn from.
    pub content: u64,
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

/// See the module.
#[derive(Debug)]
pub struct Matcher {
    pub messages: Vec<Message>,
    on_their_way: BTreeMap<(usize, usize), VecDeque<usize>>,
    processes: Vec<Process>,
    /// Which message each receive gets, by the receive's context.
    pub matched: BTreeMap<u64, usize>,
    /// By message: the context of its receive.
    pub receive_of: Vec<Option<u64>>,
    /// By message: whether it has come to its receiver.
    has_come: Vec<bool>,
    /// Receives whose context does not say where they stand, and one whose does.
    places: BTreeMap<u64, u64>,
}

impl Matcher {
    pub fn new(processes: usize) -> Matcher {
        Matcher {
            messages: Vec::new(),
            on_their_way: BTreeMap::new(),
            processes: (0..processes).map(|_| Process::default()).collect(),
            matched: BTreeMap::new(),
            receive_of: Vec::new(),
            has_come: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    /// A message was sent; this is its number.
    pub fn send(&mut self, message: Message) -> usize {
        let id = self.messages.len();
        self.messages.push(message);
        self.receive_of.push(None);
        self.has_come.push(false);
        self.on_their_way.entry((message.from, message.to)).or_default().push_back(id);
        id
    }

    /// A process has ended: nothing of what was sent to it, or arrived there, is
    /// anyone's any more, nor are its receives.
    pub fn end(&mut self, who: usize) {
        self.processes[who] = Process::default();
        self.on_their_way.retain(|(_, to), _| *to != who);
    }

    /// What one process has sent to another and has not arrived never will.
    pub fn lose(&mut self, from: usize, to: usize) {
        self.on_their_way.remove(&(from, to));
    }

    /// What one process has sent to another last never arrives.
    pub fn lose_last(&mut self, from: usize, to: usize) {
        self.on_their_way.get_mut(&(from, to)).and_then(VecDeque::pop_back);
    }

    /// Whether a message has come to its receiver and met no receive there.
    pub fn is_kept(&self, id: usize) -> bool {
        self.has_come[id] && self.receive_of[id].is_none()
    }

    /// Its sender has withdrawn a message. Whether it was on its way.
    pub fn withdraw(&mut self, id: usize) -> bool {
        let Message { from, to, .. } = self.messages[id];
        let Some(way) = self.on_their_way.get_mut(&(from, to)) else { return false };
        let before = way.len();
        way.retain(|&one| one != id);
        way.len() < before
    }

    /// A message of this pair has arrived: it must be the oldest.
    pub fn arrive(&mut self, from: usize, to: usize) -> usize {
        let id = self.on_their_way.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let id = id.expect("what arrives was sent");
        self.has_come[id] = true;
        let message = self.messages[id];
        let process = &mut self.processes[to];
        match process.posted.iter().position(|(_, wanted)| wanted.accepts(&message)) {
            Some(at) => {
                let (context, _) = process.posted.remove(at);
                self.note(context, id);
            }
            None => process.unexpected.push(id),
        }
        id
    }

    /// A receive takes a message that its sender still has: the oldest receive
    /// for it must be that one, and it the oldest message for the receive.
    pub fn take_waiting(&mut self, from: usize, to: usize, id: usize) {
        let message = self.messages[id];
        let posted = &self.processes[to].posted;
        let at = posted.iter().position(|(_, wanted)| wanted.accepts(&message));
        let at = at.expect("a message is taken that nobody wants");
        let (context, wanted) = self.processes[to].posted.remove(at);
        self.leave_way(from, to, id, &wanted);
        self.note(context, id);
    }

    /// A probe finds a message that its sender still has: it must be the oldest
    /// for the probe, and no older receive may want it.
    pub fn find_waiting(&self, from: usize, to: usize, id: usize, wanted: &Wanted, context: u64) {
        let message = self.messages[id];
        assert!(wanted.accepts(&message), "a probe found what it did not look for");
        let posted = &self.processes[to].posted;
        let wants = |(other, wanted): &&(u64, Wanted)| {
            self.place(*other) < context && wanted.accepts(&message)
        };
        assert_eq!(posted.iter().find(wants).map(|(other, _)| other), None, "a receive wants it");
        self.check_oldest(from, to, id, wanted);
    }

    /// The message is taken from its sender.
    pub fn leave_way(&mut self, from: usize, to: usize, id: usize, wanted: &Wanted) {
        self.check_oldest(from, to, id, wanted);
        let way = self.on_their_way.get_mut(&(from, to)).expect("it is on its way");
        way.retain(|&one| one != id);
    }

    /// A receive is posted: it gets the oldest unexpected message, or waits. The context says
    /// where it stands among the calls.
    pub fn post(&mut self, who: usize, context: u64, wanted: Wanted) {
        match self.take(who, &wanted) {
            Some(id) => self.note(context, id),
            None => self.processes[who].posted.push((context, wanted)),
        }
    }

    /// The same for one that stands where one of context `place` would.
    pub fn post_at(&mut self, who: usize, context: u64, wanted: Wanted, place: u64) {
        self.places.insert(context, place);
        if let Some(id) = self.take(who, &wanted) {
            return self.note(context, id);
        }
        let is_older = |(other, _): &(u64, Wanted)| self.place(*other) < place;
        let at = self.processes[who].posted.partition_point(is_older);
        self.processes[who].posted.insert(at, (context, wanted));
    }

    fn place(&self, context: u64) -> u64 {
        self.places.get(&context).copied().unwrap_or(context)
    }

    /// This receive got this message.
    pub fn note(&mut self, context: u64, id: usize) {
        assert_eq!(self.receive_of[id], None, "message {id} is received twice");
        self.receive_of[id] = Some(context);
        assert_eq!(self.matched.insert(context, id), None, "receive {context} is filled twice");
    }

    /// The oldest unexpected message that is wanted.
    pub fn peek(&self, who: usize, wanted: &Wanted) -> Option<usize> {
        let mut unexpected = self.processes[who].unexpected.iter();
        unexpected.find(|&&id| wanted.accepts(&self.messages[id])).copied()
    }

    /// The same, taken out.
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

    /// What is posted and unmatched, oldest first.
    pub fn posted(&self, who: usize) -> &[(u64, Wanted)] {
        &self.processes[who].posted
    }

    /// Messages to a process that nobody has met yet: those that are there, then
    /// those on their way, by sender.
    pub fn unmatched_to(&self, who: usize) -> Vec<usize> {
        let unexpected = self.processes[who].unexpected.iter();
        let coming = self.on_their_way.iter().filter(|((_, to), _)| *to == who);
        unexpected.chain(coming.flat_map(|(_, ids)| ids)).copied().collect()
    }

    /// A message on its way to a process that `wanted` accepts.
    pub fn coming(&self, who: usize, wanted: &Wanted) -> Option<usize> {
        let ways = self.on_their_way.iter().filter(|((_, to), _)| *to == who);
        let mut ids = ways.flat_map(|(_, ids)| ids);
        ids.find(|&&id| wanted.accepts(&self.messages[id])).copied()
    }

    /// The pairs with messages that have not arrived.
    pub fn pairs_on_their_way(&self) -> impl Iterator<Item = (usize, usize)> {
        self.on_their_way.iter().filter(|(_, ids)| !ids.is_empty()).map(|(&pair, _)| pair)
    }

    fn check_oldest(&self, from: usize, to: usize, id: usize, wanted: &Wanted) {
        let here = self.processes[to].unexpected.iter();
        let here = here.filter(|&&one| self.messages[one].from == from);
        let coming = self.on_their_way.get(&(from, to)).into_iter().flatten();
        assert!(coming.clone().any(|&one| one == id), "message {id} is not on its way");
        let oldest = here.chain(coming).find(|&&one| wanted.accepts(&self.messages[one]));
        assert_eq!(oldest, Some(&id), "not the oldest message");
    }
}
