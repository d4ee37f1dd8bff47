//! A network interface that matches messages with receives by itself.
//!
//! It is naive on purpose: two lists, searched from their oldest end. What its process asks
//! takes effect at once; messages take their time between interfaces, and so does what it
//! tells ([`Out`]; the world sees to both).
//!
//! It is bounded as those of rails are ([`Bounds`]): of each peer it has few messages on their
//! way, and longer ones are announced.
//!
//! Invariant: no receive in its list accepts a message in the other.

use crate::memory::Memory;
use sluice_link::{Full, TaggedEnd, TaggedMessage, TaggedWanted, Token};
use sluice_wire::{PeerId, PtIndex, Region};
use std::collections::BTreeMap;

/// Lists of receives.
const LISTS: usize = 2;

/// A message at its receiver, or on its way there.
#[derive(Debug)]
pub(crate) struct Tagged {
    pub from: PeerId,
    pub message: TaggedMessage,
    pub bytes: Box<[u8]>,
    /// Its sender wants to know its end.
    pub token: Option<Token>,
}

/// What an interface takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Longest message that goes with its bytes.
    pub bytes_max: u64,
    /// Most messages on their way to one peer.
    pub sends_max: u32,
    /// Most receives of a list that have met no message.
    pub receives_max: usize,
}

/// What an interface has for others.
#[derive(Debug)]
pub(crate) enum Out {
    /// A message for another interface.
    Send(PeerId, Tagged),
    /// Word for its own process.
    Tell(Token, TaggedEnd),
    /// Word for the sender of a message.
    Acknowledge(PeerId, Token),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Nic {
    pub bounds: Bounds,
    /// By peer: messages that have not arrived.
    under_way: BTreeMap<PeerId, u32>,
    /// It has had no room for a message.
    pub was_full: bool,
    /// It has had no room for a receive, and that is not over: by list.
    is_crowded: [bool; LISTS],
    /// It has had none ever.
    pub was_crowded: bool,
    /// A message was too long for it.
    pub was_exceeded: bool,
    posted: Vec<(TaggedWanted, Region, Token)>,
    unexpected: Vec<Tagged>,
    claimed: BTreeMap<u64, Tagged>,
    /// In order.
    pub outs: Vec<Out>,
}

impl Nic {
    /// Without messages and receives.
    pub fn new(bounds: Bounds) -> Nic {
        Nic {
            bounds,
            under_way: BTreeMap::new(),
            was_full: false,
            is_crowded: [false; LISTS],
            was_crowded: false,
            was_exceeded: false,
            posted: Vec::new(),
            unexpected: Vec::new(),
            claimed: BTreeMap::new(),
            outs: Vec::new(),
        }
    }

    pub fn send(&mut self, to: PeerId, tagged: Tagged) -> Result<(), Full> {
        let len = tagged.bytes.len() as u64;
        assert!(len <= self.bounds.bytes_max, "{len} bytes are too long for the interface");
        self.was_exceeded |= tagged.message.len > self.bounds.bytes_max;
        let under_way = self.under_way.entry(to).or_default();
        if *under_way >= self.bounds.sends_max {
            self.was_full = true;
            return Err(Full);
        }
        *under_way += 1;
        self.outs.push(Out::Send(to, tagged));
        Ok(())
    }

    /// A message has left this interface for good. True if there was no room for another.
    pub fn end_send(&mut self, to: PeerId) -> bool {
        let under_way = self.under_way.get_mut(&to).expect("it was sent");
        *under_way -= 1;
        *under_way + 1 == self.bounds.sends_max
    }

    /// Nothing goes to a peer any more, and nothing of it is on its way.
    pub fn forget(&mut self, to: PeerId) {
        self.under_way.remove(&to);
    }

    pub fn post(
        &mut self,
        memory: &mut Memory,
        wanted: &TaggedWanted,
        into: Region,
        token: Token,
    ) -> Result<(), Full> {
        let list = usize::from(wanted.list.0);
        let of_list = self.posted.iter().filter(|(one, ..)| one.list == wanted.list);
        if let Some(at) = self.find(wanted) {
            let tagged = self.unexpected.remove(at);
            self.meet(memory, &tagged, into, token);
        } else if of_list.count() >= self.bounds.receives_max {
            (self.is_crowded[list], self.was_crowded) = (true, true);
            return Err(Full);
        } else {
            self.posted.push((*wanted, into, token));
        }
        self.is_crowded[list] = false;
        Ok(())
    }

