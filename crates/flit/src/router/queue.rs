//! An output queue: flits that passed the switch and wait for the link.
//!
//! Most queues hold a few flits. So 30 flits are stored in the router itself, and a
//! queue takes one cache line. Only a longer queue allocates memory, for the flits
//! behind these.

use crate::packet::Flit;
use std::collections::VecDeque;

const NEAR: u8 = 30;

/// The queue of one output port.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Queue {
    near: [Flit; NEAR as usize],
    first: u8,
    near_len: u8,
    /// The flits that do not fit into `near`. A flit moves from here to `near`
    /// whenever one leaves that, so `near` is full unless this is empty.
    far: VecDeque<Flit>,
}

const _: () = assert!(size_of::<Queue>() == 64);

/// The index in `near` of a place that may lie beyond its end.
#[inline(always)]
fn around(place: u8) -> usize {
    usize::from(if place >= NEAR { place - NEAR } else { place })
}

impl Queue {
    #[inline(always)]
    pub fn push(&mut self, flit: Flit) {
        if self.near_len < NEAR {
            self.near[around(self.first + self.near_len)] = flit;
            self.near_len += 1;
        } else {
            self.far.push_back(flit);
        }
    }

    /// The flit that leaves; the queue is not empty.
    #[inline(always)]
    pub fn pop(&mut self) -> Flit {
        debug_assert!(self.near_len > 0);
        let place = around(self.first);
        let flit = self.near[place];
        self.first = around(self.first + 1) as u8;
        if self.near_len == NEAR
            && let Some(behind) = self.far.pop_front()
        {
            self.near[place] = behind;
        } else {
            self.near_len -= 1;
        }
        flit
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.near_len == 0
    }

    #[inline(always)]
    pub fn is_single(&self) -> bool {
        self.near_len == 1
    }

    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.near_len) + self.far.len()
    }

    /// What is in the queue.
    pub fn iter(&self) -> impl Iterator<Item = Flit> + '_ {
        let near = (0..self.near_len).map(|nth| self.near[around(self.first + nth)]);
        near.chain(self.far.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_queue(pushes in prop::collection::vec(any::<bool>(), 0..400)) {
            let (mut queue, mut oracle) = (Queue::default(), VecDeque::new());
            for (nth, push) in pushes.into_iter().enumerate() {
                if push || oracle.is_empty() {
                    queue.push(nth as u8);
                    oracle.push_back(nth as u8);
                } else {
                    prop_assert_eq!(Some(queue.pop()), oracle.pop_front());
                }
                prop_assert_eq!(queue.is_empty(), oracle.is_empty());
                prop_assert_eq!(queue.is_single(), oracle.len() == 1);
                prop_assert_eq!(queue.len(), oracle.len());
                prop_assert!(queue.iter().eq(oracle.iter().copied()));
            }
        }
    }
}
