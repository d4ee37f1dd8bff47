//! The end of an endpoint that still has what the program is done with.
//!
//! A program that injects a message is done with it when the call returns. Without credit the message
//! waits here as a copy, and the program may close the endpoint meanwhile: `MPI_Finalize` of MPICH has
//! no barrier. So closing waits until receivers have taken what was injected, as long as they live, and
//! may compute between two looks. Then it waits until what goes over TCP has once been with the systems of
//! its receivers ([`Net::undelivered`](sluice_rail::net::Net::undelivered)). It gives up where no
//! injected message has gone for as long as `FI_SLUICE_LINGER` says, or what has left has not come in
//! that time, and tells who.
//!
//! Nobody receives here any more: what the program has posted is withdrawn, since its memory may be
//! another's by now. What still comes is received to nowhere, so that two endpoints which close with
//! messages for each other both come to their end.
//!
//! Endpoints of this process are not waited for: who would receive there may be the thread that
//! closes here.

use crate::engine::{Address, Engine};
use crate::log::{self, About};
use crate::param;
use sluice_proto::{Kind, Recv, Space};
use sluice_wire::{Addr, PeerId, Region};
use std::collections::BTreeMap;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The addresses of the endpoints of a process: of this one, and of one that it was forked from.
static OWN: Mutex<Vec<(u32, Address)>> = Mutex::new(Vec::new());

/// For how long in vain it looks without a rest, and a rest.
const BUSY: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_micros(200);
/// After how long in vain it says what it waits for.
const TELL_AFTER: Duration = Duration::from_secs(10);
/// A look at all requests takes at most one part of so many of the time.
const LOOK_PARTS: u32 = 10;
/// Most polls that find something between two looks.
const POLLS_MAX: u32 = 64;
/// Receives to nowhere in each space.
const NOWHERE: usize = 32;
/// The context of these. A program's own may be the same: then one more is posted.
const CONTEXT: u64 = u64::MAX;

/// An endpoint has opened.
pub fn opened(address: Address) {
    own().push((process::id(), address));
}

/// An endpoint is to end: waits as the module says.
pub fn linger(engine: &mut Engine) {
    if !engine.is_own() {
        return;
    }
    let (pid, address) = (process::id(), engine.address());
    let of_process = {
        let mut all = own();
        let here: Vec<Address> =
            all.iter().filter(|(of, _)| *of == pid).map(|(_, address)| *address).collect();
        all.retain(|(of, other)| *of == pid && *other != address);
        here
    };
    let wait = Wait { engine, of_process, timeout: param::get().linger, is_told: false };
    wait.run();
}

fn own() -> MutexGuard<'static, Vec<(u32, Address)>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much is left for each peer.
type Left = BTreeMap<PeerId, u64>;

/// A wait for receivers.
struct Wait<'a> {
    engine: &'a mut Engine,
    of_process: Vec<Address>,
    timeout: Duration,
    is_told: bool,
}

impl Wait<'_> {
    fn run(mut self) {
        if !self.injected().is_empty() {
            self.engine.withdraw_receives();
            self.drop_completions();
            for space in [Space::Tagged, Space::Untagged] {
                (0..NOWHERE).for_each(|_| self.receive_to_nowhere(space));
            }
            self.until_taken();
        }
        self.until_delivered();
    }

    /// Until receivers have all that was injected. Each that goes is a reason to wait on.
    fn until_taken(&mut self) {
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let began = Instant::now();
            let left = self.injected();
            let look = began.elapsed();
            let count = left.values().sum();
            if count == 0 {
                return;
            }
            if count < least {
                (least, since) = (count, Instant::now());
            }
            if self.is_in_vain(since, "injected messages", &left) {
                return;
            }
            let next = Instant::now() + look * LOOK_PARTS;
            loop {
                self.poll(since);
                if Instant::now() >= next {
                    break;
                }
            }
        }
    }

    /// Until what has left has once come, of each peer. What goes on its way later answers others.
    fn until_delivered(&mut self) {
        let since = Instant::now();
        let mut left = self.undelivered();
        while !left.is_empty() {
            // Without a wait there is nothing to be told of: it is on its way all the same.
            if self.timeout.is_zero() || self.is_in_vain(since, "bytes on their way", &left) {
                return;
            }
            self.poll(since);
            let now = self.undelivered();
            left.retain(|peer, _| now.contains_key(peer));
        }
    }

    /// Whether it has waited for long enough in vain. Says so, and before that what it waits for.
    fn is_in_vain(&mut self, since: Instant, what: &str, left: &Left) -> bool {
        let vain = since.elapsed();
        let is_over = vain >= self.timeout;
        if !is_over && (vain < TELL_AFTER || self.is_told) {
            return false;
        }
        self.is_told = true;
        let who = left
            .iter()
            .map(|(&peer, count)| format!("{count} {what} for {}", self.engine.describe(peer)));
        let who = who.collect::<Vec<_>>().join(", ");
        log::warn(
            About::Endpoint,
            &match is_over {
                true => format!(
                    "an endpoint closes without having delivered {who}; they may be lost; \
                     FI_SLUICE_LINGER waits for longer"
                ),
                false => format!(
                    "an endpoint that closes waits for {who}; FI_SLUICE_LINGER says for how long"
                ),
            },
        );
        is_over
    }

    /// Takes in what there is, or rests for a moment.
    fn poll(&mut self, since: Instant) {
        for _ in 0..POLLS_MAX {
            let inputs = self.engine.poll_after_rest();
            self.drop_completions();
            if inputs == 0 {
                return match since.elapsed() < BUSY {
                    true => thread::yield_now(),
                    false => thread::sleep(REST),
                };
            }
        }
    }

    /// Injected requests that wait here.
    fn injected(&self) -> Left {
        let mut left = Left::new();
        for peer in self.engine.promised() {
            *left.entry(peer).or_default() += 1;
        }
        self.of_others(left)
    }

    fn undelivered(&self) -> Left {
        self.of_others(self.engine.undelivered().into_iter().collect())
    }

    /// The same without endpoints of this process.
    fn of_others(&self, mut left: Left) -> Left {
        let address = |peer| self.engine.peer_address(peer);
        left.retain(|&peer, _| address(peer).is_none_or(|at| !self.of_process.contains(&at)));
        left
    }

    /// Nobody reads of what has ended, and what was received to nowhere makes room for more.
    fn drop_completions(&mut self) {
        while let Some(&ended) = self.engine.first() {
            self.engine.remove_first();
            if ended.kind == Kind::Recv && ended.context == CONTEXT {
                self.receive_to_nowhere(ended.space);
            }
        }
    }

    /// Where there is no room for it, what comes waits for those that have one.
    fn receive_to_nowhere(&mut self, space: Space) {
        let buf = Region { addr: Addr(0), len: 0 };
        let (source, tag, ignore) = (None, 0, u64::MAX);
        let any = Recv { space, source, buf, tag, ignore, context: CONTEXT, report: true };
        let _ = self.engine.recv(&any);
    }
}
