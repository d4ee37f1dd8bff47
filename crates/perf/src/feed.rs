//! A stream of numbered messages beside reads of the sender's memory, both without an end
//! of their own: whether each message comes once and in order, every byte is right, and how
//! long at most nothing came.

use crate::compute::now_ns;
use crate::gaps::{CoreWatch, Gap, Watched};
use crate::node::{Idle, Node};
use crate::step::Step;
use crate::verify::{fill, first_wrong};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sluice_wire::Nanos;
use std::collections::BTreeSet;

/// Bytes of a message: it is sent eagerly.
const MESSAGE_BYTES: u64 = 512;
/// Most messages that have been sent and have not ended.
const WINDOW: u64 = 64;
/// Time between two of them: they are few beside what is read.
const EVERY_NS: u64 = 50_000;
/// Different contents of messages.
const CONTENTS: u64 = 64;
/// Bytes of a read, and how many are under way.
const READ_BYTES: u64 = 1 << 20;
const READS: u64 = 4;
/// What is read from, in turn: no read has the bytes of the one before it.
const PLACES: u64 = 7;
/// Where in the receive buffer messages begin, behind the reads.
const MESSAGES_AT: u64 = READS * READ_BYTES;
/// Bytes of each side's buffer.
const BUFFER_BYTES: u64 = PLACES * READ_BYTES + CONTENTS * MESSAGE_BYTES;
/// A message that others have overtaken for so long is lost.
const MISSING_NS_MAX: u64 = 10_000_000_000;
/// What is exposed is filled by this.
const SEED: u64 = 0xFEED;

/// A message's word has its number here, and above it for how long its sender had been
/// without its core since the message before, in microseconds.
const NUMBER_BITS: u32 = 40;

/// How long at most nothing came since the last mark, what was done meanwhile, and what has
/// gone wrong since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gaps {
    pub packets: Watched,
    pub reads: Watched,
    /// From the mark until a rail was closed or suspected here, and the stream was on another.
    pub noticed_ns: Option<u64>,
    pub resumed_ns: Option<u64>,
    /// From then on until both a message and the end of a read have come.
    pub flowed_ns: Option<u64>,
    pub lost: u64,
    pub duplicated: u64,
}

/// Which numbers have come. Messages are matched in order, but one that found no receive
/// may end after those behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    /// All before this one have come, or are lost.
    next: u64,
    /// Those behind it that have come.
    ahead: BTreeSet<u64>,
    lost: u64,
    duplicated: u64,
    /// Those that were matched by a receive that was posted for another one.
    misplaced: u64,
}

impl Numbers {
    /// A message has come, in the place that is due to the message `due`.
    fn came(&mut self, number: u64, due: u64) {
        self.misplaced += u64::from(number != due);
        if number < self.next || !self.ahead.insert(number) {
            self.duplicated += 1;
        }
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }

    /// What has not come before this number will not come any more.
    fn give_up_before(&mut self, end: u64) {
        let ahead = self.ahead.range(..end).count() as u64;
        self.lost += end.saturating_sub(self.next).saturating_sub(ahead);
        self.ahead = self.ahead.split_off(&end);
        self.next = self.next.max(end);
    }
}

/// The receiving side, which reads too.
#[derive(Debug)]
pub struct Feed {
    key: u64,
    /// What all reads should bring.
    expected: Vec<u8>,
    numbers: Numbers,
    /// Of the message that the receive of each place is due to.
    due: [u64; WINDOW as usize],
    receives_posted: u64,
    reads_begun: u64,
    /// Where each read under way reads from.
    places: [u64; READS as usize],
    packets: Gap,
    reads: Gap,
    core: CoreWatch,
    /// Since when gaps count, and what has happened since.
    marked_ns: u64,
    noticed_ns: Option<u64>,
    resumed_ns: Option<u64>,
    flowed_ns: [Option<u64>; 2],
    idle: Idle,
}

