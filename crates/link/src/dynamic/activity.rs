//! The four activity lists (EXTOLL paper, section 6.2): every sender is in exactly
//! one of them.
//!
//! The lists are links between numbered senders, so a move costs the same however
//! many there are. High, medium and low are three places that take turns: to shift
//! the lists is to say which place is high.

/// How active a sender was, beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Has only its static slots left of its intended quota.
    Null,
    /// Has spent its credits least often.
    Low,
    /// Between the others.
    Medium,
    /// Has spent its credits most often.
    High,
}

/// No sender.
const NONE: u32 = u32::MAX;
/// The place of the null list; the first three take turns.
const NULL_PLACE: u8 = 3;
/// The place of a number that no sender has.
const NOWHERE: u8 = 4;

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    before: u32,
    after: u32,
    place: u8,
}

/// The lists.
#[derive(Debug)]
pub(crate) struct ActivityLists {
    nodes: Vec<Node>,
    places: [Ends; 4],
    high: u8,
}

impl ActivityLists {
    /// Heap bytes of one sender.
    pub(crate) const SENDER_BYTES: usize = size_of::<Node>();

    pub(crate) fn new() -> ActivityLists {
        let empty = Ends { first: NONE, last: NONE };
        ActivityLists { nodes: Vec::new(), places: [empty; 4], high: 0 }
    }

    /// Adds a sender at the end of a list. Numbers are used again, so there are
    /// never more than there were senders at once.
    pub(crate) fn add_last(&mut self, sender: u32, to: Activity) {
        let at = sender as usize;
        if at == self.nodes.len() {
            self.nodes.push(Node { before: NONE, after: NONE, place: NOWHERE });
        }
        assert!(self.nodes[at].place == NOWHERE, "a sender is in one list only");
        let place = self.place(to);
        let last = self.places[usize::from(place)].last;
        self.nodes[at] = Node { before: last, after: NONE, place };
        match last {
            NONE => self.places[usize::from(place)].first = sender,
            last => self.nodes[last as usize].after = sender,
        }
        self.places[usize::from(place)].last = sender;
    }

    /// Removes a sender from its list.
    pub(crate) fn remove(&mut self, sender: u32) {
        let Node { before, after, place } = self.nodes[sender as usize];
        assert!(place != NOWHERE, "a sender is in one list");
        match before {
            NONE => self.places[usize::from(place)].first = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.places[usize::from(place)].last = before,
            after => self.nodes[after as usize].before = before,
        }
        self.nodes[sender as usize].place = NOWHERE;
    }

    /// Moves a sender to the first position of a list.
    pub(crate) fn move_first(&mut self, sender: u32, to: Activity) {
        self.remove(sender);
        let place = self.place(to);
        let first = self.places[usize::from(place)].first;
        self.nodes[sender as usize] = Node { before: NONE, after: first, place };
        match first {
            NONE => self.places[usize::from(place)].last = sender,
            first => self.nodes[first as usize].before = sender,
        }
        self.places[usize::from(place)].first = sender;
    }

    /// High becomes medium, medium becomes low, and high is empty.
    ///
    /// # Panics
    /// If low is not empty.
    pub(crate) fn shift(&mut self) {
        assert!(self.last(Activity::Low).is_none(), "only an empty low list is given up");
        self.high = self.place(Activity::Low);
    }

    pub(crate) fn of(&self, sender: u32) -> Activity {
        let place = self.nodes[sender as usize].place;
        assert!(place != NOWHERE, "a sender is in one list");
        if place == NULL_PLACE {
            return Activity::Null;
        }
        match (place + 3 - self.high) % 3 {
            0 => Activity::High,
            1 => Activity::Medium,
            _ => Activity::Low,
        }
    }

    pub(crate) fn first(&self, of: Activity) -> Option<u32> {
        let first = self.places[usize::from(self.place(of))].first;
        (first != NONE).then_some(first)
    }

    pub(crate) fn last(&self, of: Activity) -> Option<u32> {
        let last = self.places[usize::from(self.place(of))].last;
        (last != NONE).then_some(last)
    }

    /// The senders of one list, first to last.
    pub(crate) fn iter(&self, of: Activity) -> impl Iterator<Item = u32> + '_ {
        let after = |&sender: &u32| {
            let after = self.nodes[sender as usize].after;
            (after != NONE).then_some(after)
        };
        std::iter::successors(self.first(of), after)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.nodes.capacity() * ActivityLists::SENDER_BYTES
    }

    /// Panics unless each of `senders` senders is in exactly one list, and every
    /// list can be walked both ways.
    pub(crate) fn check_invariants(&self, senders: usize) {
        let mut seen = 0;
        for of in [Activity::Null, Activity::Low, Activity::Medium, Activity::High] {
            let mut before = NONE;
            for sender in self.iter(of) {
                assert!(self.of(sender) == of && self.nodes[sender as usize].before == before);
                before = sender;
                seen += 1;
                assert!(seen <= senders, "a list goes in a circle");
            }
            assert!(self.last(of).unwrap_or(NONE) == before);
        }
        assert!(seen == senders, "a sender is in no list");
    }

    fn place(&self, of: Activity) -> u8 {
        match of {
            Activity::High => self.high,
            Activity::Medium => (self.high + 1) % 3,
            Activity::Low => (self.high + 2) % 3,
            Activity::Null => NULL_PLACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(lists: &ActivityLists) -> [Vec<u32>; 4] {
        [Activity::High, Activity::Medium, Activity::Low, Activity::Null]
            .map(|of| lists.iter(of).collect())
    }

    #[test]
    fn senders_enter_last_and_move_first() {
        let mut all = ActivityLists::new();
        for sender in 0..4 {
            all.add_last(sender, Activity::Low);
        }
        assert_eq!(lists(&all), [vec![], vec![], vec![0, 1, 2, 3], vec![]]);
        all.move_first(2, Activity::Medium);
        all.move_first(0, Activity::Medium);
        all.move_first(3, Activity::Null);
        assert_eq!(lists(&all), [vec![], vec![0, 2], vec![1], vec![3]]);
        all.move_first(2, Activity::Medium);
        assert_eq!(lists(&all), [vec![], vec![2, 0], vec![1], vec![3]]);
        all.remove(1);
        all.check_invariants(3);
        all.add_last(1, Activity::Low);
        all.check_invariants(4);
    }

    #[test]
    fn a_shift_lowers_high_and_medium_by_one() {
        let mut all = ActivityLists::new();
        for sender in 0..5 {
            all.add_last(sender, Activity::Low);
        }
        for sender in [0, 1] {
            all.move_first(sender, Activity::High);
        }
        for sender in [2, 3] {
            all.move_first(sender, Activity::Medium);
        }
        all.move_first(4, Activity::Null);
        all.shift();
        assert_eq!(lists(&all), [vec![], vec![1, 0], vec![3, 2], vec![4]]);
        for sender in [3, 2] {
            all.move_first(sender, Activity::High);
        }
        all.check_invariants(5);
        all.shift();
        assert_eq!(lists(&all), [vec![], vec![2, 3], vec![1, 0], vec![4]]);
        for sender in [0, 1] {
            all.move_first(sender, Activity::Null);
        }
        all.shift();
        assert_eq!(lists(&all), [vec![], vec![], vec![2, 3], vec![1, 0, 4]]);
        all.check_invariants(5);
    }

    #[test]
    #[should_panic(expected = "only an empty low list")]
    fn a_low_list_with_senders_is_not_given_up() {
        let mut all = ActivityLists::new();
        all.add_last(0, Activity::Low);
        all.shift();
    }
}
