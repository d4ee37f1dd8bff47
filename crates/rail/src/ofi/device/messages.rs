//! Messages of streams: they go when there is room and the provider takes them, they come in
//! whatever order, and what was read is told.

use super::super::link::WINDOW;
use super::super::message::{HEAD_BYTES, Head};
use super::super::pieces::{gather, scatter};
use super::stream::{Message, TELLS_MAX};
use super::{Device, Notice};
use crate::net::Place;
use sluice_fabric::{Begun, BufferId, FabricError};
use std::collections::VecDeque;
use std::io;

impl Device {
    /// Sends what there is room for. Says how many bytes that is.
    ///
    /// # Safety
    /// The pieces are of this process, or of its client.
    pub(in crate::ofi) unsafe fn send(
        &mut self,
        stream: usize,
        pieces: &[Place],
    ) -> io::Result<usize> {
        let wanted: usize = pieces.iter().map(|piece| piece.len).sum();
        let mut sent = 0;
        while sent < wanted {
            let known = &mut self.streams[stream];
            if known.is_broken {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            if known.link.room() == 0 || known.under_way >= WINDOW {
                known.wants_room = true;
                break;
            }
            let buffer = self.endpoint.take().map_err(io::Error::other)?;
            let body = &mut self.endpoint.bytes_mut(buffer)[HEAD_BYTES..];
            // SAFETY: the caller's promise.
            let len = match unsafe { gather(pieces, sent, body) } {
                Ok(len) => len,
                Err(cause) => {
                    self.endpoint.give_back(buffer);
                    return if sent > 0 { Ok(sent) } else { Err(cause) };
                }
            };
            let head = self.streams[stream].link.number(len as u32);
            self.post(stream, buffer, &head);
            sent += len;
        }
        if sent == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(sent) }
    }

    fn post(&mut self, stream: usize, buffer: BufferId, head: &Head) {
        let known = &mut self.streams[stream];
        *known.count_of(HEAD_BYTES + head.len as usize) += 1;
        self.endpoint.bytes_mut(buffer)[..HEAD_BYTES].copy_from_slice(&head.emit());
        let (token, peer) = (known.link.own_token, known.peer);
        self.peers[peer].users += 1;
        let message = Message { token, peer, len: HEAD_BYTES + head.len as usize };
        let is_first = known.owed.is_empty();
        known.owed.push_back((buffer, message));
        // Behind others it waits for its turn.
        if is_first && !self.pay_one(stream) {
            self.owing.push_back(stream);
        }
    }

    /// Gives the provider what it is owed, as far as it takes it: of each lane a message in
    /// its turn, until it wants no more of that lane.
    pub(super) fn pay(&mut self) {
        let mut refused = VecDeque::new();
        while let Some(stream) = self.owing.pop_front() {
            if !self.pay_one(stream) {
                refused.push_back(stream);
            } else if self.streams.get(stream).is_some_and(|known| !known.owed.is_empty()) {
                self.owing.push_back(stream);
            }
        }
        self.owing = refused;
    }

    /// Gives the provider the oldest message that it is owed of a lane. Says whether it is
    /// not owed that one any more.
    fn pay_one(&mut self, stream: usize) -> bool {
        let Some(&(buffer, message)) = self.streams[stream].owed.front() else { return true };
        let to = self.peers[message.peer].peer;
        let begun = self.endpoint.send(buffer, message.len, to);
        if begun == Ok(Begun::Later) {
            return false;
        }
        self.streams[stream].owed.pop_front();
        match begun {
            Ok(_) => drop(self.under_way.insert(buffer, message)),
            Err(_) => self.ended(buffer, message, true),
        }
        true
    }

    /// The provider does not have a message any more.
    pub(super) fn ended(&mut self, buffer: BufferId, message: Message, has_failed: bool) {
        self.endpoint.give_back(buffer);
        if let Some(&stream) = self.tokens.get(&message.token) {
            let known = &mut self.streams[stream];
            *known.count_of(message.len) -= 1;
            if has_failed {
                self.break_stream(stream);
            } else {
                if std::mem::take(&mut known.wants_room) {
                    let entry = known.entry;
                    self.notices.push((entry, Notice::Room));
                }
                if message.is_tell() {
                    // Of what was read meanwhile nothing was told.
                    self.tell(stream);
                }
            }
        }
        self.let_go(message.peer);
    }

    pub(super) fn break_stream(&mut self, stream: usize) {
        let known = &mut self.streams[stream];
        if !std::mem::replace(&mut known.is_broken, true) {
            self.notices.push((known.entry, Notice::Came));
        }
    }

    /// Reads what has come on a stream.
    ///
    /// # Safety
    /// The pieces are of this process, or of its client, who lets them be written.
    pub(in crate::ofi) unsafe fn receive(
        &mut self,
        stream: usize,
        pieces: &[Place],
    ) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        let got = unsafe { scatter(&mut self.streams[stream].link, pieces)? };
        self.tell(stream);
        let known = &self.streams[stream];
        match got {
            0 if known.is_broken => Err(io::ErrorKind::ConnectionReset.into()),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            got => Ok(got),
        }
    }

    /// Tells the peer what was read, now and then.
    fn tell(&mut self, stream: usize) {
        let known = &mut self.streams[stream];
        if known.tells >= TELLS_MAX {
            return;
        }
        let Some(head) = known.link.tell() else { return };
        match self.endpoint.take() {
            Ok(buffer) => self.post(stream, buffer, &head),
            Err(_) => self.break_stream(stream),
        }
    }

    /// A message could not be received: it is too long, most likely, and of a stranger. What
    /// it would be to a lane, the lane finds out.
    pub(super) fn note_failure(&mut self, why: &FabricError) {
        self.failures += 1;
        if self.failures.is_power_of_two() {
            let count = self.failures;
            self.warning = Some(format!(
                "a message could not be received and is dropped ({why}; {count} so far): \
                 somebody sends what no peer sends, or the network loses something"
            ));
        }
    }

    pub(super) fn on_message(&mut self, buffer: BufferId, len: usize) {
        let parsed = Head::parse(&self.endpoint.bytes(buffer)[..len]);
        let known =
            parsed.and_then(|(head, body)| Some((*self.tokens.get(&head.token)?, head, body)));
        let Some((stream, head, body)) = known else {
            self.strays += 1;
            return;
        };
        let known = &mut self.streams[stream];
        let Ok(has_room) = known.link.arrived(&head, body) else {
            return self.break_stream(stream);
        };
        let entry = known.entry;
        if has_room && std::mem::take(&mut known.wants_room) {
            self.notices.push((entry, Notice::Room));
        }
        if head.len > 0 {
            self.notices.push((entry, Notice::Came));
        }
    }
}
