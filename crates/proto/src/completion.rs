//! The completions of requests, by how they ended.

use crate::api::{Completion, Failure, Kind, Probe, Recv, Send, Space};
use crate::portal::{data_of, data_with};
use sluice_link::PeerError;
use sluice_portals::{Event, NiFail};
use sluice_wire::{Addr, PeerId, Plain};

/// The message that a receive has met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub peer: PeerId,
    tag: u64,
    data: Option<u64>,
}

impl Met {
    /// The one that `event` tells of.
    #[inline(always)]
    pub fn of(event: &Event) -> Met {
        Met { peer: event.peer, tag: event.match_bits.0, data: data_of(event) }
    }

    /// The one that this put from `peer` has brought.
    #[inline(always)]
    pub fn with(peer: PeerId, put: &Plain) -> Met {
        let data = data_with(put.user, put.hdr_data);
        Met { peer, tag: put.match_bits.0, data }
    }
}

impl Completion {
    /// The end of `send`.
    pub(crate) fn of_send(send: &Send, outcome: Result<(), Failure>) -> Completion {
        Completion {
            kind: Kind::Send,
            space: send.space,
            context: send.context,
            len: send.buf.len,
            buf: send.buf.addr,
            tag: send.tag,
            data: None,
            peer: Some(send.peer),
            quiet: !send.report && outcome.is_ok(),
            outcome,
        }
    }

    /// The end of a receive that a message has met.
    #[inline]
    pub(crate) fn of_recv(
        recv: &Recv,
        met: &Met,
        len: u64,
        outcome: Result<(), Failure>,
    ) -> Completion {
        Completion {
            kind: Kind::Recv,
            space: recv.space,
            context: recv.context,
            len,
            buf: recv.buf.addr,
            tag: met.tag,
            data: met.data,
            peer: Some(met.peer),
            quiet: !recv.report && outcome.is_ok(),
            outcome,
        }
    }

    /// The end of a receive that no message met.
    pub(crate) fn of_unmatched(recv: &Recv, failure: Failure) -> Completion {
        Completion {
            kind: Kind::Recv,
            space: recv.space,
            context: recv.context,
            len: 0,
            buf: recv.buf.addr,
            tag: recv.tag,
            data: None,
            peer: recv.source,
            quiet: false,
            outcome: Err(failure),
        }
    }

    /// The end of a claimed message that was dropped, as of a receive of no bytes.
    pub(crate) fn of_discarded(context: u64, event: &Event, report: bool) -> Completion {
        Completion {
            kind: Kind::Recv,
            space: Space::of(event.pt_index),
            context,
            len: 0,
            buf: Addr(0),
            tag: event.match_bits.0,
            data: data_of(event),
            peer: Some(event.peer),
            quiet: !report,
            outcome: Ok(()),
        }
    }

    /// The end of a probe that found what `event` tells of.
    pub(crate) fn of_probe(probe: &Probe, event: &Event) -> Completion {
        Completion {
            kind: Kind::Probe,
            space: probe.space,
            context: probe.context,
            len: event.rlength,
            buf: Addr(0),
            tag: event.match_bits.0,
            data: data_of(event),
            peer: Some(event.peer),
            quiet: false,
            outcome: Ok(()),
        }
    }

    /// The end of a probe that found nothing.
    pub(crate) fn of_vain_probe(probe: &Probe, failure: Failure) -> Completion {
        Completion {
            kind: Kind::Probe,
            space: probe.space,
            context: probe.context,
            len: 0,
            buf: Addr(0),
            tag: probe.tag,
            data: None,
            peer: probe.source,
            quiet: false,
            outcome: Err(failure),
        }
    }
}

impl Failure {
    /// What a Portals failure of an operation on `peer` means here.
    pub(crate) fn of(fail: NiFail, peer: PeerId) -> Failure {
        match fail {
            NiFail::Undeliverable(why) => Failure::PeerGone { peer, why },
            NiFail::Segv => Failure::Fault,
            NiFail::Aborted => Failure::Aborted,
            // An honest peer's endpoint has these entries; one that has not is
            // no Sluice endpoint.
            NiFail::NoMatch
            | NiFail::PtDisabled
            | NiFail::OpViolation
            | NiFail::PermViolation
            | NiFail::Forbidden => Failure::PeerGone { peer, why: PeerError::Protocol },
        }
    }
}
