//! Packets on their way or unread, in as few bytes as they need.
//!
//! A run without limits has tens of millions of packets unread at once. Those
//! of the packet layer, which carry no bytes, and those of credits are kept in
//! 16 bytes; any other packet lies in a store and its flight says where. Both
//! go through the wire format first, so nothing travels that could not.

use sluice_wire::{
    Credits, HeadBuf, MatchBits, Packet, PacketSeq, Parsed, PeerId, PtIndex, Put, ReturnResponse,
};

/// What a flight stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// A put of nothing but match bits and the byte of the layer above.
    Short,
    Credit,
    /// A request to give credits back, and its answer.
    Request,
    Response,
    /// In the store.
    Stored,
}

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    seq: u32,
    /// Match bits of a short put, credits given back, place in the store.
    value: u32,
    /// As the receiver numbers it.
    from: u16,
    credits: u16,
    control_credits: u8,
    user: u8,
    kind: Kind,
}

const _: () = assert!(size_of::<Flight>() == 16);

/// Packets that are kept whole, and their payloads.
#[derive(Debug, Default)]
pub(crate) struct Store {
    places: Vec<Option<(Parsed, Box<[u8]>)>>,
    free: Vec<u32>,
}

impl Flight {
    /// Packs what `head` begins; `from` is how the receiver numbers the sender.
    pub fn pack(head: &HeadBuf, payload: Box<[u8]>, from: PeerId, store: &mut Store) -> Flight {
        let parsed = Packet::parse(head.bytes()).expect("what was emitted can be parsed");
        let (kind, value, user) = match parsed.packet {
            Packet::Credit => (Kind::Credit, 0, 0),
            Packet::ReturnRequest => (Kind::Request, 0, 0),
            // More slots than any mailbox here has are nobody's to give back.
            Packet::ReturnResponse(response) => (Kind::Response, response.slots as u32, 0),
            Packet::Put(put) if is_short(&put) && parsed.payload_len == 0 => {
                (Kind::Short, put.match_bits.0 as u32, put.user)
            }
            _ => (Kind::Stored, store.keep(parsed, payload), 0),
        };
        Flight {
            seq: parsed.seq.0,
            value,
            from: from.0 as u16,
            credits: parsed.credits.data,
            control_credits: parsed.credits.control,
            user,
            kind,
        }
    }

    /// The packet, and its payload if it carries one. It is no longer in the
    /// store then.
    pub fn unpack(self, store: &mut Store) -> (Parsed, Box<[u8]>) {
        let packet = match self.kind {
            Kind::Stored => return store.fetch(self.value),
            Kind::Credit => Packet::Credit,
            Kind::Request => Packet::ReturnRequest,
            Kind::Response => {
                Packet::ReturnResponse(ReturnResponse { slots: u64::from(self.value) })
            }
            Kind::Short => Packet::Put(short(self.user, self.value)),
        };
        let credits = Credits { data: self.credits, control: self.control_credits };
        let parsed = Parsed {
            seq: PacketSeq(self.seq),
            credits,
            packet,
            payload_offset: packet.header_bytes(),
            payload_len: 0,
        };
        (parsed, Box::default())
    }

    /// The packet, which stays where it is.
    pub fn peek(self, store: &Store) -> Parsed {
        match self.kind {
            Kind::Stored => store.places[self.value as usize].as_ref().expect("it is kept").0,
            _ => self.unpack(&mut Store::default()).0,
        }
    }

    /// Its number among those of its pair.
    pub fn seq(self) -> u32 {
        self.seq
    }

    /// The bytes that it carries, if they were not known when it was packed.
    pub fn fill(self, payload: Box<[u8]>, store: &mut Store) {
        if self.kind == Kind::Stored {
            store.places[self.value as usize].as_mut().expect("it is kept").1 = payload;
        }
    }

    /// As the receiver numbers the sender.
    pub fn from(self) -> PeerId {
        PeerId(u32::from(self.from))
    }

    /// Whether it is of the flow control alone, and carries nothing of a message.
    pub fn is_of_credits(self) -> bool {
        matches!(self.kind, Kind::Credit | Kind::Request | Kind::Response)
    }

    /// Slots that it takes where messages lie.
    pub fn message_slots(self, store: &Store) -> u32 {
        match self.kind {
            Kind::Short => 1,
            Kind::Credit | Kind::Request | Kind::Response => 0,
            Kind::Stored => self.peek(store).slots(),
        }
    }

    /// The byte and the match bits of a short put.
    pub fn short(self) -> (u8, u32) {
        (self.user, self.value)
    }
}

/// A put of the packet layer.
pub(crate) fn short(user: u8, value: u32) -> Put {
    Put {
        pt_index: PtIndex(0),
        match_bits: MatchBits(u64::from(value)),
        hdr_data: 0,
        user,
        remote_offset: 0,
        ack: None,
        rts: None,
        bulk: None,
        by_control: false,
    }
}

fn is_short(put: &Put) -> bool {
    put.match_bits.0 <= u64::from(u32::MAX) && *put == short(put.user, put.match_bits.0 as u32)
}

impl Store {
    fn keep(&mut self, parsed: Parsed, payload: Box<[u8]>) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[place as usize] = Some((parsed, payload));
        place
    }

    fn fetch(&mut self, place: u32) -> (Parsed, Box<[u8]>) {
        self.free.push(place);
        self.places[place as usize].take().expect("a packet is fetched once")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_wire::{RemoteKey, Rts};

    #[test]
    fn what_is_packed_comes_out_as_it_was() {
        let mut store = Store::default();
        let (from, key) = (RemoteKey::from_bits(7), MatchBits(u64::MAX));
        let rts = Some(Rts { total_len: 9, from, key, claims: None });
        let packets = [
            Packet::Credit,
            Packet::ReturnRequest,
            Packet::ReturnResponse(ReturnResponse { slots: 70_000 }),
            Packet::Put(short(3, 2048)),
            Packet::Put(Put { rts, ..short(1, 5) }),
            Packet::Put(Put { hdr_data: 8, ..short(1, 5) }),
        ];
        for (seq, packet) in packets.into_iter().enumerate() {
            let credits = Credits { data: 65_535, control: 200 };
            let head = packet.emit(PacketSeq(seq as u32), credits, 0);
            let wanted = Packet::parse(head.bytes()).expect("it was emitted");
            let flight = Flight::pack(&head, Box::default(), PeerId(65_534), &mut store);
            assert_eq!(flight.from(), PeerId(65_534));
            assert_eq!(flight.peek(&store), wanted);
            assert_eq!(flight.unpack(&mut store).0, wanted);
        }
        assert_eq!(store.free.len(), store.places.len());
    }
}
