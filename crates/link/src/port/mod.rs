//! The seam between the machines and a world.
//!
//! A machine (`portals`, `proto`) is driven by a world (`rail`, `sim`): the
//! world calls a [`Machine`] with what arrived, and the machine asks the world
//! for what it wants done through a [`Port`]. Both sides are statically
//! dispatched, so the fast path is straight code without a queue in between
//! (`docs/decisions/0002-outputs-are-calls.md`).
//!
//! Contract: a port never calls back into the machine from inside one of its
//! methods. What a request leads to arrives later as an input. Machines handle
//! descriptors ([`Addr`](sluice_wire::Addr), [`Region`](sluice_wire::Region)); only a port
//! touches the bytes.

mod machine;
mod memory;
mod null;
mod remote;
mod shared;
mod tags;
mod told;
mod transport;

pub use machine::Machine;
pub use memory::LocalMemory;
pub use null::NullPort;
pub use remote::{Published, RailError, Remote, RemoteCaps, RemoteMemory, Rights};
pub use shared::{ClaimsId, ClaimsStart, NoShared, SharedCopy};
pub use tags::{Full, TagMatching, TaggedEnd, TaggedMessage, TaggedWanted};
pub use told::{Told, ToldPeer};
pub use transport::{Connect, PeerError, Transmitted, Transport};

/// Names a request to a port until the port has reported its end. Chosen by
/// the machine; the port only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// What a machine may ask of the world.
pub trait Port: Transport + LocalMemory + RemoteMemory {
    /// How transfers are shared, if the port can do that.
    type Shared: SharedCopy;

    /// What shares transfers; `None` if nothing does.
    fn shared(&mut self) -> Option<&mut Self::Shared>;

    /// What matches the messages of this process in the machine's place; `None`, always, if
    /// the machine does. It is the same for the life of the port.
    #[inline(always)]
    fn tag_matching(&mut self) -> Option<&mut dyn TagMatching> {
        None
    }
}
