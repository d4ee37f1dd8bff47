//! What the two processes tell each other: steps, and answers to them.

use super::requests::region;
use super::{Channel, Node};
use crate::access::Access;
use crate::step::{STEP_BYTES, Step};
use anyhow::Result;

/// Bytes of an answer: a word, and as many more as figures of all versions have had.
const ANSWER_BYTES: usize = 32;

impl<A: Access> Node<A> {
    /// Tells the second process what to do, and waits until it is ready.
    pub fn begin(&mut self, step: &Step) -> Result<()> {
        self.ask(step).map(|_| ())
    }

    /// Tells the second process what to do, and waits for its answer.
    pub fn ask(&mut self, step: &Step) -> Result<u64> {
        self.tell(step)?;
        self.wait_answer()
    }

    /// Tells the second process what to do; it does not answer.
    pub fn tell(&mut self, step: &Step) -> Result<()> {
        *self.small_out = step.to_bytes();
        self.send_small(Channel::Step, STEP_BYTES)
    }

    /// Waits for the next step.
    pub fn next_step(&mut self) -> Result<Step> {
        self.wait_small(Channel::Step, STEP_BYTES)?;
        Step::from_bytes(&self.small_in)
    }

    /// Answers: ready, or what was found.
    pub fn answer(&mut self, word: u64) -> Result<()> {
        self.small_out[..8].copy_from_slice(&word.to_le_bytes());
        self.send_small(Channel::Answer, ANSWER_BYTES)
    }

    /// Posts the receive of the next answer, so that it is expected.
    pub fn post_answer(&mut self) -> Result<()> {
        let buf = region(&mut self.small_in[..ANSWER_BYTES]);
        self.post(&self.recv_of(Channel::Answer, buf))
    }

    /// Answers received so far.
    #[inline]
    pub fn answers_received(&self) -> u64 {
        self.ends.received(Channel::Answer)
    }

    /// Waits until so many answers have been received in all.
    #[inline]
    pub fn wait_answers(&mut self, count: u64) -> Result<()> {
        self.wait(|node| node.ends.received(Channel::Answer) >= count)
    }

    /// Waits for an answer.
    pub fn wait_answer(&mut self) -> Result<u64> {
        self.wait_small(Channel::Answer, ANSWER_BYTES)?;
        Ok(self.answer_word())
    }

    /// What the answer says that came last.
    pub fn answer_word(&self) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.small_in[..8]);
        u64::from_le_bytes(word)
    }

    /// Posts the receive of the next step, which is then there when
    /// [`Node::posted_step`] gives it.
    pub fn post_step(&mut self) -> Result<()> {
        self.steps_seen = self.ends.received(Channel::Step);
        let buf = region(&mut self.small_in[..STEP_BYTES]);
        self.post(&self.recv_of(Channel::Step, buf))
    }

    /// The step whose receive was posted, if it has come.
    pub fn posted_step(&mut self) -> Result<Option<Step>> {
        if self.ends.received(Channel::Step) == self.steps_seen {
            return Ok(None);
        }
        Step::from_bytes(&self.small_in).map(Some)
    }

    fn wait_small(&mut self, channel: Channel, len: usize) -> Result<()> {
        let count = self.ends.received(channel) + 1;
        let buf = region(&mut self.small_in[..len]);
        self.post(&self.recv_of(channel, buf))?;
        self.wait(|node| node.ends.received(channel) >= count)
    }

    fn send_small(&mut self, channel: Channel, len: usize) -> Result<()> {
        let count = self.ends.sent + 1;
        let buf = region(&mut self.small_out[..len]);
        self.send(&self.send_of(channel, buf, true))?;
        self.wait_sends_ended(count)
    }
}
