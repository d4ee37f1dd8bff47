//! What the machine asks for: the part of a port that concerns peers on other hosts.

use super::check::fast_check_of;
use super::remote::{ReadOf, Remote, Stage, WaitingWrite, Write};
use super::{Entry, Event, Net, OWN_WRITES_MAX};
use sluice_link::{
    Connect, Opened, PeerError, RailError, Remote as RemotePlace, RemoteCaps, Rights, Token,
};
use sluice_wire::frame::{FrameHead, FrameKind, RemoteWrite, WriteDone};
use sluice_wire::{HeadBuf, PeerId, Region, RemoteKey};
use std::ptr;

impl Net {
    /// As [`Transport::connect`](sluice_link::Transport::connect).
    ///
    /// # Errors
    /// Why the peer cannot be reached.
    pub fn connect(&mut self, peer: PeerId) -> Result<Connect, PeerError> {
        let now = self.now;
        self.note_seen(peer);
        let remote = self.remote_mut(peer).ok_or(PeerError::Unreachable)?;
        match &remote.stage {
            Stage::Gone(why) => Err(*why),
            Stage::Met(met) => Ok(Connect::Ready(met.opened)),
            Stage::Idle | Stage::Meeting(_) => {
                remote.is_wanted = true;
                self.meet(peer, now);
                Ok(Connect::Pending)
            }
        }
    }

    /// As [`Transport::watch`](sluice_link::Transport::watch): somebody waits for the
    /// peer's end.
    pub fn watch(&mut self, peer: PeerId) {
        let now = self.now;
        self.note_seen(peer);
        let Some(remote) = self.remote_mut(peer) else { return };
        match &mut remote.stage {
            Stage::Met(met) => met.rails.watch(),
            Stage::Idle => self.meet(peer, now),
            Stage::Meeting(_) | Stage::Gone(_) => {}
        }
    }

    /// The machine knows of a peer: its end is told, once, also if it has come already.
    pub(super) fn note_seen(&mut self, peer: PeerId) {
        let Some(remote) = self.remote_mut(peer) else { return };
        remote.is_seen = true;
        if let Stage::Gone(why) = remote.stage
            && !std::mem::replace(&mut remote.is_told, true)
        {
            self.events.push_back(Event::Gone(peer, why));
        }
    }

    /// What a peer's mailbox grants, if it is connected.
    #[must_use]
    pub fn opened(&self, peer: PeerId) -> Option<Opened> {
        Some(self.met(peer)?.opened)
    }

    /// The user that a peer says it belongs to.
    #[must_use]
    pub fn uid(&self, peer: PeerId) -> Option<u32> {
        Some(self.met(peer)?.uid)
    }

    /// What a peer calls itself, or did before its end; zero for nothing, or if it has not been
    /// met.
    #[must_use]
    pub fn label(&self, peer: PeerId) -> u64 {
        self.remote(peer).map_or(0, |remote| remote.label)
    }

    /// Numbers a packet and sends it. Its bytes are copied.
    ///
    /// # Safety
    /// The payload can be read.
    pub unsafe fn transmit(&mut self, peer: PeerId, head: &HeadBuf, payload: Region) {
        let len = payload.len as usize;
        let bytes: &[u8] = if len == 0 {
            &[]
        } else {
            // SAFETY: the caller's promise.
            unsafe {
                std::slice::from_raw_parts(
                    ptr::with_exposed_provenance(payload.addr.0 as usize),
                    len,
                )
            }
        };
        self.send(peer, FrameKind::Packet, [head.bytes(), bytes]);
    }

    /// What can be done with the memory of a peer.
    #[must_use]
    pub fn caps(&self, peer: PeerId) -> RemoteCaps {
        let is_met = self.met(peer).is_some();
        RemoteCaps { read: is_met, write: is_met, network: true }
    }

    /// Exposes memory to a peer.
    pub fn expose(&mut self, peer: PeerId, region: Region, rights: Rights) -> RemoteKey {
        self.exposures.expose(peer, region, rights)
    }

    /// Ends that. What the peer still has under way with it ends here.
    pub fn revoke(&mut self, peer: PeerId, key: RemoteKey) {
        self.take_back(peer, key);
        let Some(met) = self.met(peer) else { return };
        let of_key = met.reads.iter().filter_map(|read| match read.of {
            ReadOf::Writer(_, into) if into == key => Some(read.id),
            _ => None,
        });
        for read in of_key.collect::<Vec<_>>() {
            let now = self.now;
            self.with_rails(peer, |rails, below| rails.cancel(now, below, read));
            self.end_read(peer, read, Err(RailError::Fault));
        }
        self.flush_outside_of_polls();
    }

