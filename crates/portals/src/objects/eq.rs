//! Event queues (Portals 4, section 3.13).
//!
//! A queue of an interface that recovers ([`Eq::apart`]) has two shares, each of as many
//! places as the program asked for: one for the events of this process's own operations,
//! whose places are kept beforehand, and one for all others. So neither holds up the
//! other, and two processes cannot wait for each other's queues.

use crate::objects::event::Event;
use std::collections::VecDeque;

/// A bounded queue of events. What does not fit is dropped, and the next event
/// taken out says so.
#[derive(Debug)]
pub struct Eq {
    events: VecDeque<Event>,
    events_max: usize,
    dropped: bool,
    /// Places kept for events of operations whose data is on its way.
    kept: usize,
    /// The share of this process's own operations, where the interface recovers.
    own: Option<Box<Own>>,
}

/// The share of a queue that own operations have, and who waits for places.
#[derive(Debug, Default)]
struct Own {
    /// Events of own operations in the queue.
    queued: usize,
    /// Places kept for more of them.
    kept: usize,
    /// An own operation found no place.
    is_awaited: bool,
    /// Places that another's operation found missing; zero if none did.
    wanted: usize,
}

/// Most events that one operation of another process causes at once: its own, and that its
/// entry is unlinked and free.
const EVENTS_OF_ONE: usize = 3;

/// What a look into a queue found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Taken {
    /// Nothing (`PTL_EQ_EMPTY`).
    Empty,
    /// The oldest event.
    Event(Event),
    /// The oldest event; others before it were dropped (`PTL_EQ_DROPPED`).
    EventAfterDrop(Event),
}

impl Eq {
    pub(crate) fn new(events_max: usize) -> Eq {
        Eq {
            events: VecDeque::with_capacity(events_max.min(64)),
            events_max,
            dropped: false,
            kept: 0,
            own: None,
        }
    }

    /// One in which own operations have a share of their own.
    pub(crate) fn apart(events_max: usize) -> Eq {
        Eq { own: Some(Box::default()), ..Eq::new(events_max) }
    }

