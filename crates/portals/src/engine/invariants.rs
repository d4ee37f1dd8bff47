//! What must be so after every step.

use crate::engine::ni::Ni;
use crate::objects::operation::Stage;
use crate::objects::status::UnexpectedBytes;
use sluice_wire::{List, PeerId};

impl Ni {
    /// Panics unless the interface's books are in order.
    pub fn check_invariants(&self) {
        self.links.check_invariants();
        let mut held: Vec<(PeerId, u64)> = Vec::new();
        for (_, header) in self.headers.iter() {
            match held.iter_mut().find(|(peer, _)| *peer == header.peer) {
                Some((_, slots)) => *slots += u64::from(header.slots),
                None => held.push((header.peer, u64::from(header.slots))),
            }
        }
        let mut departed = 0;
        for (peer, slots) in held {
            match self.links.ledger(peer) {
                Some(ledger) => assert!(
                    slots <= u64::from(ledger.data_held),
                    "unexpected headers hold more credits than the mailbox is short of"
                ),
                None => departed += slots,
            }
        }
        let moving = self.operations.iter().filter_map(|(_, operation)| match &operation.stage {
            Stage::Incoming(incoming) => incoming.held(),
            _ => None,
        });
        let gone = moving.filter(|(peer, _)| self.links.ledger(*peer).is_none());
        departed += gone.map(|(_, slots)| u64::from(slots)).sum::<u64>();
        assert_eq!(departed, self.links.slots_departed(), "slots of peers that are gone");
        let kept: u64 = self
            .headers
            .iter()
            .map(|(_, kept)| UnexpectedBytes::RECORD + UnexpectedBytes::lent(kept.lent_len()))
            .sum();
        assert!(self.unexpected_bytes.now == kept, "memory of unexpected messages");
        let mut waiting = 0;
        for queue in self.waiting.values() {
            assert!(!queue.is_empty(), "a peer nothing waits for has no queue");
            waiting += queue.len();
        }
        assert!(waiting == self.waiting_now);
        for (&peer, kept) in &self.kept_untold {
            assert!(!kept.is_empty() && self.links.ledger(peer).is_some(), "nobody is to be told");
            let mut headers = kept.iter().filter_map(|&kept| self.headers.locate(kept));
            assert!(headers.all(|slot| self.headers.at(slot).peer == peer), "of another's put");
        }
        let mut triggers = 0;
        for (ct, counter) in self.cts.iter() {
            triggers += self.triggers.len_of(ct);
            assert!(counter.threshold == self.triggers.first_threshold(ct));
        }
        assert!(triggers == self.triggers.len(), "no command waits for a counter that is gone");
        self.check_lists();
        self.check_recovery();
    }

    fn check_lists(&self) {
        self.mes.check_invariants();
        self.headers.check_invariants();
        let mut linked = 0;
        for (nth, pt) in self.pts.iter().enumerate() {
            let Some(pt) = pt else { continue };
            pt.unexpected.check_invariants(&self.headers);
            for slot in pt.unexpected.slots(&self.headers) {
                let header = self.headers.at(slot);
                assert!(usize::from(header.pt_index.0) == nth);
                assert!(!header.arriving || self.headers.beside(slot).claim.is_none());
                let entry = self.mes.locate(header.entry);
                assert!(entry.is_some_and(|entry| self.mes.cold(entry).headers > 0));
            }
            for (list, entries) in [(List::Priority, &pt.priority), (List::Overflow, &pt.overflow)]
            {
                entries.check_invariants(&self.mes);
                for slot in entries.slots(&self.mes) {
                    let me = self.mes.at(slot);
                    assert!(usize::from(me.pt_index.0) == nth && me.list() == list);
                    linked += 1;
                }
            }
        }
        for (slot, _) in self.mes.iter() {
            let cold = self.mes.cold(slot);
            let is_linked = self.mes.is_listed(slot);
            linked -= i64::from(is_linked);
            assert!(is_linked || cold.busy > 0 || cold.headers > 0, "an entry nobody refers to");
        }
        assert!(linked == 0, "every linked entry is in one list");
    }
}