    /// Reads memory that a peer has exposed. [`Event::Moved`] follows.
    pub fn read(&mut self, peer: PeerId, from: RemotePlace, to: Region, token: Token) {
        if self.met(peer).is_none() {
            self.events.push_back(Event::Moved(token, Err(RailError::PeerGone)));
        } else if to.len == 0 {
            self.events.push_back(Event::Moved(token, Ok(())));
        } else {
            self.begin_read(peer, from.key, from.offset, to, ReadOf::Machine(token));
            self.flush_outside_of_polls();
        }
    }

    /// Writes memory that a peer has exposed: the peer fetches the bytes. [`Event::Moved`]
    /// follows. A write of which the peer cannot be told yet waits here.
    pub fn write(&mut self, peer: PeerId, from: Region, to: RemotePlace, token: Token) {
        match self.met_mut(peer) {
            None => self.events.push_back(Event::Moved(token, Err(RailError::PeerGone))),
            Some(met) if met.writes.len() >= OWN_WRITES_MAX => {
                met.writes_waiting.push_back(WaitingWrite { from, to, token });
            }
            Some(_) => self.begin_write(peer, WaitingWrite { from, to, token }),
        }
    }

    /// Tells a peer of the next writes that wait, as many as it takes.
    pub(super) fn begin_waiting_writes(&mut self, peer: PeerId) {
        while let Some(met) = self.met_mut(peer)
            && met.writes.len() < OWN_WRITES_MAX
            && let Some(write) = met.writes_waiting.pop_front()
        {
            self.begin_write(peer, write);
        }
    }

    fn begin_write(&mut self, peer: PeerId, write: WaitingWrite) {
        let WaitingWrite { from, to, token } = write;
        let key = self.exposures.expose(peer, from, Rights::READ);
        self.reads_made += 1;
        let id = self.reads_made;
        let write =
            RemoteWrite { token: id, to: to.key, offset: to.offset, len: from.len, from: key };
        if let Some(met) = self.met_mut(peer) {
            met.writes.push(Write { id, token, from: key });
        }
        self.send(peer, FrameKind::Write, [&write.emit(), &[]]);
    }

    /// A read or write comes to nothing, because the client has not the memory that it
    /// names. [`Event::Moved`] follows.
    pub fn refuse_move(&mut self, token: Token) {
        self.events.push_back(Event::Moved(token, Err(RailError::Fault)));
    }

    /// Tells a peer that what it wrote is here, or will not be.
    pub(super) fn tell_written(&mut self, peer: PeerId, token: u64, is_done: bool) {
        self.send(peer, FrameKind::Written, [&WriteDone { token, is_done }.emit(), &[]]);
    }

    /// A key reaches nothing any more.
    pub(super) fn take_back(&mut self, peer: PeerId, key: RemoteKey) {
        if self.exposures.revoke(peer, key).is_err() {
            return;
        }
        self.forget(peer, key);
    }

    /// The memory behind a key is not read any more, whoever has asked for it.
    pub(super) fn forget(&mut self, peer: PeerId, key: RemoteKey) {
        self.withdraw(key);
        let Some(met) = self.met(peer) else { return };
        for entry in met.conns.clone().into_iter().flatten() {
            let Some(conn) = self.conn(entry) else { continue };
            let forgotten = conn.out.forget(key);
            if forgotten.is_cut {
                self.broke(entry, None);
            } else if forgotten.is_told {
                self.mark_dirty(entry);
            }
        }
    }

    /// Puts a frame into the stream to a peer, and gives it to the socket if that is due.
    /// Its body has two parts. Each table is looked into once: it is what a message costs.
    #[inline]
    fn send(&mut self, peer: PeerId, kind: FrameKind, [front, back]: [&[u8]; 2]) {
        let Net { now, habit, remotes, entries, dirty, .. } = self;
        habit.note_sent(*now);
        let remote = remotes.get_mut(peer.index()).and_then(Option::as_deref_mut);
        let Some(Remote { stage: Stage::Met(met), .. }) = remote else { return };
        let (number, rail) = met.rails.send(*now);
        let head = FrameHead {
            kind,
            len: u32::try_from(front.len() + back.len()).expect("a packet is shorter"),
            id: number.0 as u32,
            acknowledged: met.rails.tell().0,
        };
        met.ring.push([&head.emit_by(fast_check_of), front, back]);
        let Some(entry) = rail.and_then(|rail| met.conns[rail.index()]) else { return };
        let Some(Entry::Conn(conn)) = entries.get_mut(entry) else { return };
        let held = conn.out.held(&met.ring);
        if !conn.is_blocked && conn.burst.is_due(habit, *now, held) {
            self.flush(entry);
        } else if !std::mem::replace(&mut conn.is_dirty, true) {
            dirty.push(entry);
        }
    }
}
