//! Where a port leads. The wheel and the routers know nothing else about the network.

/// Where a port leads, ready for the engine: what is sent goes into a column
/// of the [`Wheel`](crate::wheel::Wheel), at a port, after a delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub column: u32,
    /// The column's first cell.
    pub base: u32,
    /// Cycles until a flit that leaves now can be looked at.
    pub flit_delay: u16,
    /// Cycles until a credit that goes back now can be used.
    pub credit_delay: u16,
    /// The port at the other end; those of a router's nodes follow its own.
    pub port: u8,
    pub kind: Kind,
}

const _: () = assert!(size_of::<Peer>() == 16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To a router of the same shard.
    Router,
    /// To a router of another shard, by a ghost.
    Ghost,
    Node,
    None,
}

impl Peer {
    /// A port that leads nowhere.
    pub const NONE: Peer =
        Peer { column: 0, base: 0, flit_delay: 1, credit_delay: 1, port: 0, kind: Kind::None };
}
