//! The regions of this process.

use crate::core::Core;
use crate::portal::{PT_REMOTE_PART, PT_REMOTE_TOLD, PTS_REMOTE};
use crate::rma::api::{Access, Exposed};
use sluice_link::mutants::{self, Mutant};
use sluice_link::{Port, Published, Rights};
use sluice_portals::{Handle, List, Me, MeOptions, MeSpec, PtlError, Table, Vector};
use sluice_wire::{Addr, MatchBits, PtIndex, Region};

/// A region: an entry at each portal table entry of remote memory.
#[derive(Debug)]
pub struct RegionOp {
    entries: [Option<Handle<Me>>; PTS_REMOTE.len()],
    /// Peers move its bytes without a call of this process.
    published: Option<Published>,
    pub told: Option<u64>,
}

/// The region whose entries have this user pointer. The bits are turned around, so that no
/// such pointer is the name of a receive.
pub(crate) fn region_named(user_ptr: u64) -> Handle<RegionOp> {
    Handle::from_u64(!user_ptr)
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Regions {
    table: Table<RegionOp>,
}

impl Regions {
    pub fn new(regions_max: u32) -> Regions {
        Regions { table: Table::new(regions_max) }
    }

    pub fn get(&self, region: Handle<RegionOp>) -> Option<&RegionOp> {
        self.table.get(region)
    }

    /// Adds a region.
    ///
    /// # Errors
    /// [`PtlError`] if there is no room for it; nothing was added then.
    pub fn expose<P: Port>(
        &mut self,
        core: &mut Core,
        port: &mut P,
        exposed: &Exposed,
    ) -> Result<Handle<RegionOp>, PtlError> {
        if self.table.is_full() {
            return Err(PtlError::NoSpace("regions"));
        }
        let name = self.table.next_handle();
        let entries = [None; PTS_REMOTE.len()];
        let mut op = RegionOp { entries, published: None, told: exposed.told };
        for (entry, pt_index) in op.entries.iter_mut().zip(PTS_REMOTE) {
            let appended = entry_for(core, exposed, name, pt_index).and_then(|spec| {
                let vector = spec.vector;
                let appended = core.ni.me_append(port, pt_index, List::Priority, spec);
                if let (Err(_), Some(vector)) = (&appended, vector) {
                    core.ni.vector_release(vector);
                }
                appended
            });
            match appended {
                Ok(appended) => *entry = appended,
                Err(error) => {
                    op.withdraw(core);
                    return Err(error);
                }
            }
        }
        op.published = publish(port, exposed);
        let Ok(handle) = self.table.insert(op) else { unreachable!("room was checked") };
        assert!(handle == name, "the entries name their region");
        Ok(handle)
    }

    /// Takes a region away: no operation begins on it any more. One that moves data now goes
    /// on, and holds the entry, not the call.
    pub fn hide<P: Port>(&mut self, core: &mut Core, port: &mut P, region: Handle<RegionOp>) {
        if let Some(op) = self.table.remove(region)
            && !mutants::is(Mutant::ShowsHiddenRegions)
        {
            if let Some(published) = op.published
                && !mutants::is(Mutant::KeepsPublished)
            {
                port.withdraw(published);
            }
            op.withdraw(core);
        }
    }
}

impl RegionOp {
    fn withdraw(self, core: &mut Core) {
        for entry in self.entries.into_iter().flatten() {
            core.ni.me_withdraw(entry);
        }
    }
}

/// Lets peers move the bytes of a region of which nothing is to be told here.
fn publish<P: Port>(port: &mut P, exposed: &Exposed) -> Option<Published> {
    let &[region] = exposed.pieces else { return None };
    if exposed.told.is_some() && !mutants::is(Mutant::PublishesWhatIsTold) {
        return None;
    }
    let first = if exposed.addressed { region.addr.0 } else { 0 };
    let Access { read, write } = exposed.access;
    port.publish(exposed.key, region, first, Rights { read, write })
}

fn entry_for(
    core: &mut Core,
    exposed: &Exposed,
    name: Handle<RegionOp>,
    pt_index: PtIndex,
) -> Result<MeSpec, PtlError> {
    let (region, vector) = match exposed.pieces {
        [] => (Region::EMPTY, None),
        [region] => (*region, None),
        pieces => {
            let len = pieces.iter().map(|piece| piece.len).sum();
            let vector = Vector::new(pieces.to_vec());
            let vector = vector.ok_or(PtlError::ArgInvalid("longer than an address space"))?;
            (Region { addr: Addr(0), len }, Some(core.ni.vector_bind(vector)?))
        }
    };
    let is_told = match pt_index {
        PT_REMOTE_TOLD => true,
        PT_REMOTE_PART => false,
        _ => exposed.told.is_some(),
    };
    let options = MeOptions {
        op_put: exposed.access.write,
        // Data comes with writes alone.
        op_get: exposed.access.read && pt_index != PT_REMOTE_TOLD,
        no_truncate: true,
        addressed: exposed.addressed && vector.is_none(),
        event_link_disable: true,
        event_unlink_disable: true,
        event_comm_disable: !is_told,
        ..MeOptions::default()
    };
    Ok(MeSpec {
        region,
        vector,
        match_bits: MatchBits(exposed.key),
        options,
        user_ptr: !name.to_u64(),
        ..MeSpec::default()
    })
}
