//! The Portals engine as it is measured: one interface whose packets are made
//! here, without a rail.
//!
//! Messages have no bytes, so what is measured is the matching and what the
//! engine does around it: numbering and credits of the packet, the tables of
//! entries and headers, and the event, which is taken out of its queue as a
//! program would.

use crate::matching::script::{Element, PEERS, Subject};
use anyhow::{Context, Result, ensure};
use sluice_link::{Layout, NullPort, Opened};
use sluice_portals::{Eq, EqTaken, Handle, Limits, List, MeOptions, MeSpec, Ni, PtOptions, Taken};
use sluice_wire::{Credits, MatchBits, Packet, PacketSeq, Parsed, PtIndex, Put};

const PT: PtIndex = PtIndex(0);
const EVENTS_MAX: usize = 64;

/// What a receive of a program is: used once, and heard of once. Nobody wants
/// to hear that it was linked or, after its message, unlinked.
#[inline]
fn receive() -> MeOptions {
    MeOptions {
        op_put: true,
        use_once: true,
        event_link_disable: true,
        event_unlink_disable: true,
        ..MeOptions::default()
    }
}

/// What takes messages nobody waits for. A program hears of them when an entry
/// takes them.
fn overflow() -> MeOptions {
    let options = MeOptions { op_put: true, event_comm_disable: true, ..MeOptions::default() };
    MeOptions { event_link_disable: true, ..options }
}

/// A mailbox as a rail divides it.
pub fn layout() -> Result<Layout> {
    Ok(Layout::divide(PEERS as u16, 1 << 16)?)
}

/// A port that does nothing: what is measured is the engine's own.
pub fn port(layout: &Layout) -> NullPort {
    NullPort { opened: Opened { grant: layout.grant, dynamic_slots: 0 } }
}

/// Puts without bytes, each with the next number of its sender.
#[derive(Debug)]
pub struct Packets {
    parsed: Parsed,
    next_seq: [PacketSeq; PEERS as usize],
}

impl Packets {
    pub fn new() -> Result<Packets> {
        let put = Packet::Put(Put {
            pt_index: PT,
            match_bits: MatchBits(0),
            hdr_data: 0,
            user: 0,
            remote_offset: 0,
            ack: None,
            rts: None,
            bulk: None,
            by_control: false,
        });
        let head = put.emit(PacketSeq(0), Credits::default(), 0);
        let parsed = Packet::parse(head.bytes()).context("a put that was just written")?;
        Ok(Packets { parsed, next_seq: [PacketSeq(0); PEERS as usize] })
    }

    /// The message of an element.
    #[inline]
    pub fn next(&mut self, element: &Element) -> &Parsed {
        let seq = &mut self.next_seq[element.from.index()];
        self.parsed.seq = *seq;
        *seq = seq.next();
        if let Packet::Put(put) = &mut self.parsed.packet {
            put.match_bits = element.bits;
            put.hdr_data = element.serial;
        }
        &self.parsed
    }
}

/// An interface with a portal table entry.
#[derive(Debug)]
struct Engine {
    ni: Ni,
    port: NullPort,
    eq: Handle<Eq>,
    packets: Packets,
    /// Answers that were not what they should be.
    wrong: u64,
}

impl Engine {
    fn new() -> Result<Engine> {
        let layout = layout()?;
        // Else the credits granted would bound how deep the list can be.
        let limits = Limits { credits_until_matched: false, ..Limits::default() };
        let mut ni = Ni::new(limits, layout);
        let eq = ni.eq_alloc(EVENTS_MAX)?;
        ni.pt_alloc(PT, PtOptions::default(), Some(eq))?;
        Ok(Engine { ni, port: port(&layout), eq, packets: Packets::new()?, wrong: 0 })
    }

    /// The element's message arrives.
    #[inline]
    fn arrive(&mut self, element: &Element) {
        let packet = self.packets.next(element);
        let taken = self.ni.on_packet(&mut self.port, element.from, packet);
        self.wrong += u64::from(taken == Taken::Violation);
    }

    /// The element's entry is appended. `meets`: there is a message for it.
    #[inline]
    fn append(&mut self, element: &Element, meets: bool) {
        let spec = MeSpec {
            match_bits: element.entry_bits,
            ignore_bits: element.ignore,
            source: element.source,
            options: receive(),
            user_ptr: element.serial,
            ..MeSpec::default()
        };
        let appended = self.ni.me_append(&mut self.port, PT, List::Priority, spec);
        let sound = appended.is_ok_and(|linked| linked.is_none() == meets);
        self.wrong += u64::from(!sound);
    }

    /// Takes events until there are none: one, which names the element twice.
    #[inline]
    fn drain(&mut self, element: &Element) {
        let mut events = 0;
        loop {
            match self.ni.eq_take(self.eq) {
                EqTaken::Empty => break,
                EqTaken::Event(event) => {
                    let named = [event.user_ptr, event.hdr_data];
                    self.wrong += u64::from(named != [element.serial; 2]);
                }
                EqTaken::EventAfterDrop(_) => self.wrong += 1,
            }
            events += 1;
        }
        self.wrong += u64::from(events != 1);
    }

    fn check(&self) -> Result<()> {
        let status = self.ni.status();
        ensure!(
            self.wrong == 0 && status.dropped == 0,
            "the engine matched wrongly: {} wrong answers, {status:?}",
            self.wrong
        );
        #[cfg(test)]
        self.ni.check_invariants();
        Ok(())
    }
}

/// Entries that wait for messages.
#[derive(Debug)]
pub struct Posted(Engine);

impl Posted {
    pub fn new() -> Result<Posted> {
        Ok(Posted(Engine::new()?))
    }
}

impl Subject for Posted {
    #[inline]
    fn append(&mut self, element: &Element) {
        self.0.append(element, false);
    }

    #[inline]
    fn take(&mut self, element: &Element) {
        self.0.arrive(element);
        self.0.drain(element);
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }
}

/// Messages that wait for entries.
#[derive(Debug)]
pub struct Unexpected(Engine);

impl Unexpected {
    pub fn new() -> Result<Unexpected> {
        let mut engine = Engine::new()?;
        let all = MeSpec { ignore_bits: u64::MAX, options: overflow(), ..MeSpec::default() };
        engine.ni.me_append(&mut engine.port, PT, List::Overflow, all)?;
        Ok(Unexpected(engine))
    }
}

impl Subject for Unexpected {
    #[inline]
    fn append(&mut self, element: &Element) {
        self.0.arrive(element);
    }

    #[inline]
    fn take(&mut self, element: &Element) {
        self.0.append(element, true);
        self.0.drain(element);
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }
}
