//! What a world has come by of remote memory.

use serde::Serialize;
use std::ops::Add;

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Of one world zero or one, of several how many of them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct RemoteCoverage { $($(#[$doc])* pub $name: u64,)* }

        impl RemoteCoverage {
            /// Each mark's name, and its count.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }

        impl Add for RemoteCoverage {
            type Output = RemoteCoverage;

            fn add(self, other: RemoteCoverage) -> RemoteCoverage {
                RemoteCoverage { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

marks! {
    /// A region was written.
    remote_puts,
    /// One was read.
    remote_gets,
    /// Values were combined with those of one.
    remote_atomics,
    /// The same, and those from before came back.
    remote_fetches,
    /// A write was so long that its target fetched it.
    remote_puts_fetched,
    /// A read was so long that its target wrote it, or offered it.
    remote_gets_long,
    /// An operation had several parts.
    remote_parts,
    /// A part was held back until others had ended.
    remote_held,
    /// A target was to be told once of an operation of several parts.
    remote_told_once,
    /// It was to be told of it at another region too.
    remote_told_apart,
    /// A region lay in several pieces, and was reached.
    remote_pieces,
    /// Values were combined while others were with the same ones.
    remote_overlaps,
    /// A target was told the data of a write.
    remote_told,
    /// What peers did with a region was told there.
    remote_counted,
    /// There was no such region, or less of it.
    remote_no_region,
    /// The region was not exposed for this.
    remote_no_right,
    /// A region was hidden while an operation on it was under way.
    remote_hidden_meanwhile,
    /// A fenced operation had to wait.
    remote_fences_waited,
    /// A fenced operation began when nothing else was under way.
    remote_fences_begun,
    /// An operation went by control credits, as messages that nobody had received held the others.
    remote_by_control,
    /// An operation waited at rest behind messages that nobody had received.
    remote_behind_messages,
    /// A published region was written at once.
    remote_written_at_once,
    /// One was read at once.
    remote_read_at_once,
    /// It was while an operation by packets was under way on the same region.
    remote_at_once_beside_packets,
    /// Some parts of an operation were done at once, and others by packets.
    remote_partly_at_once,
    /// An operation ended because its target had ended, or was given up.
    remote_targets_lost,
    /// The origin of an operation ended before it did.
    remote_origins_lost,
}
