//! Event queues (Portals 4, section 3.13).

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
}

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
        }
    }

    /// Adds an event whatever the bound: there is one of its kind at most for
    /// each portal table entry.
    pub(crate) fn push_over(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Whether `events` more fit besides those that places are kept for.
    pub(crate) fn has_room(&self, events: usize) -> bool {
        self.events.len() + self.kept + events <= self.events_max
    }

    /// How many events fit.
    pub(crate) fn events_max(&self) -> usize {
        self.events_max
    }

    /// Keeps places for events to come.
    pub(crate) fn keep(&mut self, events: usize) {
        self.kept += events;
    }

    /// Gives kept places back.
    pub(crate) fn give_back(&mut self, events: usize) {
        self.kept = self.kept.saturating_sub(events);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() + self.kept >= self.events_max {
            self.dropped = true;
        } else {
            self.events.push_back(event);
        }
    }

    #[inline(always)]
    pub(crate) fn take(&mut self) -> Taken {
        let Some(event) = self.events.pop_front() else { return Taken::Empty };
        if self.events.is_empty() {
            // The next one is written where this one was: those lines are at hand.
            self.events.clear();
        }
        if self.dropped {
            self.dropped = false;
            return Taken::EventAfterDrop(event);
        }
        Taken::Event(event)
    }
}
