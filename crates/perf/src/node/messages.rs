//! The messages of a measurement: data, and those that have a number.

use super::requests::{NUMBERED, region};
use super::{Channel, Node, Numbered};
use crate::access::Access;
use anyhow::{Context as _, Result};
use sluice_proto::{Recv, Send};

impl<A: Access> Node<A> {
    /// Data messages received so far.
    #[inline]
    pub fn data_received(&self) -> u64 {
        self.ends.received(Channel::Data)
    }

    /// Posts a receive of one data message.
    #[inline]
    pub fn post_data(&mut self, size: u64) -> Result<()> {
        self.post_data_into(0, size)
    }

    /// The same, to `at` of the receive buffer.
    #[inline]
    pub fn post_data_into(&mut self, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.recv_buf[at as usize..(at + size) as usize]);
        self.post(&self.recv_of(Channel::Data, buf))
    }

    /// Sends one data message. The bytes must stay until the other process has
    /// shown that it has them.
    #[inline]
    pub fn send_data(&mut self, size: u64) -> Result<()> {
        self.send_data_from(0, size)
    }

    /// The same, from `at` of the send buffer.
    #[inline]
    pub fn send_data_from(&mut self, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.send_buf[at as usize..(at + size) as usize]);
        self.send(&self.send_of(Channel::Data, buf, false))
    }

    /// Sends one data message whose end is told.
    #[inline]
    pub fn send_data_reported(&mut self, size: u64) -> Result<()> {
        let buf = region(&mut self.send_buf[..size as usize]);
        self.send(&self.send_of(Channel::Data, buf, true))
    }

    /// Sends that have ended so far, of those whose end is told.
    #[inline]
    pub fn sends_ended(&self) -> u64 {
        self.ends.sent
    }

    /// Waits until so many of those have ended in all.
    #[inline]
    pub fn wait_sends_ended(&mut self, count: u64) -> Result<()> {
        self.wait(|node| node.ends.sent >= count)
    }

    /// Waits until so many data messages have been received in all.
    #[inline]
    pub fn wait_data(&mut self, count: u64) -> Result<()> {
        self.wait(|node| node.ends.received(Channel::Data) >= count)
    }

    /// Sends the message of this number, `size` bytes at `at` of the send
    /// buffer, with its number beside it. They must stay until the send has ended.
    pub fn send_numbered(&mut self, number: u64, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.send_buf[at as usize..(at + size) as usize]);
        let tag = NUMBERED + number;
        self.send(&Send { tag, data: Some(number), ..self.send_of(Channel::Data, buf, false) })
    }

    /// Posts a receive of the message of this number, to `at` of the receive
    /// buffer.
    pub fn post_numbered(&mut self, number: u64, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.recv_buf[at as usize..(at + size) as usize]);
        let tag = NUMBERED + number;
        self.post(&Recv { tag, context: tag, ..self.recv_of(Channel::Data, buf) })
    }

    /// Posts a receive of any numbered message, to `at` of the receive buffer. Its end has
    /// the number `place`, and that of the message as its data.
    pub fn post_any_numbered(&mut self, place: u64, at: u64, size: u64) -> Result<()> {
        let buf = region(&mut self.recv_buf[at as usize..(at + size) as usize]);
        let context = NUMBERED + place;
        let all = NUMBERED - 1;
        let any = Recv { tag: NUMBERED, ignore: all, ..self.recv_of(Channel::Data, buf) };
        self.post(&Recv { context, ..any })
    }

    /// The next end of a receive of a numbered message that is there already.
    pub fn next_numbered(&mut self) -> Option<Numbered> {
        self.ends.numbered.pop_front()
    }

    /// Sends the message of this number with this word from `at` of the send buffer, and its
    /// end is told.
    pub fn send_numbered_reported(
        &mut self,
        number: u64,
        word: u64,
        at: u64,
        size: u64,
    ) -> Result<()> {
        let buf = region(&mut self.send_buf[at as usize..(at + size) as usize]);
        let tag = NUMBERED + (number & (NUMBERED - 1));
        self.send(&Send { tag, data: Some(word), ..self.send_of(Channel::Data, buf, true) })
    }

    /// Waits for the next end of a receive of a numbered message.
    pub fn wait_numbered(&mut self) -> Result<Numbered> {
        self.wait(|node| !node.ends.numbered.is_empty())?;
        self.ends.numbered.pop_front().context("a message was waited for")
    }
}
