//! The counters of an endpoint, and of the memory that it exposes: what is counted where.

use crate::cntr::CntrCore;
use crate::errno::Errno;
use crate::ffi;
use sluice_proto::{Completion, Failure, Kind, RegionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is exposed, by its key, and what counts it.
pub(super) type Regions = BTreeMap<u64, (RegionId, Option<Arc<CntrCore>>)>;

/// The counters bound to an endpoint, by what they count.
#[derive(Debug, Default)]
pub struct Counters {
    by_flag: [Option<Arc<CntrCore>>; COUNTED.len()],
    /// Whether there are any, of this endpoint or of a region.
    pub(super) are_there: bool,
}

/// What may be counted, as the flags of `fi_ep_bind`.
const COUNTED: [u64; 6] = [
    ffi::FI_SEND,
    ffi::FI_RECV,
    ffi::FI_READ,
    ffi::FI_WRITE,
    ffi::FI_REMOTE_READ,
    ffi::FI_REMOTE_WRITE,
];

impl Counters {
    /// `fi_ep_bind`.
    pub(super) fn bind(&mut self, cntr: &Arc<CntrCore>, flags: u64) -> Result<(), Errno> {
        let known = COUNTED.iter().fold(0, |known, flag| known | flag);
        if flags == 0 || flags & !known != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        let is_meant = |flag: u64| flags & flag != 0;
        let mut slots = COUNTED.iter().zip(&mut self.by_flag);
        if slots.any(|(flag, counter)| is_meant(*flag) && counter.is_some()) {
            return Err(Errno::INVALID);
        }
        for (flag, counter) in COUNTED.iter().zip(&mut self.by_flag) {
            if is_meant(*flag) {
                *counter = Some(Arc::clone(cntr));
            }
        }
        self.are_there = true;
        Ok(())
    }

    #[cold]
    pub(super) fn count(&self, regions: &Regions, completion: &Completion) {
        if completion.kind == Kind::Consumed {
            return;
        }
        // A look that finds nothing is no operation that failed.
        if completion.outcome == Err(Failure::NoMessage) {
            return;
        }
        let well = completion.outcome.is_ok();
        if let Some(counter) = self.of(completion.kind) {
            counter.count(well);
        }
        // What peers do names the region by its key.
        if completion.kind.is_of_region()
            && let Some((_, Some(counter))) = regions.get(&completion.context)
        {
            counter.count(well);
        }
    }

    /// Whether there is one that counts what is sent or received.
    pub(super) fn count_messages(&self) -> bool {
        self.by_flag[0].is_some() || self.by_flag[1].is_some()
    }

    /// Whether there is one that counts what peers do.
    pub(super) fn count_peers(&self) -> bool {
        self.by_flag[4].is_some() || self.by_flag[5].is_some()
    }

    /// Those of this endpoint, each once or more.
    pub(super) fn bound(&self) -> impl Iterator<Item = &Arc<CntrCore>> {
        self.by_flag.iter().flatten()
    }

    /// The one that counts such completions.
    fn of(&self, kind: Kind) -> Option<&Arc<CntrCore>> {
        let index = match kind {
            Kind::Send => 0,
            Kind::Recv | Kind::Probe | Kind::Consumed => 1,
            Kind::Read | Kind::Fetch => 2,
            Kind::Write | Kind::Combine => 3,
            Kind::PeerRead => 4,
            Kind::PeerWrite => 5,
            // The same operation is counted at another region.
            Kind::RegionRead | Kind::RegionWrite => return None,
        };
        self.by_flag[index].as_ref()
    }
}
