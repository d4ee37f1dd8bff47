//! Looking for headers (Portals 4, sections 3.11 and 3.12), and for the entries that an
//! operation would meet.

use crate::engine::ni::Ni;
use crate::lists::Slab;
use crate::objects::event::{Event, EventKind, NOBODY, NiFail};
use crate::objects::limits::PtlError;
use crate::objects::me::{Me, MeSpec, SearchOp};
use sluice_link::Port;
use sluice_link::mutants::{self, Mutant};
use sluice_wire::{MatchBits, PeerId, PtIndex};

impl Ni {
    /// Looks among the unexpected headers for what `spec` would match
    /// (`PtlMESearch`). The answers are events in the portal table entry's
    /// queue: search events, or, for [`SearchOp::Delete`] with a match, the
    /// overflow events that an append would have caused. An entry that is used
    /// once gets one answer; another, one for each header.
    ///
    /// # Errors
    /// [`PtlError::ArgInvalid`].
    pub fn me_search<P: Port>(
        &mut self,
        port: &mut P,
        pt_index: PtIndex,
        op: SearchOp,
        spec: &MeSpec,
    ) -> Result<(), PtlError> {
        let eq = self.pt(pt_index)?.eq;
        let once = spec.options.use_once;
        let mut found = 0_u32;
        match op {
            SearchOp::Only if once => {
                if let Some(header) = self.find_unexpected(pt_index, spec, 0) {
                    self.tell_found(pt_index, header, spec);
                    found = 1;
                }
            }
            SearchOp::Only => {
                let criteria = Me::criteria_of(spec);
                for header in self.pt(pt_index)?.unexpected.slots(&self.headers) {
                    let kept = self.headers.at(header);
                    if criteria.accept(kept.match_bits, kept.peer) && kept.fits(spec, 0) {
                        self.tell_found(pt_index, header, spec);
                        found += 1;
                        if mutants::is(Mutant::SearchesForOne) {
                            break;
                        }
                    }
                }
            }
            SearchOp::Delete => {
                while let Some(header) = self.find_unexpected(pt_index, spec, 0) {
                    self.take_unexpected(port, pt_index, header, spec, false);
                    found += 1;
                    if once {
                        break;
                    }
                }
            }
        }
        if found == 0 && !spec.options.event_comm_disable {
            let mut event = Event::new(EventKind::Search, pt_index, NOBODY, spec.user_ptr);
            event.outcome = Err(NiFail::NoMatch);
            self.post(eq, event);
        }
        // A search that goes on until nothing is left ends with a miss.
        if spec.options.ct_overflow && (found == 0 || !once) {
            self.count(spec.ct, false, None);
        }
        self.fire(port);
        Ok(())
    }

    fn tell_found(&mut self, pt_index: PtIndex, found: u32, spec: &MeSpec) {
        let header = self.headers.at(found);
        let mut event = header.event(EventKind::Search, spec.user_ptr);
        event.announce(self.headers.rts(found));
        event.outcome = Ok(());
        if spec.options.ct_overflow {
            self.count(spec.ct, true, spec.options.ct_bytes.then_some(event.mlength));
        }
        if !spec.options.event_comm_disable {
            let eq = self.eq_of(pt_index);
            self.post(eq, event);
        }
    }

    /// The user pointer of the entry of the priority list that an operation with
    /// these bits from `peer` would meet. Nothing changes.
    pub fn me_that_matches(
        &mut self,
        pt_index: PtIndex,
        bits: MatchBits,
        peer: PeerId,
    ) -> Option<u64> {
        let pt = self.pts.get_mut(usize::from(pt_index.0))?.as_mut()?;
        let slot = pt.priority.find(&mut self.mes, bits, peer, |_, _| true)?;
        Some(self.mes.at(slot).user_ptr)
    }

    /// Whether `holds` is true of the user pointers of all entries of the priority
    /// list that an operation with these bits from this peer would match, asked
    /// in list order until it is not.
    pub fn all_that_match(
        &mut self,
        pt_index: PtIndex,
        bits: MatchBits,
        peer: PeerId,
        mut holds: impl FnMut(u64) -> bool,
    ) -> bool {
        let Some(Some(pt)) = self.pts.get_mut(usize::from(pt_index.0)) else { return true };
        let fails = |mes: &Slab<Me>, slot| !holds(mes.at(slot).user_ptr);
        pt.priority.find(&mut self.mes, bits, peer, fails).is_none()
    }

    /// How many entries the priority list has.
    #[must_use]
    pub fn priority_len(&self, pt_index: PtIndex) -> usize {
        let pt = self.pts.get(usize::from(pt_index.0)).and_then(Option::as_ref);
        pt.map_or(0, |pt| pt.priority.len())
    }
}
