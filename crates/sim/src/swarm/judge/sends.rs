//! The books of sends.

use super::super::matcher::Message;
use super::super::world::World;
use super::{Judge, content, names_lost, reuse};
use crate::memory::Memory;
use sluice_proto::{Cancelled, Completion, Delivery, Failure, Send};
use sluice_wire::Region;

/// A message that an endpoint has taken.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: usize,
    from: usize,
    buf: Region,
    report: bool,
    delivery: Option<Delivery>,
    inject: bool,
    /// What was said to whoever cancelled it.
    cancelled: Option<Cancelled>,
    done: bool,
}

impl Judge {
    /// The endpoint has taken a message, and it `waits` for credits or not.
    pub fn sent(&mut self, world: &mut World<'_>, from: usize, send: &Send, waits: bool) {
        let Send { space, tag, data, buf, context, .. } = *send;
        let to = send.peer.index();
        let message = Message { from, to, space, tag, data, len: buf.len, content: context };
        let id = self.matcher.send(message);
        if world.is_cut(from, to) {
            self.matcher.lose_last(from, to);
        }
        if waits {
            self.waited.entry((from, to)).or_default().push(id);
        }
        self.landed.push(false);
        self.send_of.push(context);
        if send.inject {
            reuse(world, from, buf);
        }
        let Send { report, delivery, inject, .. } = *send;
        let (cancelled, done) = (None, false);
        let sent = Sent { id, from, buf, report, delivery, inject, cancelled, done };
        self.sends.insert(context, sent);
    }

    /// Sends of a process that have not ended, as far as it can be known, and can be named.
    pub fn unended_sends(&self, who: usize) -> Vec<u64> {
        let is_unended = |sent: &Sent| sent.from == who && !sent.done && !sent.inject;
        let unended = self.sends.iter().filter(|(_, sent)| is_unended(sent));
        unended.map(|(&context, _)| context).collect()
    }

    /// A send was to be cancelled, and was or not. Of one that is withdrawn nothing has come to
    /// its receiver, or ever will.
    pub fn cancels_send(&mut self, world: &World<'_>, context: u64, cancelled: Option<Cancelled>) {
        let sent = self.sends.get_mut(&context).expect("it was sent");
        if cancelled.is_none() {
            return;
        }
        assert!(!sent.done, "send {context} was cancelled, and has ended");
        assert!(
            cancelled == Some(Cancelled::Withdrawn) || sent.delivery.is_some(),
            "send {context}"
        );
        sent.cancelled = cancelled;
        if cancelled == Some(Cancelled::Withdrawn) {
            let id = sent.id;
            let Message { from, to, .. } = self.matcher.messages[id];
            let was_there = self.matcher.withdraw(id) || world.is_cut(from, to);
            assert!(was_there, "message {id} is withdrawn, and has come");
        }
    }

    pub(super) fn send_ended(&mut self, world: &mut World<'_>, who: usize, end: &Completion) {
        let sent = self.sends.get_mut(&end.context).expect("it was sent");
        assert!(!sent.done, "send {} has ended twice", end.context);
        let is_ok = end.outcome.is_ok();
        assert!(sent.report || !is_ok, "nobody asked for the end of send {}", end.context);
        let to = self.matcher.messages[sent.id].to;
        let is_cancelled = end.outcome == Err(Failure::Cancelled);
        assert_eq!(is_cancelled, sent.cancelled.is_some(), "send {}", end.context);
        assert!(
            is_ok || is_cancelled || names_lost(world, who, end) == Some(to),
            "send {}: {:?}",
            end.context,
            end.outcome
        );
        assert_eq!((who, end.buf), (sent.from, sent.buf.addr), "send {}", end.context);
        sent.done = true;
        let &mut Sent { id, from, buf, delivery, inject, .. } = sent;
        let is_there = |level| match level {
            Delivery::Arrived if self.matcher.is_kept(id) => true,
            _ => self.landed[id] || self.is_written(world.memory(to), id),
        };
        assert!(
            !is_ok || delivery.is_none_or(is_there),
            "delivery of message {id} was reported before it was made"
        );
        if !inject {
            reuse(world, from, buf);
        }
    }

    /// Whether the message has met a receive that does not report, or its bytes are
    /// in the buffer of the one it has met; or, on its way, of one that it can meet: what
    /// was announced is written before its message is read.
    fn is_written(&self, memory: &Memory, id: usize) -> bool {
        let message = &self.matcher.messages[id];
        let is_there = |context: u64| {
            let posted = &self.recvs[&context];
            let fits = message.len.min(posted.buf.len);
            let bytes = || memory.read(posted.buf.truncated(fits)).iter().copied();
            bytes().eq(content(message.content, fits))
        };
        match self.matcher.receive_of[id] {
            Some(context) => {
                let is_silent = !self.recvs[&context].report;
                is_silent || self.may_be_lent(context) || is_there(context)
            }
            None => {
                let posted = self.matcher.posted(message.to).iter();
                let mut wants = posted.filter(|(_, wanted)| wanted.accepts(message));
                wants.any(|(context, _)| is_there(*context))
            }
        }
    }

    /// Panics unless the senders of what is kept, whole, were told so that wait for no more.
    pub(super) fn check_kept(&self, world: &World<'_>) {
        for sent in self.sends.values() {
            let message = &self.matcher.messages[sent.id];
            let is_kept = self.matcher.is_kept(sent.id) && self.came_whole.contains(&sent.id);
            let is_told = is_kept && sent.delivery != Some(Delivery::Matched);
            if is_told && !world.is_cut(message.to, message.from) {
                self.check_sent(world, sent);
            }
        }
    }

    /// Panics unless a send that must have ended has.
    pub(super) fn check_sent(&self, world: &World<'_>, sent: &Sent) {
        let has_ended = sent.done || !sent.report || world.is_dead(sent.from);
        assert!(has_ended, "the send of message {} has not ended", sent.id);
    }
}