    /// No receive of the list waits for room any more.
    pub fn nobody_waits(&mut self, list: PtIndex) {
        self.is_crowded[usize::from(list.0)] = false;
    }

    pub fn cancel(&mut self, token: Token) -> bool {
        let before = self.posted.len();
        self.posted.retain(|(.., one)| *one != token);
        self.posted.len() < before
    }

    /// A message has come. True if it is left to a process for whose receives there was no
    /// room.
    pub fn arrive(&mut self, memory: &mut Memory, tagged: Tagged) -> bool {
        let is_crowded = self.is_crowded[usize::from(tagged.message.list.0)];
        let wants = |(wanted, ..): &(TaggedWanted, Region, Token)| {
            wanted.accepts(tagged.from, &tagged.message)
        };
        match self.posted.iter().position(wants) {
            Some(at) => {
                let (_, into, token) = self.posted.remove(at);
                self.meet(memory, &tagged, into, token);
                false
            }
            None => {
                self.unexpected.push(tagged);
                is_crowded
            }
        }
    }

    pub fn claim_first(
        &mut self,
        list: PtIndex,
        wants: &mut dyn FnMut(PeerId, &TaggedMessage) -> bool,
        Token(name): Token,
    ) -> Option<(PeerId, TaggedMessage)> {
        let mut is_wanted =
            |one: &Tagged| one.message.list == list && wants(one.from, &one.message);
        let at = self.unexpected.iter().position(&mut is_wanted)?;
        let tagged = self.unexpected.remove(at);
        let (from, message) = (tagged.from, tagged.message);
        assert!(self.claimed.insert(name, tagged).is_none(), "a claim's name is its own");
        Some((from, message))
    }

    pub fn search(
        &mut self,
        wanted: &TaggedWanted,
        claim: Option<Token>,
    ) -> Option<(PeerId, TaggedMessage)> {
        let at = self.find(wanted)?;
        let Tagged { from, message, .. } = self.unexpected[at];
        if let Some(Token(name)) = claim {
            let tagged = self.unexpected.remove(at);
            assert!(self.claimed.insert(name, tagged).is_none(), "a claim's name is its own");
        }
        Some((from, message))
    }

    pub fn take(&mut self, memory: &mut Memory, Token(name): Token, into: Region) {
        let tagged = self.claimed.remove(&name).expect("a claim is taken once");
        self.land(memory, &tagged, into);
    }

    /// Whether it keeps no message, and no receive.
    pub fn is_empty(&self) -> bool {
        self.posted.is_empty() && self.unexpected.is_empty() && self.claimed.is_empty()
    }

    fn find(&self, wanted: &TaggedWanted) -> Option<usize> {
        self.unexpected.iter().position(|one| wanted.accepts(one.from, &one.message))
    }

    fn meet(&mut self, memory: &mut Memory, tagged: &Tagged, into: Region, token: Token) {
        self.land(memory, tagged, into);
        let Tagged { from, message, .. } = *tagged;
        self.outs.push(Out::Tell(token, TaggedEnd::Met { from, message }));
    }

