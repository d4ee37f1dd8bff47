//! Event queues (Portals 4, section 3.13).

use crate::event::Event;
use std::collections::VecDeque;

/// A bounded queue of events. What does not fit is dropped, and the next event
/// taken out says so.
#[derive(Debug)]
pub struct Eq {
    events: VecDeque<Event>,
    events_max: usize,
    dropped: bool,
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
        Eq { events: VecDeque::with_capacity(events_max.min(64)), events_max, dropped: false }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() >= self.events_max {
            self.dropped = true;
        } else {
            self.events.push_back(event);
        }
    }

    #[inline(always)]
    pub(crate) fn take(&mut self) -> Taken {
        match self.events.pop_front() {
            None => Taken::Empty,
            Some(event) if self.dropped => {
                self.dropped = false;
                Taken::EventAfterDrop(event)
            }
            Some(event) => Taken::Event(event),
        }
    }
}