    /// Adds an event whatever the bound: there is one of its kind at most for
    /// each portal table entry.
    pub(crate) fn push_over(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Whether `events` more fit besides those that places are kept for. Where own
    /// operations are apart, one operation that needs more than the whole queue has room
    /// when it is empty, since nothing else would ever let it in.
    pub(crate) fn has_room(&self, events: usize) -> bool {
        let Some(own) = &self.own else {
            return self.events.len() + self.kept + events <= self.events_max;
        };
        let others = self.events.len() - own.queued + self.kept;
        others == 0 || others + events <= self.events_max
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Places free for operations of others.
    pub(crate) fn places_free(&self) -> usize {
        let own = self.own.as_ref().map_or(0, |own| own.queued);
        self.events_max.saturating_sub(self.events.len() - own + self.kept)
    }

    /// Whether an entry that has run out of `need` places may be enabled: half of the share
    /// is free, and so many. If not, [`Eq::is_relieved`] tells when.
    pub(crate) fn may_relieve(&mut self, need: usize) -> bool {
        let has_room = self.has_room(need.max(self.events_max.div_ceil(2)));
        if let Some(own) = &mut self.own
            && !has_room
        {
            own.wanted = own.wanted.max(need);
        }
        has_room
    }

    /// Whether what somebody waits for has just become free. Said once.
    #[inline]
    pub(crate) fn is_relieved(&mut self) -> bool {
        if self.own.as_ref().is_none_or(|own| own.wanted == 0 && !own.is_awaited) {
            return false;
        }
        let half = self.events_max.div_ceil(2);
        let wanted = self.own.as_ref().map_or(0, |own| own.wanted);
        let has_room = wanted > 0 && self.has_room(wanted.max(half));
        let events_max = self.events_max;
        let Some(own) = &mut self.own else { return false };
        let has_own = own.is_awaited && own.queued + own.kept <= events_max - half;
        if has_room {
            own.wanted = 0;
        }
        if has_own {
            own.is_awaited = false;
        }
        has_room || has_own
    }

    /// Keeps places for events to come.
    pub(crate) fn keep(&mut self, events: usize) {
        self.kept += events;
    }

    /// Gives kept places back.
    pub(crate) fn give_back(&mut self, events: usize) {
        self.kept = self.kept.saturating_sub(events);
    }

    /// Keeps places for the events of an own operation; false if it must wait for some.
    /// One that needs more than there are has them all.
    #[inline]
    pub(crate) fn keep_own(&mut self, events: usize) -> bool {
        let Some(own) = &mut self.own else { return true };
        let taken = own.queued + own.kept;
        if taken != 0 && taken + events > self.events_max {
            own.is_awaited = true;
            return false;
        }
        own.kept += events;
        true
    }

    /// Gives places back that were kept for an own operation.
    #[inline]
    pub(crate) fn give_back_own(&mut self, events: usize) {
        if let Some(own) = &mut self.own {
            own.kept = own.kept.saturating_sub(events);
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() + self.kept >= self.events_max && !self.has_more_room() {
            self.dropped = true;
        } else {
            self.events.push_back(event);
        }
    }

    /// Where own operations are apart, events that the program causes itself, as by
    /// appending, have as many places again: no operation of others can take those.
    #[cold]
    fn has_more_room(&self) -> bool {
        let Some(own) = &self.own else { return false };
        let others = self.events.len() - own.queued + self.kept;
        others < self.events_max * 2 + EVENTS_OF_ONE
    }

    /// Adds an event of an own operation. Where those are apart, one for which no place is
    /// kept tells of a failure: it is not lost, and there are at most as many as operations.
    #[inline(always)]
    pub(crate) fn push_own(&mut self, event: Event) {
        match &mut self.own {
            Some(own) => {
                own.queued += 1;
                self.events.push_back(event);
            }
            None => self.push(event),
        }
    }

    #[inline(always)]
    pub(crate) fn take(&mut self) -> Taken {
        let Some(event) = self.events.pop_front() else { return Taken::Empty };
        if self.events.is_empty() {
            // The next one is written where this one was: those lines are at hand.
            self.events.clear();
        }
        if let Some(own) = &mut self.own
            && event.kind.is_own()
        {
            own.queued -= 1;
        }
        if self.dropped {
            self.dropped = false;
            return Taken::EventAfterDrop(event);
        }
        Taken::Event(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::event::{EventKind, NOBODY};
    use sluice_wire::PtIndex;

    fn event(kind: EventKind) -> Event {
        Event::new(kind, PtIndex(0), NOBODY, 0)
    }

    #[test]
    fn own_operations_take_no_place_of_others() {
        let mut queue = Eq::apart(2);
        assert!(queue.keep_own(2));
        assert!(!queue.keep_own(1), "its share is full");
        assert!(queue.has_room(2), "the other share is not");
        queue.push(event(EventKind::Put));
        queue.push(event(EventKind::Put));
        assert!(!queue.has_room(1));
        // What the program appends has places that nobody else takes.
        queue.push(event(EventKind::Link));
        queue.give_back_own(2);
        queue.push_own(event(EventKind::Send));
        queue.push_own(event(EventKind::Ack));
        let kinds: Vec<EventKind> = std::iter::from_fn(|| match queue.take() {
            Taken::Event(event) => Some(event.kind),
            Taken::Empty => None,
            Taken::EventAfterDrop(event) => panic!("lost before {event:?}"),
        })
        .collect();
        use EventKind::{Ack, Link, Put, Send};
        assert_eq!(kinds, [Put, Put, Link, Send, Ack]);
        assert!(queue.is_relieved(), "an own operation waited");
        assert!(!queue.is_relieved());
    }

    #[test]
    fn what_needs_more_than_a_queue_has_waits_until_it_is_empty() {
        let mut queue = Eq::apart(2);
        assert!(queue.has_room(3));
        queue.push(event(EventKind::Put));
        assert!(!queue.has_room(3) && !queue.may_relieve(3));
        queue.take();
        assert!(queue.is_relieved() && queue.may_relieve(3));
        for _ in 0..3 {
            queue.push(event(EventKind::Put));
        }
        assert!((0..3).all(|_| matches!(queue.take(), Taken::Event(_))), "none is lost");
    }

    #[test]
    fn a_queue_as_specified_has_its_places_and_no_more() {
        let mut queue = Eq::new(1);
        queue.push_own(event(EventKind::Send));
        queue.push(event(EventKind::Put));
        assert!(matches!(queue.take(), Taken::EventAfterDrop(_)));
        assert!(!queue.is_relieved());
    }
}
