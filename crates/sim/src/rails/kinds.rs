//! The kinds of what goes wrong in a world, and in how many worlds each has.

use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ops::Add;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A rail's connections end, and both sides notice.
    Lost,
    /// One side notices; the other learns it when it says something.
    LostAtOneEnd,
    /// The same as the first, and no new connection for a while.
    Refused,
    /// They end again and again.
    Flapping,
    /// Nothing arrives, in one direction or both, until it ends; then all of it.
    Silence,
    /// What is given to a connection is swallowed, for ever. A new one works.
    Swallowed,
    /// A rail has a tenth of its rate.
    Slow,
    /// Each frame comes later by a time of its own, in order.
    Late,
    /// Nothing arrives in one direction, and then the connections end: what has come the
    /// other way is not acknowledged, and comes again.
    AcksLost,
    /// Nothing arrives on any rail between two hosts.
    Partition,
    /// The same, for longer than a peer is waited for.
    LastingPartition,
    /// A process does not look at its rails: all of them are silent.
    Computes,
    /// The same for longer than a peer is waited for, on a host that answers.
    ComputesLong,
    /// Not drawn: a rail that was down is up again.
    RailReturned,
    /// A frame is altered on its way: its check is wrong, and the connection ends.
    FrameAltered,
    /// A frame does not arrive: the number of the next one shows it, and the connection ends.
    FrameLost,
    /// A frame comes twice, which its number shows.
    FrameTwice,
    /// A frame comes before the one that was sent before it, which its number shows.
    FramesSwapped,
    /// A process does nothing for a while, as if stopped.
    Stopped,
    /// A process takes what comes slowly for a while.
    SlowSink,
    /// The clock of a process goes ahead at once, as after its machine was suspended.
    ClockJump,
    /// A process ends, and others learn it.
    Died,
    /// A process has no room for another request.
    RequestsFull,
    /// A process has no room for another region.
    RegionsFull,
    /// A message has waited for credits.
    CreditsOut,
    /// There were no chunk claims for a receive.
    ClaimsOut,
    /// Transfers of a sender have waited for room to ask for more of their bytes.
    PullsOut,
    /// There was no room to keep another injected message.
    InjectsOut,
    /// An interface that matches has had no room for a message, or for a receive.
    InterfaceSends,
    InterfaceReceives,
}

impl Kind {
    /// Whether it befalls a process, and not what is between hosts.
    pub fn is_of_process(self) -> bool {
        matches!(self, Kind::Computes | Kind::ComputesLong | Kind::Stopped | Kind::SlowSink)
    }
}

/// Kinds of faults.
const KINDS: [(Kind, &str); 30] = [
    (Kind::Lost, "connection_lost"),
    (Kind::LostAtOneEnd, "connection_lost_at_one_end"),
    (Kind::Refused, "connection_refused"),
    (Kind::Flapping, "flapping"),
    (Kind::Silence, "silence"),
    (Kind::Swallowed, "swallowed"),
    (Kind::Slow, "slow"),
    (Kind::Late, "late_arrival"),
    (Kind::AcksLost, "acknowledgements_lost"),
    (Kind::Partition, "partition"),
    (Kind::LastingPartition, "lasting_partition"),
    (Kind::Computes, "process_computes"),
    (Kind::ComputesLong, "process_computes_long"),
    (Kind::RailReturned, "rail_returned"),
    (Kind::FrameAltered, "frame_altered"),
    (Kind::FrameLost, "frame_lost"),
    (Kind::FrameTwice, "frame_duplicated"),
    (Kind::FramesSwapped, "frames_reordered"),
    (Kind::Stopped, "process_stopped"),
    (Kind::SlowSink, "slow_sink"),
    (Kind::ClockJump, "clock_jump"),
    (Kind::Died, "process_died"),
    (Kind::RequestsFull, "requests_exhausted"),
    (Kind::RegionsFull, "regions_exhausted"),
    (Kind::CreditsOut, "credits_exhausted"),
    (Kind::ClaimsOut, "claims_exhausted"),
    (Kind::PullsOut, "transfer_room_exhausted"),
    (Kind::InjectsOut, "injected_exhausted"),
    (Kind::InterfaceSends, "interface_sends_exhausted"),
    (Kind::InterfaceReceives, "interface_receives_exhausted"),
];

/// Of one world zero or one for each kind of fault that has happened, of several how many
/// of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; KINDS.len()]);

impl FaultCounts {
    /// It has happened in this world.
    pub(crate) fn note(&mut self, kind: Kind) {
        self.0[kind as usize] = 1;
    }

    /// In how many worlds the kind of this name has happened.
    pub fn count(&self, name: &str) -> u64 {
        self.iter().find(|(one, _)| *one == name).map_or(0, |(_, count)| count)
    }

    /// Each kind's name, and in how many worlds it has happened.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.iter().map(|(_, name)| *name).zip(self.0)
    }
}

impl Add for FaultCounts {
    type Output = FaultCounts;

    fn add(self, other: FaultCounts) -> FaultCounts {
        FaultCounts(std::array::from_fn(|at| self.0[at] + other.0[at]))
    }
}

impl Serialize for FaultCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(KINDS.len()))?;
        for (name, count) in self.iter() {
            map.serialize_entry(name, &count)?;
        }
        map.end()
    }
}