impl Feed {
    /// Begins both.
    pub fn begin(node: &mut Node) -> Result<Feed> {
        node.begin(&Step::Reserve { size: BUFFER_BYTES })?;
        node.reserve(BUFFER_BYTES);
        let feed = Step::Feed { size: MESSAGE_BYTES, window: WINDOW, every_ns: EVERY_NS };
        let mut due = [0; WINDOW as usize];
        for place in 0..WINDOW {
            post(node, place)?;
            due[place as usize] = place;
        }
        let key = node.ask(&feed)?;
        let mut expected = vec![0; (PLACES * READ_BYTES) as usize];
        fill(&mut expected, SEED);
        let now_ns = now_ns();
        let (packets, reads) = (Gap::starting(now_ns), Gap::starting(now_ns));
        let numbers = Numbers::default();
        let places = [0; READS as usize];
        let idle = Idle::default();
        let receives_posted = WINDOW;
        let mut feed = Feed {
            key,
            expected,
            numbers,
            due,
            receives_posted,
            reads_begun: 0,
            places,
            packets,
            reads,
            core: CoreWatch::begin(now_ns),
            marked_ns: now_ns,
            noticed_ns: None,
            resumed_ns: None,
            flowed_ns: [None; 2],
            idle,
        };
        for read in 0..READS {
            feed.read(node, read);
        }
        Ok(feed)
    }

    /// From now on gaps count.
    pub fn mark(&mut self) {
        let now_ns = now_ns();
        (self.packets, self.reads) = (Gap::starting(now_ns), Gap::starting(now_ns));
        self.core.forget();
        (self.noticed_ns, self.resumed_ns, self.flowed_ns) = (None, None, [None; 2]);
        self.marked_ns = now_ns;
    }

    /// What there was since then.
    pub fn gaps(&self) -> Gaps {
        let since_mark = |at: Option<u64>| Some(at?.saturating_sub(self.marked_ns));
        let flowed = self.flowed_ns[0].zip(self.flowed_ns[1]);
        let flowed_ns = flowed.zip(self.noticed_ns).map(|((a, b), from)| a.max(b) - from);
        Gaps {
            packets: self.packets.watched(self.marked_ns, self.core.absences()),
            reads: self.reads.watched(self.marked_ns, self.core.absences()),
            noticed_ns: since_mark(self.noticed_ns),
            resumed_ns: since_mark(self.resumed_ns),
            flowed_ns,
            lost: self.numbers.lost,
            duplicated: self.numbers.duplicated,
        }
    }

    /// Goes on until something of both has come, and all messages that were missing, or
    /// are lost for certain.
    pub fn catch_up(&mut self, node: &mut Node) -> Result<()> {
        let asked_ns = now_ns();
        while self.packets.last_ns < asked_ns || self.reads.last_ns < asked_ns {
            self.turn(node)?;
        }
        let Some(&last) = self.numbers.ahead.last() else { return Ok(()) };
        while self.numbers.next < last && now_ns() < asked_ns + MISSING_NS_MAX {
            self.turn(node)?;
        }
        self.numbers.give_up_before(last);
        Ok(())
    }

    /// Takes in what has come.
    pub fn turn(&mut self, node: &mut Node) -> Result<()> {
        node.turn(&mut self.idle)?;
        self.note_course(node);
        while let Some(ended) = node.next_numbered() {
            let now_ns = now_ns();
            self.packets.arrival(now_ns);
            self.note_flow(0, now_ns);
            let word = ended.data.context("a message without its number")?;
            let number = word & ((1 << NUMBER_BITS) - 1);
            self.core.absent(now_ns, (word >> NUMBER_BITS) * 1000);
            let at = (MESSAGES_AT + ended.number * MESSAGE_BYTES) as usize;
            let bytes = &node.recv_buf()[at..at + MESSAGE_BYTES as usize];
            let is_right =
                ended.len == MESSAGE_BYTES && first_wrong(bytes, number % CONTENTS).is_none();
            ensure!(is_right, "message {number} was altered on its way");
            let due = &mut self.due[ended.number as usize];
            self.numbers.came(number, *due);
            *due = self.receives_posted;
            self.receives_posted += 1;
            post(node, ended.number)?;
        }
        while let Some((read, is_done)) = node.next_read() {
            let now_ns = now_ns();
            self.reads.arrival(now_ns);
            self.note_flow(1, now_ns);
            ensure!(is_done, "a read of the other host's memory failed");
            self.check(node, read)?;
            self.read(node, read);
        }
        Ok(())
    }

    /// Notes what the rails did, and whether this process had its core meanwhile.
    fn note_course(&mut self, node: &Node) {
        self.core.look(now_ns());
        let stats = node.net_stats();
        let fresh = |at: Option<Nanos>| at.map(|at| at.0).filter(|&at| at >= self.marked_ns);
        self.noticed_ns = self.noticed_ns.or(fresh(stats.noticed));
        self.resumed_ns = self.resumed_ns.or(fresh(stats.resumed));
    }

