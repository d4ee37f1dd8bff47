//! Whether a lane is deaf: its peer is there, as it says beside the lane, and nothing comes
//! on the lane itself. Without I/O and clock.
//!
//! A peer that computes answers nowhere, and what it answered before it began to says
//! nothing of the lane: an answer may be old, or have overtaken what comes on the lane, which
//! a provider moves only while its process calls. So questions are numbered. Those that were
//! asked before something came on the lane do not count, and of those that one look of the
//! peer may have answered together only one does. A lane is deaf after [`ROUNDS_DEAF`] such
//! rounds: its peer was there at the beginning and at the end of a time that is long enough.

use std::time::{Duration, Instant};

const ROUNDS_DEAF: u32 = 3;
/// Least time between an answer and the next question of a lane that is suspected.
const ROUND_PAUSE: Duration = Duration::from_millis(10);

/// See the module. What is `heard` is how many messages have come on the lane in all.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The number of the last question.
    asked: u64,
    /// Answers to questions up to this one say nothing new.
    settled: u64,
    heard: u64,
    rounds: u32,
    /// When the last round ended.
    ended: Option<Instant>,
}

impl Answers {
    /// The number of the next question.
    pub(super) fn ask(&mut self, heard: u64) -> u64 {
        self.note(heard);
        self.asked += 1;
        self.asked
    }

    /// A question was answered.
    pub(super) fn answered(&mut self, number: u64, heard: u64, now: Instant) {
        self.note(heard);
        if number <= self.settled || number > self.asked {
            return;
        }
        self.settled = self.asked;
        self.rounds += 1;
        self.ended = Some(now);
    }

    /// Whether a further question is due: a round has ended, and nobody asks by himself.
    pub(super) fn is_due(&mut self, heard: u64, now: Instant) -> bool {
        self.note(heard);
        let is_between = (1..ROUNDS_DEAF).contains(&self.rounds) && self.asked == self.settled;
        let ended = self.ended.filter(|_| is_between);
        ended.is_some_and(|ended| now.duration_since(ended) >= ROUND_PAUSE)
    }

    pub(super) fn is_deaf(&mut self, heard: u64) -> bool {
        self.note(heard);
        self.rounds >= ROUNDS_DEAF
    }

    fn note(&mut self, heard: u64) {
        if heard != self.heard {
            *self = Answers { asked: self.asked, settled: self.asked, heard, ..Answers::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begin: Instant, ms: u64) -> Instant {
        begin + Duration::from_millis(ms)
    }

    #[test]
    fn a_peer_that_goes_on_answering_beside_a_silent_lane_is_found() {
        let (mut answers, begin) = (Answers::default(), Instant::now());
        for round in 0..u64::from(ROUNDS_DEAF) {
            assert!(!answers.is_deaf(0));
            if round > 0 {
                assert!(!answers.is_due(0, after(begin, 100 * (round - 1) + 1)), "at once");
                assert!(answers.is_due(0, after(begin, 100 * round)));
            }
            let number = answers.ask(0);
            answers.answered(number, 0, after(begin, 100 * round));
        }
        assert!(answers.is_deaf(0) && !answers.is_due(0, after(begin, 10_000)));
        assert!(!answers.is_deaf(1), "it was only slow");
    }

    /// The peer looks once, and computes on: it answers all that was asked meanwhile.
    #[test]
    fn answers_of_one_look_are_one_round() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let numbers: Vec<u64> = (0..8).map(|_| answers.ask(0)).collect();
        for number in numbers {
            answers.answered(number, 0, now);
        }
        assert_eq!(answers.rounds, 1);
    }

    /// The fault that this is for: what was asked long ago is answered behind what came on
    /// the lane, and then the peer computes.
    #[test]
    fn an_answer_that_comes_late_says_nothing() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let numbers: Vec<u64> = (0..8).map(|_| answers.ask(0)).collect();
        for number in numbers {
            answers.answered(number, 1, now);
        }
        answers.answered(77, 1, now);
        assert_eq!(answers.rounds, 0, "stale, or never asked");
        let number = answers.ask(1);
        answers.answered(number, 1, now);
        assert_eq!(answers.rounds, 1);
    }
}
