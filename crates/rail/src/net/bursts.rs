//! When small frames wait for each other: a system call costs as much as dozens of them.
//!
//! What is sent inside a poll goes at the poll's end. What is sent between two polls goes at
//! once, unless the process has shown that it polls soon after bursts ([`Habit`]): then the
//! frames of a burst wait for each other until that poll, or until there are many, or the
//! first has waited long ([`Burst`]). Of a process that sends burst after burst the first
//! frame waits as well; a lone one after a lone one never does.
//!
//! A process may compute after a burst, and nobody else can send what waits. So one poll
//! that comes late ends the trust in it, and it takes several prompt ones to regain it.
//!
//! Invariant: nothing waits in a process that was late until it has been prompt
//! [`PROMPT_MIN`] times in a row, and then at most until its next poll.

use sluice_wire::Nanos;

/// A poll that comes within this time after the last frame of a burst is prompt.
const PROMPT_NS: u64 = 50_000;
/// So many bursts in a row must have been followed by a prompt poll.
const PROMPT_MIN: u32 = 8;
/// So many frames between two polls are a burst after which another one is expected.
const BURST_FRAMES_MIN: u32 = 8;
/// Most that waits: frames, bytes, and time of the first.
const HELD_FRAMES_MAX: u32 = 64;
const HELD_BYTES_MAX: u64 = 16 << 10;
const HELD_NS_MAX: u64 = 25_000;

/// What a process has shown of when it polls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habit {
    is_polling: bool,
    /// Frames since the last poll, and when the last of them was sent.
    frames: u32,
    sent: Nanos,
    /// Bursts in a row that a prompt poll has followed.
    prompt: u32,
    /// The last frames came in a burst.
    is_bursting: bool,
}

impl Habit {
    /// A poll begins. Says whether frames may wait that go first.
    pub(super) fn begin_poll(&mut self, now: Nanos) -> bool {
        self.is_polling = true;
        let frames = std::mem::take(&mut self.frames);
        if frames > 1 {
            let is_prompt = now.since(self.sent).0 <= PROMPT_NS;
            self.prompt = if is_prompt { (self.prompt + 1).min(PROMPT_MIN) } else { 0 };
        }
        if frames > 0 {
            self.is_bursting = frames >= BURST_FRAMES_MIN;
        }
        frames > 0
    }

    /// All that it brought has been told.
    pub(super) fn end_poll(&mut self) {
        self.is_polling = false;
    }

    /// Whether what is to go is sent at the end of this poll.
    pub(super) fn is_polling(&self) -> bool {
        self.is_polling
    }

    /// A frame is sent.
    pub(super) fn note_sent(&mut self, now: Nanos) {
        if !self.is_polling {
            self.frames += 1;
            self.sent = now;
        }
    }

    /// Whether the frame that was just sent may wait.
    fn may_wait(&self) -> bool {
        let is_trusted = self.prompt >= PROMPT_MIN;
        self.is_polling || is_trusted && (self.frames > 1 || self.is_bursting)
    }
}

/// What waits on one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    frames: u32,
    since: Nanos,
}

impl Burst {
    /// A frame has been put into the stream, of which `held` bytes wait now. Says whether
    /// they go at once.
    pub(super) fn is_due(&mut self, habit: &Habit, now: Nanos, held: u64) -> bool {
        if self.frames == 0 {
            self.since = now;
        }
        self.frames += 1;
        !habit.may_wait()
            || self.frames >= HELD_FRAMES_MAX
            || held >= HELD_BYTES_MAX
            || now.since(self.since).0 >= HELD_NS_MAX
    }