    fn note_flow(&mut self, of: usize, now_ns: u64) {
        if self.noticed_ns.is_some() {
            self.flowed_ns[of].get_or_insert(now_ns);
        }
    }

    /// Ends both: all that was sent must come.
    pub fn end(mut self, node: &mut Node) -> Result<Gaps> {
        let mut under_way = READS;
        while under_way > 0 {
            node.turn(&mut self.idle)?;
            while let Some((read, is_done)) = node.next_read() {
                ensure!(is_done, "a read of the other host's memory failed");
                self.check(node, read)?;
                under_way -= 1;
            }
        }
        node.post_answer()?;
        let answers = node.answers_received();
        node.tell(&Step::EndFeed)?;
        while node.answers_received() == answers {
            self.turn(node)?;
        }
        let (sent, asked_ns) = (node.answer_word(), now_ns());
        while self.numbers.next < sent && now_ns() < asked_ns + MISSING_NS_MAX {
            self.turn(node)?;
        }
        self.numbers.give_up_before(sent);
        let Numbers { lost, duplicated, misplaced, .. } = self.numbers;
        ensure!(
            lost + duplicated > 0 || misplaced == 0,
            "{misplaced} messages were matched in another order than they were sent in"
        );
        Ok(self.gaps())
    }

    fn read(&mut self, node: &mut Node, read: u64) {
        let from = self.reads_begun % PLACES;
        self.reads_begun += 1;
        self.places[read as usize] = from;
        node.begin_read(read, self.key, from * READ_BYTES, read * READ_BYTES, READ_BYTES);
    }

    fn check(&self, node: &mut Node, read: u64) -> Result<()> {
        let (at, from) = (read * READ_BYTES, self.places[read as usize] * READ_BYTES);
        let part = |from: u64| from as usize..(from + READ_BYTES) as usize;
        if node.recv_buf()[part(at)] != self.expected[part(from)] {
            bail!("what was read of the other host's memory was altered on its way");
        }
        Ok(())
    }
}

fn post(node: &mut Node, place: u64) -> Result<()> {
    node.post_any_numbered(place, MESSAGES_AT + place * MESSAGE_BYTES, MESSAGE_BYTES)
}

/// The sending side, which is read from.
pub fn second(node: &mut Node, size: u64, window: u64, every_ns: u64) -> Result<()> {
    let contents_at = PLACES * READ_BYTES;
    fill(&mut node.send_buf()[..contents_at as usize], SEED);
    for content in 0..CONTENTS {
        let at = (contents_at + content * size) as usize;
        fill(&mut node.send_buf()[at..at + size as usize], content);
    }
    node.post_step()?;
    let key = node.expose();
    node.answer(key)?;
    let ended_before = node.sends_ended();
    let (mut sent, mut next_ns) = (0, now_ns());
    let mut core = CoreWatch::begin(next_ns);
    let mut absent_us = 0;
    let mut idle = Idle::default();
    let step = loop {
        if let Some(step) = node.posted_step()? {
            break step;
        }
        let under_way = sent - (node.sends_ended() - ended_before);
        let now = now_ns();
        absent_us += core.look(now) / 1000;
        if now >= next_ns && under_way < window {
            let at = contents_at + sent % CONTENTS * size;
            let absent = std::mem::take(&mut absent_us).min(u64::MAX >> NUMBER_BITS);
            node.send_numbered_reported(sent, sent | absent << NUMBER_BITS, at, size)?;
            sent += 1;
            // What could not be sent is not made up for.
            next_ns = now_ns() + every_ns;
        }
        node.turn(&mut idle)?;
    };
    ensure!(step == Step::EndFeed, "the stream goes on until it is ended");
    node.wait_sends()?;
    node.answer(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_comes_twice_is_counted() {
        let mut numbers = Numbers::default();
        for (due, number) in (0..).zip([0, 1, 1, 2, 5, 3, 5]) {
            numbers.came(number, due);
        }
        assert_eq!((numbers.next, numbers.lost, numbers.duplicated), (4, 0, 2));
        assert_eq!(numbers.misplaced, 5);
        numbers.give_up_before(8);
        assert_eq!((numbers.next, numbers.lost), (8, 3));
        assert!(numbers.ahead.is_empty());
    }

    #[test]
    fn a_message_that_ends_late_is_not_lost() {
        let mut numbers = Numbers::default();
        for number in [0, 2, 1, 3] {
            numbers.came(number, number);
        }
        numbers.give_up_before(4);
        assert_eq!(numbers, Numbers { next: 4, ..Numbers::default() });
    }
}
