//! The end of an endpoint that still has what the program is done with.
//!
//! A program that injects a message is done with it when the call returns. Without credit the message
//! waits here as a copy, and the program may close the endpoint meanwhile: `MPI_Finalize` of MPICH has
//! no barrier. So closing waits until receivers have taken what was injected, as long as they live, and
//! may compute between two looks. Then it waits until what goes over TCP is with the systems of its
//! receivers ([`Net::undelivered`](sluice_rail::net::Net::undelivered)). It gives up only where nothing
//! has moved for as long as `FI_SLUICE_LINGER` says, and tells who.
//!
//! Nobody receives here any more. What comes meanwhile is received to nowhere, so that two endpoints
//! which close with messages for each other both come to their end.
//!
//! Endpoints of this process are not waited for: who would receive there may be the thread that
//! closes here.

use crate::engine::{Address, Engine};
use crate::log::{self, About};
use crate::param;
use sluice_proto::{Kind, Recv, Space};
use sluice_wire::{Addr, PeerId, Region};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The addresses of the endpoints of this process.
static OWN: Mutex<Vec<Address>> = Mutex::new(Vec::new());

/// For how long in vain it looks without a rest, and a rest.
const LOOK: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_micros(200);
/// After how long it says what it waits for.
const TELL_AFTER: Duration = Duration::from_secs(10);
/// Receives to nowhere in each space.
const NOWHERE: usize = 32;
/// The context of these. A program's own may be the same: then one more is posted.
const CONTEXT: u64 = u64::MAX;

/// An endpoint has opened.
pub fn opened(address: Address) {
    OWN.lock().unwrap_or_else(PoisonError::into_inner).push(address);
}

/// An endpoint is to end: waits as the module says.
pub fn linger(engine: &mut Engine) {
    if !engine.is_own() {
        return;
    }
    let address = engine.address();
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.retain(|other| *other != address);
    let own = [own.clone(), vec![address]].concat();
    Wait { engine, own, left: Left::new(), since: Instant::now() }.run(param::get().linger);
}

/// What a peer has not taken: requests that were injected, and how much of what has left.
type Left = BTreeMap<PeerId, (u64, u64)>;

/// A wait for receivers.
struct Wait<'a> {
    engine: &'a mut Engine,
    own: Vec<Address>,
    /// What was left at the last look, and since when it is so much.
    left: Left,
    since: Instant,
}

impl Wait<'_> {
    fn run(mut self, timeout: Duration) {
        self.left = self.look();
        if self.left.is_empty() {
            return;
        }
        for space in [Space::Tagged, Space::Untagged] {
            (0..NOWHERE).for_each(|_| self.receive_to_nowhere(space));
        }
        let mut is_told = false;
        while !self.left.is_empty() {
            let vain = self.since.elapsed();
            if vain >= timeout {
                let what = "closes without having delivered";
                return self.tell(what, "it is lost; FI_SLUICE_LINGER waits for longer");
            }
            if vain >= TELL_AFTER && !is_told {
                is_told = true;
                self.tell("that closes waits for", "FI_SLUICE_LINGER says for how long");
            }
            match vain < LOOK {
                true => thread::yield_now(),
                false => thread::sleep(REST),
            }
            self.engine.poll_after_rest();
            self.drop_completions();
            let left = self.look();
            if left != self.left {
                (self.left, self.since) = (left, Instant::now());
            }
        }
    }

    /// What is left, of peers that are other processes.
    fn look(&self) -> Left {
        let mut left = Left::new();
        for peer in self.engine.promised() {
            left.entry(peer).or_default().0 += 1;
        }
        for (peer, more) in self.engine.undelivered() {
            left.entry(peer).or_default().1 += more;
        }
        let engine = &*self.engine;
        left.retain(|&peer, _| engine.peer_address(peer).is_none_or(|at| !self.own.contains(&at)));
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

    /// Where there is no room for it, its peer waits in vain.
    fn receive_to_nowhere(&mut self, space: Space) {
        let buf = Region { addr: Addr(0), len: 0 };
        let any = Recv {
            space,
            source: None,
            buf,
            tag: 0,
            ignore: u64::MAX,
            context: CONTEXT,
            report: true,
        };
        let _ = self.engine.recv(&any);
    }

    fn tell(&self, what: &str, more: &str) {
        let who = |(&peer, &(injected, _)): (&PeerId, &(u64, u64))| {
            let who = self.engine.describe(peer);
            match injected {
                0 => format!("what is on its way to {who}"),
                _ => format!("{injected} injected messages for {who}"),
            }
        };
        let who: Vec<String> = self.left.iter().map(who).collect();
        log::warn(About::Endpoint, &format!("an endpoint {what} {} ({more})", who.join(", ")));
    }
}