    /// Writes what fits, and has the sender told.
    fn land(&mut self, memory: &mut Memory, tagged: &Tagged, into: Region) {
        let fits = tagged.bytes.len().min(into.len as usize);
        if fits > 0 {
            memory.write(into.addr, &tagged.bytes[..fits]);
        }
        if let Some(token) = tagged.token {
            self.outs.push(Out::Acknowledge(tagged.from, token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_wire::MatchBits;

    fn nic() -> (Nic, Memory) {
        (Nic::new(Bounds { bytes_max: 8, sends_max: 2, receives_max: 3 }), Memory::new(true))
    }

    fn tagged(from: u32, tag: u64) -> Tagged {
        let bytes: Box<[u8]> = Box::from([tag as u8; 8]);
        let message = TaggedMessage {
            list: PtIndex(0),
            match_bits: MatchBits(tag),
            hdr_data: 0,
            user: 0,
            len: 8,
            rts: None,
        };
        Tagged { from: PeerId(from), message, bytes, token: Some(Token(tag)) }
    }

    fn wanted(source: Option<u32>, tag: u64, ignore_bits: u64) -> TaggedWanted {
        let (list, match_bits) = (PtIndex(0), MatchBits(tag));
        TaggedWanted { list, source: source.map(PeerId), match_bits, ignore_bits }
    }

    /// Receives that have met a message, and from whom.
    fn met(nic: &mut Nic) -> Vec<(u64, u32)> {
        let told = std::mem::take(&mut nic.outs).into_iter().filter_map(|out| match out {
            Out::Tell(Token(token), TaggedEnd::Met { from, .. }) => Some((token, from.0)),
            _ => None,
        });
        told.collect()
    }

    #[test]
    fn the_oldest_receive_meets_the_oldest_message() {
        let (mut nic, mut memory) = nic();
        let into = memory.alloc(8);
        nic.post(&mut memory, &wanted(None, 0, u64::MAX), into, Token(1)).unwrap();
        nic.post(&mut memory, &wanted(Some(3), 5, 0), into, Token(2)).unwrap();
        nic.arrive(&mut memory, tagged(3, 5));
        nic.arrive(&mut memory, tagged(4, 5));
        nic.arrive(&mut memory, tagged(3, 5));
        assert_eq!(met(&mut nic), [(1, 3), (2, 3)]);
        nic.arrive(&mut memory, tagged(3, 5));
        nic.post(&mut memory, &wanted(None, 5, 0), into, Token(3)).unwrap();
        assert_eq!(met(&mut nic), [(3, 4)]);
        assert_eq!(memory.read(into), [5; 8]);
    }

    #[test]
    fn of_each_peer_few_messages_are_on_their_way() {
        let (mut nic, _) = nic();
        let [one, other] = [PeerId(1), PeerId(2)];
        assert_eq!([nic.send(one, tagged(0, 1)), nic.send(one, tagged(0, 2))], [Ok(()); 2]);
        assert_eq!(nic.send(one, tagged(0, 3)), Err(Full));
        assert_eq!(nic.send(other, tagged(0, 4)), Ok(()));
        assert!(nic.was_full && nic.outs.len() == 3);
        assert!(nic.end_send(one) && !nic.end_send(other), "only one of them had no room");
        assert_eq!(nic.send(one, tagged(0, 3)), Ok(()));
    }

    #[test]
    fn a_message_that_no_receive_has_met_waits_for_those_it_had_no_room_for() {
        let (mut nic, mut memory) = nic();
        let into = memory.alloc(8);
        for token in 1..4 {
            nic.post(&mut memory, &wanted(None, token, 0), into, Token(token)).unwrap();
        }
        assert!(!nic.arrive(&mut memory, tagged(0, 9)), "nobody was refused");
        assert_eq!(nic.post(&mut memory, &wanted(None, 4, 0), into, Token(4)), Err(Full));
        assert!(nic.arrive(&mut memory, tagged(0, 4)) && !nic.arrive(&mut memory, tagged(0, 3)));
        let mut wants = |_, message: &TaggedMessage| message.match_bits.0 == 4;
        let [first, none] =
            [7, 8].map(|name| nic.claim_first(PtIndex(0), &mut wants, Token(name)).is_some());
        assert!(first && !none);
        nic.take(&mut memory, Token(7), into);
        assert_eq!((met(&mut nic), memory.read(into)), (vec![(3, 0)], &[4; 8][..]));
        nic.post(&mut memory, &wanted(None, 4, 0), into, Token(4)).unwrap();
        assert!(!nic.arrive(&mut memory, tagged(0, 8)), "there was room for it");
    }

    #[test]
    fn what_has_met_cannot_be_taken_back() {
        let (mut nic, mut memory) = nic();
        let into = memory.alloc(4);
        nic.post(&mut memory, &wanted(None, 5, 0), into, Token(1)).unwrap();
        assert!(nic.cancel(Token(1)) && !nic.cancel(Token(1)));
        nic.post(&mut memory, &wanted(None, 5, 0), into, Token(2)).unwrap();
        nic.arrive(&mut memory, tagged(0, 5));
        assert!(!nic.cancel(Token(2)));
        assert_eq!(memory.read(into), [5; 4], "no more than fits");
        assert!(nic.is_empty());
    }

    #[test]
    fn a_claimed_message_is_out_of_the_matching_and_acknowledged_when_it_is_taken() {
        let (mut nic, mut memory) = nic();
        let into = memory.alloc(8);
        nic.arrive(&mut memory, tagged(0, 5));
        assert!(nic.search(&wanted(None, 5, 0), None).is_some());
        assert!(nic.search(&wanted(None, 5, 0), Some(Token(9))).is_some());
        nic.post(&mut memory, &wanted(None, 5, 0), into, Token(1)).unwrap();
        assert!(nic.outs.is_empty() && !nic.is_empty());
        nic.take(&mut memory, Token(9), into);
        assert!(matches!(nic.outs[..], [Out::Acknowledge(PeerId(0), Token(5))]));
    }
}