    /// The socket was given all that waited.
    pub(super) fn note_given(&mut self) {
        self.frames = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process with one connection, in virtual time.
    #[derive(Default)]
    struct Process {
        habit: Habit,
        burst: Burst,
        now: u64,
        held: u64,
        /// How many frames each system call had.
        calls: Vec<u64>,
    }

    impl Process {
        fn flush(&mut self) {
            if self.held > 0 {
                self.calls.push(std::mem::take(&mut self.held));
            }
            self.burst.note_given();
        }

        fn send(&mut self) {
            self.habit.note_sent(Nanos(self.now));
            self.held += 1;
            if self.burst.is_due(&self.habit, Nanos(self.now), self.held * 48) {
                self.flush();
            }
        }

        /// So many frames, one in 100 ns.
        fn sends(&mut self, count: u64) {
            for _ in 0..count {
                self.now += 100;
                self.send();
            }
        }

        fn poll(&mut self, later_ns: u64) {
            self.now += later_ns;
            if self.habit.begin_poll(Nanos(self.now)) {
                self.flush();
            }
            self.flush();
            self.habit.end_poll();
        }

        /// The system calls of what `does`.
        fn calls_of(&mut self, does: impl FnOnce(&mut Process)) -> Vec<u64> {
            self.calls.clear();
            does(self);
            self.calls.clone()
        }
    }

    fn prompt() -> Process {
        let mut process = Process::default();
        for _ in 0..PROMPT_MIN {
            process.sends(2);
            process.poll(1_000);
        }
        process
    }

    #[test]
    fn a_lone_frame_never_waits() {
        let mut process = prompt();
        for _ in 0..3 {
            assert_eq!(process.calls_of(|it| it.sends(1)), [1]);
            process.poll(1_000);
        }
    }

    #[test]
    fn bursts_of_a_prompt_process_go_in_few_calls() {
        let mut process = prompt();
        let first = process.calls_of(|it| {
            it.sends(64);
            it.poll(200);
        });
        assert_eq!(first, [1, 63]);
        // From then on the first waits for the others too.
        let next = process.calls_of(|it| {
            it.sends(64);
            it.poll(200);
            it.sends(20);
            it.poll(200);
        });
        assert_eq!(next, [64, 20]);
        // A lone frame after that waits once more, until the poll, and no other.
        let last = process.calls_of(|it| {
            it.sends(1);
            it.poll(200);
            it.sends(1);
        });
        assert_eq!(last, [1, 1]);
    }

    #[test]
    fn who_computes_after_a_burst_sends_each_frame_at_once_from_then_on() {
        let mut process = prompt();
        process.sends(20);
        process.poll(PROMPT_NS + 1);
        for _ in 0..PROMPT_MIN {
            assert_eq!(process.calls_of(|it| it.sends(20)), [1; 20]);
            process.poll(1_000);
        }
        assert_eq!(process.calls_of(|it| it.sends(20)), []);
        // One that never polls soon is never trusted.
        let mut late = Process::default();
        for _ in 0..100 {
            assert_eq!(late.calls_of(|it| it.sends(5)), [1; 5]);
            late.poll(PROMPT_NS + 1);
        }
    }

    #[test]
    fn what_waits_is_bounded_in_number_size_and_time() {
        let mut process = prompt();
        process.sends(64);
        process.poll(200);
        let most = u64::from(HELD_FRAMES_MAX);
        assert_eq!(process.calls_of(|it| it.sends(3 * most)), [most; 3]);
        assert_eq!(process.calls_of(|it| it.sends(1)), []);
        process.now += HELD_NS_MAX;
        assert_eq!(process.calls_of(|it| it.sends(1)), [2]);
        let mut burst = Burst::default();
        assert!(burst.is_due(&process.habit, Nanos(process.now), HELD_BYTES_MAX));
    }

    #[test]
    fn what_is_sent_in_a_poll_goes_at_its_end() {
        let mut process = Process::default();
        process.habit.begin_poll(Nanos(0));
        assert!(process.habit.is_polling());
        assert_eq!(process.calls_of(|it| it.sends(10)), []);
        process.habit.end_poll();
        process.flush();
        assert_eq!(process.calls, [10]);
        // It says nothing about bursts.
        assert_eq!((process.habit.frames, process.habit.prompt), (0, 0));
    }
}
