//! What the engine is compared with: a plain linked list that is walked from
//! its oldest element, alone ([`PlainList`]) and with what any target must do
//! around it ([`PlainTarget`]).

use crate::matching::case::Queue;
use crate::matching::engine::{Packets, layout, port};
use crate::matching::script::{Element, Subject};
use anyhow::{Result, ensure};
use sluice_link::{Links, NullPort};
use sluice_portals::{Event, EventKind};
use sluice_wire::{MatchBits, Packet, PeerId, PtIndex};
use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct ListNode {
    bits: MatchBits,
    ignore: u64,
    source: PeerId,
    any_source: bool,
    serial: u64,
    prev: u32,
    next: u32,
}

/// A doubly linked list.
#[derive(Debug)]
pub struct PlainList {
    queue: Queue,
    nodes: Vec<ListNode>,
    head: u32,
    tail: u32,
    free: u32,
    wrong: u64,
}

impl PlainList {
    pub fn new(queue: Queue) -> PlainList {
        PlainList { queue, nodes: Vec::new(), head: NONE, tail: NONE, free: NONE, wrong: 0 }
    }

    #[inline]
    fn push(&mut self, mut node: ListNode) {
        node.prev = self.tail;
        let at = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].next;
            self.nodes[at as usize] = node;
            at
        };
        match self.tail {
            NONE => self.head = at,
            tail => self.nodes[tail as usize].next = at,
        }
        self.tail = at;
    }

    /// Takes the first that `is_it` out, and says which that was.
    #[inline]
    fn take_first(&mut self, is_it: impl Fn(&ListNode) -> bool) -> Option<u64> {
        let mut at = self.head;
        while at != NONE && !is_it(&self.nodes[at as usize]) {
            at = self.nodes[at as usize].next;
        }
        if at == NONE {
            return None;
        }
        let ListNode { serial, prev, next, .. } = self.nodes[at as usize];
        match prev {
            NONE => self.head = next,
            prev => self.nodes[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => self.nodes[next as usize].prev = prev,
        }
        self.nodes[at as usize].next = self.free;
        self.free = at;
        Some(serial)
    }

    /// Takes the element out; finds it as its queue does.
    #[inline]
    fn take_out(&mut self, element: &Element) -> Option<u64> {
        match self.queue {
            Queue::Posted => self.take_first(|node| {
                node.bits.accepts(node.ignore, element.bits)
                    && (node.any_source || node.source == element.from)
            }),
            Queue::Unexpected => self.take_first(|node| {
                element.entry_bits.accepts(element.ignore, node.bits)
                    && element.source.is_none_or(|source| source == node.source)
            }),
        }
    }
}

impl Subject for PlainList {
    #[inline]
    fn append(&mut self, element: &Element) {
        let (bits, source) = match self.queue {
            Queue::Posted => (element.entry_bits, element.source),
            Queue::Unexpected => (element.bits, Some(element.from)),
        };
        self.push(ListNode {
            bits,
            ignore: element.ignore,
            source: source.unwrap_or(PeerId(0)),
            any_source: source.is_none(),
            serial: element.serial,
            prev: NONE,
            next: NONE,
        });
    }

    #[inline]
    fn take(&mut self, element: &Element) {
        let taken = self.take_out(element);
        self.wrong += u64::from(taken != Some(element.serial));
    }

    fn check(&self) -> Result<()> {
        ensure!(self.wrong == 0, "the plain list matched wrongly {} times", self.wrong);
        Ok(())
    }
}

/// A plain list behind the engine's own links, with an event for each match:
/// what is left of the engine if nothing but one list is asked of it.
#[derive(Debug)]
pub struct PlainTarget {
    list: PlainList,
    links: Links,
    port: NullPort,
    packets: Packets,
    events: VecDeque<Event>,
}

impl PlainTarget {
    pub fn new(queue: Queue) -> Result<PlainTarget> {
        let layout = layout()?;
        Ok(PlainTarget {
            list: PlainList::new(queue),
            links: Links::new(layout),
            port: port(&layout),
            packets: Packets::new()?,
            events: VecDeque::new(),
        })
    }

    /// The element's message arrives, and its credits go back.
    #[inline]
    fn arrive(&mut self, element: &Element) {
        let packet = self.packets.next(element);
        let arrival = self.links.on_arrival(element.from, packet);
        let is_put = matches!(packet.packet, Packet::Put(_));
        match arrival {
            Ok(arrival) if is_put => {
                self.links.free_data(&mut self.port, element.from, arrival.slots);
            }
            _ => self.list.wrong += 1,
        }
    }
}

impl Subject for PlainTarget {
    #[inline]
    fn append(&mut self, element: &Element) {
        if self.list.queue == Queue::Unexpected {
            self.arrive(element);
        }
        self.list.append(element);
    }

    #[inline]
    fn take(&mut self, element: &Element) {
        if self.list.queue == Queue::Posted {
            self.arrive(element);
        }
        let taken = self.list.take_out(element).unwrap_or(u64::MAX);
        let mut event = Event::new(EventKind::Put, PtIndex(0), element.from, taken);
        event.match_bits = element.bits;
        event.hdr_data = element.serial;
        self.events.push_back(event);
        while let Some(event) = self.events.pop_front() {
            self.list.wrong += u64::from(event.user_ptr != event.hdr_data);
        }
    }

    fn check(&self) -> Result<()> {
        self.list.check()
    }
}
