//! What a run has come by, so that it can be said how many worlds of a swarm have.

use super::{model, recovery, world};
use serde::Serialize;
use std::ops::Add;

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Of one world zero or one, of several how many of them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Coverage { $($(#[$doc])* pub $name: u64,)* }

        impl Coverage {
            /// Each mark by its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }

        impl Add for Coverage {
            type Output = Coverage;

            fn add(self, other: Coverage) -> Coverage {
                Coverage { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

marks! {
    /// Interfaces did not match bits and sources.
    non_matching,
    /// An entry took a header that waited.
    overflow_taken,
    /// It did while the data of that was still moving.
    claimed_moving,
    /// Headers used an entry up before it was linked.
    unlinked_on_append,
    /// An entry of the overflow list was freed when its last header was taken.
    freed_late,
    /// An operation was longer than the place for it.
    truncated,
    /// An entry was passed over because it refuses that.
    no_truncate_passed,
    /// An entry that manages its offset had too little left.
    managed_unlinks,
    /// A search found a header, took one, and found nothing.
    searches_found,
    /// See there.
    searches_deleted,
    /// See there.
    searches_missed,
    /// Nothing matched, and the operation was dropped.
    dropped,
    /// An acknowledgement counted an operation that was dropped as completed.
    completed_though_dropped,
    /// An operation met a disabled portal table entry.
    refused_disabled,
    /// The memory of an entry was written as soon as the event of a get was there.
    rewritten,
    /// There was no room for another triggered operation.
    triggered_exhausted,
    /// Want of an entry or of a header disabled one.
    disabled_by_want,
    /// There was no room for a header.
    headers_ran_out,
    /// An entry did not allow an operation, or was for another user.
    operation_violations,
    /// See there.
    permission_violations,
    /// A counter set off an operation; one did when it was posted, since it was there already.
    triggered,
    /// See there.
    triggered_late,
    /// A counter changed another one.
    chained,
    /// What a counter would have set off was cancelled.
    cancelled,
    /// A swap on a condition was refused.
    swaps_refused,
    /// A counter counted bytes.
    counted_bytes,
    /// A call could not unlink an entry that is in use.
    unlinks_refused,
    /// A process sent to itself.
    to_self,
    /// Memory was in pieces.
    vectors,
    /// Memory changed as soon as the call had returned.
    volatile,
    /// A descriptor was released while an operation used it.
    released_early,
    /// A packet was taken before its memory was read.
    pending_transmissions,
    /// Opening a connection took time, and something waited for it.
    pending_connections,
    /// A payload was put where it was wanted before the engine handled its packet.
    payloads_placed,
    /// A process read or wrote another's memory, or was not allowed to.
    direct_reads,
    /// See there.
    direct_writes,
    /// See there.
    forbidden,
    /// A packet came over rails between hosts.
    by_rails,
    /// Operations waited for credits.
    waited,
    /// An operation that was refused came again and was taken.
    recovered,
    /// It was, after every process had paused.
    recovered_by_pause,
    /// A queue had been full, or there had been no room for a header, no entry that matched, or
    /// the program had disabled the entry.
    recovered_queue,
    /// See there.
    recovered_headers,
    /// See there.
    recovered_match,
    /// See there.
    recovered_switch,
    /// An operation came behind one that was refused.
    held_back,
    /// A flow was refused once more, in a later epoch.
    refused_again,
    /// Several entries of a process refused at once.
    refused_at_several,
    /// A process refused itself.
    refused_to_self,
    /// An operation was refused that a counter had set off.
    refused_triggered,
    /// An initiator asked whether what nobody acknowledges was taken.
    asked,
    /// A process ended, and others learnt it.
    deaths,
    /// A process gave up a peer that was alive.
    peers_given_up,
    /// An operation was lost with its target; one was before it had arrived there.
    lost,
    /// See there.
    lost_on_the_way,
    /// Data of an operation did not come, or was not fetched, since its initiator was gone.
    lost_at_target,
    /// A read or a write of another's memory ended with that.
    moves_failed,
    /// An operation was lost that its target had refused.
    refused_and_lost,
}

impl Coverage {
    pub(super) fn note_model(&mut self, met: &model::Met) {
        let model::Met {
            overflow_taken,
            truncated,
            managed_unlinks,
            unlinked_on_append,
            no_truncate_passed,
            searches_found,
            searches_missed,
            searches_deleted,
            dropped,
            refused_disabled,
            disabled_by_want,
            headers_ran_out,
            operation_violations,
            permission_violations,
            triggered,
            triggered_late,
            chained,
            cancelled,
            swaps_refused,
            freed_late,
            claimed_moving,
            completed_though_dropped,
            counted_bytes,
            lost,
            lost_at_target,
            lost_on_the_way,
        } = *met;
        *self = Coverage {
            overflow_taken,
            truncated,
            managed_unlinks,
            unlinked_on_append,
            no_truncate_passed,
            searches_found,
            searches_missed,
            searches_deleted,
            dropped,
            refused_disabled,
            disabled_by_want,
            headers_ran_out,
            operation_violations,
            permission_violations,
            triggered,
            triggered_late,
            chained,
            cancelled,
            swaps_refused,
            freed_late,
            claimed_moving,
            completed_though_dropped,
            counted_bytes,
            lost,
            lost_at_target,
            lost_on_the_way,
            ..*self
        };
    }

    pub(super) fn note_recovery(&mut self, met: &recovery::Met) {
        let recovery::Met {
            recovered,
            recovered_by_pause,
            recovered_queue,
            recovered_headers,
            recovered_match,
            recovered_switch,
            held_back,
            refused_again,
            refused_at_several,
            refused_to_self,
            refused_triggered,
            asked,
            refused_and_lost,
        } = *met;
        *self = Coverage {
            recovered,
            recovered_by_pause,
            recovered_queue,
            recovered_headers,
            recovered_match,
            recovered_switch,
            held_back,
            refused_again,
            refused_at_several,
            refused_to_self,
            refused_triggered,
            asked,
            refused_and_lost,
            ..*self
        };
    }

    pub(super) fn note_world(&mut self, met: &world::Met) {
        let world::Met {
            pending_transmissions,
            pending_connections,
            payloads_placed,
            direct_reads,
            direct_writes,
            forbidden,
            by_rails,
            deaths,
            peers_given_up,
            moves_failed,
        } = *met;
        *self = Coverage {
            pending_transmissions,
            pending_connections,
            payloads_placed,
            direct_reads,
            direct_writes,
            forbidden,
            by_rails,
            deaths,
            peers_given_up,
            moves_failed,
            ..*self
        };
    }
}
