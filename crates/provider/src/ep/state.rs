//! What an endpoint has under its lock, and the dispatch of what it has
//! finished.

use super::counters::{Counters, Regions};
use super::peers::Peers;
use crate::av::AvCore;
use crate::cntr::CntrCore;
use crate::cq::{CqCore, Entry, Failed, Kept, Sink};
use crate::domain::DomainCore;
use crate::engine::Engine;
use crate::errno::Errno;
use crate::ffi::{self, fi_addr_t};
use crate::info;
use crate::linger;
use crate::log::{self, About};
use crate::param;
use crate::report;
use sluice_proto::{Completion, Endpoint, Exposed, Failure, Kind};
use sluice_runtime::lock::{Lock, Unavailable};
use sluice_runtime::{Context, Holds, Polled, ProgressThread, Shared, ThreadOptions, Visit};
use std::sync::{Arc, Weak};

/// What completion queues count on.
#[derive(Debug)]
pub struct EpCore {
    pub(super) shared: Shared<State>,
    /// A thread makes progress as well: from `fi_enable` on, or from the first use on
    /// ([`State::begin_use`]).
    pub(super) threaded: bool,
}

/// What became of a send or a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is under way, or has ended.
    Taken,
    /// It only looked whether there is a message, as a program does that waits
    /// for one. What it found is in the queue.
    Looked,
}

/// Everything that an endpoint has, under its lock.
#[derive(Debug)]
pub struct State {
    /// The endpoint at work: from `fi_enable` to `fi_close`.
    pub engine: Option<Engine>,
    /// The same before `fi_enable`, if `fi_getname` came first.
    pub(super) named: Option<Engine>,
    pub peers: Peers,
    pub tx: Direction,
    pub rx: Direction,
    /// Receives may name the sender they accept (FI_DIRECTED_RECV).
    pub directed: bool,
    /// Completions are to tell their source (FI_SOURCE).
    pub(super) source: bool,
    pub inject_bytes: usize,
    /// FI_OPT_MIN_MULTI_RECV.
    pub multi_recv_min: usize,
    /// A thread may sleep until something arrives.
    pub(super) threaded: bool,
    pub(super) counters: Counters,
    /// What is exposed here, by its key, and what counts it.
    pub(super) regions: Regions,
    pub(super) enabled: bool,
    pub(super) caps: u64,
    /// The endpoint, until it is used, if its thread begins with that.
    pub(super) unused: Option<Weak<EpCore>>,
}

/// One direction of an endpoint: its queue and what its operations do unless
/// told otherwise.
#[derive(Debug, Default)]
pub struct Direction {
    pub(super) cq: Option<Arc<CqCore>>,
    /// Bound with FI_SELECTIVE_COMPLETION: an operation reports its success
    /// only if its flags say so.
    selective: bool,
    /// Flags of operations that have none of their own.
    pub op_flags: u64,
}

impl Direction {
    /// An unbound direction.
    pub(super) fn new(op_flags: u64) -> Direction {
        Direction { op_flags, ..Direction::default() }
    }

    /// Whether an operation with these flags reports its success.
    #[inline]
    pub fn reports(&self, flags: u64) -> bool {
        !self.selective || flags & ffi::FI_COMPLETION != 0
    }
}

impl EpCore {
    /// An endpoint with this state. Where it has a thread of our own, that is one
    /// more than the program knows of.
    pub(super) fn new(state: State, domain: &DomainCore) -> EpCore {
        let threaded = state.threaded;
        let lock = if threaded { Lock::new(state) } else { domain.lock(state) };
        EpCore { shared: Shared::new(lock), threaded }
    }

    /// The state, for a call that cannot do without.
    #[inline]
    pub fn state(&self) -> Result<Visit<'_, State>, Errno> {
        self.shared.visit().ok_or(Errno::POISONED)
    }

    /// Exposes a region of the domain, or does so anew. `counter` counts what peers do there, and polls
    /// this endpoint, which is where they do it.
    pub fn expose(
        self: &Arc<EpCore>,
        exposed: &Exposed,
        counter: Option<&Arc<CntrCore>>,
    ) -> Result<(), Errno> {
        let mut state = self.state()?;
        if let Some(idle) = state.hide(exposed.key) {
            idle.detach(self);
        }
        state.expose(exposed, counter)?;
        counter.map_or(Ok(()), |counter| counter.attach(self))
    }

    /// Exposes a region no more, whatever state this is in. A counter that nothing here counts on
    /// any more forgets the endpoint: it may be open for longer.
    pub fn hide(self: &Arc<EpCore>, key: u64) {
        let mut state = self.shared.lock_anyway();
        if let Some(idle) = state.hide(key) {
            idle.detach(self);
        }
    }

    /// A send or a receive: does something with the state. A program that tries
    /// again and again gives its core away.
    #[inline(always)]
    pub fn post(
        &self,
        then: impl FnOnce(&mut State) -> Result<Posted, Errno>,
    ) -> Result<(), Errno> {
        let posted = self.shared.call(then).ok_or(Errno::POISONED)?;
        match posted {
            Ok(Posted::Taken) => self.shared.spin().found(),
            Ok(Posted::Looked) | Err(Errno::AGAIN) => self.shared.spin().vain(),
            Err(_) => {}
        }
        posted.map(|_| ())
    }

    /// Leaves progress to the thread at once, for a call that is about to sleep.
    /// Whether it may: there is one, nothing is finished, and the endpoint is sound.
    pub fn hand_over(&self) -> bool {
        if !self.threaded {
            return false;
        }
        let Ok(mut visit) = self.state() else { return false };
        visit.begin_use();
        if !self.shared.has_thread() {
            return false;
        }
        let is_idle = visit.engine.as_ref().is_some_and(|engine| !engine.has_completions());
        drop(visit);
        self.shared.hand_over();
        is_idle
    }

    /// Hands over what is finished: into `sink` what `reader` is to get, to the
    /// other queue what is not for it. Polls if nothing is finished. Does
    /// nothing if another thread is at the endpoint.
    #[inline]
    pub fn collect(&self, reader: &CqCore, sink: &mut Sink) -> Result<(), Errno> {
        match self.shared.try_visit(|state| state.collect(reader, sink)) {
            Ok(()) | Err(Unavailable::Held) => Ok(()),
            Err(Unavailable::Poisoned) => Err(Errno::POISONED),
        }
    }

    /// Polls, and has what is finished counted and kept in the queues.
    pub fn drain(&self) {
        let _ = self.shared.try_visit(State::drain);
    }

    /// Takes the thread, and lets none begin any more.
    pub(super) fn take_thread(&self) -> Option<ProgressThread> {
        self.shared.take_thread().or_else(|| {
            // Another call of the program may be about to begin the use.
            self.shared.lock_anyway().unused = None;
            self.shared.take_thread()
        })
    }

    /// Starts the thread. Where the system has none to give, progress is made in the program's
    /// calls alone, as without the setting.
    fn start_thread(self: &Arc<EpCore>) {
        let options = ThreadOptions {
            name: "sluice",
            pin: Some(|told| log::info(About::Endpoint, || told.to_owned())),
        };
        let started = self.shared.start_thread(Arc::clone(self), |core| &core.shared, options);
        if let Err(error) = started {
            log::warn(
                About::Endpoint,
                &format!(
                    "no thread to make progress: {error}; it is made in the program's calls alone; \
                     raise the limit of processes and threads (ulimit -u)"
                ),
            );
        }
    }
}

impl Holds for State {
    type Polled = Context<Endpoint>;

    #[inline]
    fn polled(&self) -> Option<&Context<Endpoint>> {
        self.engine.as_ref().map(Engine::context)
    }

    #[inline]
    fn polled_mut(&mut self) -> Option<&mut Context<Endpoint>> {
        self.engine.as_mut().map(Engine::context_mut)
    }

    /// Wakes those who sleep until something is in a queue, if there may be.
    fn tell(&self) {
        let Some(engine) = &self.engine else { return };
        for cq in [&self.tx.cq, &self.rx.cq].into_iter().flatten() {
            if cq.waiters.are_there() && (engine.has_completions() || cq.keeps_any()) {
                cq.waiters.wake();
            }
        }
    }

    /// Wakes all who sleep at its queues: they read next, and are told.
    fn tell_poisoned(&self) {
        for cq in [&self.tx.cq, &self.rx.cq].into_iter().flatten() {
            cq.waiters.wake();
        }
    }
}

impl State {
    #[inline]
    fn collect(&mut self, reader: &CqCore, sink: &mut Sink) {
        let Some(engine) = &mut self.engine else { return };
        if sink.is_full() {
            engine.poll();
            return;
        }
        // What the endpoint finished earlier may have been kept by the reader
        // of another queue just before this one got in; it is to be read first.
        if reader.keeps_any() {
            return;
        }
        // The way of a poll that finds nothing: short, and all in line.
        if engine.has_completions() {
            // Without a poll: the program may have no reason for another call.
            engine.send_held();
        } else {
            engine.poll();
            if !engine.has_completions() {
                return;
            }
        }
        self.hand_over(reader, sink);
    }

    /// As [`State::collect`] for nobody: all is kept.
    fn drain(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.poll();
        }
        while let Some(completion) = self.take() {
            self.keep(&completion);
        }
    }

    /// Hands over what has ended, until `sink` is full or an error for `reader` was kept,
    /// which later ones may not overtake.
    fn hand_over(&mut self, reader: &CqCore, sink: &mut Sink) {
        while self.has_completions() && (self.put_first(reader, sink) || self.keep_first(reader)) {
            if sink.is_full() {
                return;
            }
        }
    }

    #[inline]
    fn has_completions(&self) -> bool {
        self.engine.as_ref().is_some_and(Engine::has_completions)
    }

    /// Hands over what has ended, if that is simple: it is read where it lies.
    #[inline(always)]
    fn put_first(&mut self, reader: &CqCore, sink: &mut Sink) -> bool {
        let Some(engine) = &mut self.engine else { return false };
        let Some(completion) = engine.first() else { return false };
        let begun_here = completion.kind.is_begun_here();
        let cq = if begun_here { &self.tx.cq } else { &self.rx.cq };
        let is_simple = completion.outcome.is_ok() && !completion.quiet;
        if !is_simple || !cq.as_ref().is_some_and(|cq| std::ptr::eq(Arc::as_ptr(cq), reader)) {
            return false;
        }
        let source = match completion.peer {
            Some(peer) if sink.wants_sources() && self.source && !begun_here => {
                self.peers.number(engine, peer)
            }
            _ => ffi::FI_ADDR_NOTAVAIL,
        };
        if self.counters.are_there {
            self.counters.count(&self.regions, completion);
        }
        sink.put(&Entry::new(completion), source);
        engine.remove_first();
        true
    }

    /// Counts what has ended and keeps it in its queue. Says whether `reader` has not to be told of an
    /// error first.
    #[inline(never)]
    fn keep_first(&mut self, reader: &CqCore) -> bool {
        let Some(completion) = self.take() else { return false };
        self.keep(&completion).is_none_or(|cq| !std::ptr::eq(Arc::as_ptr(&cq), reader))
    }

    /// Takes what has ended next.
    fn take(&mut self) -> Option<Completion> {
        let engine = self.engine.as_mut()?;
        let completion = engine.first().copied()?;
        engine.remove_first();
        Some(completion)
    }

    /// Counts a completion and keeps it in its queue, which is the answer.
    fn keep(&mut self, completion: &Completion) -> Option<Arc<CqCore>> {
        if self.counters.are_there {
            self.counters.count(&self.regions, completion);
        }
        let cq = Arc::clone(self.queue_of(completion)?);
        cq.keep(self.kept(completion));
        Some(cq)
    }

    /// The queue that is to have a completion.
    fn queue_of(&self, completion: &Completion) -> Option<&Arc<CqCore>> {
        let begun_here = completion.kind.is_begun_here();
        let cq = if begun_here { &self.tx.cq } else { &self.rx.cq };
        if completion.outcome.is_ok() {
            return cq.as_ref().filter(|_| !completion.quiet);
        }
        let nameless = completion.kind == Kind::Send || completion.quiet;
        if begun_here && nameless && completion.context == 0 {
            self.log_nameless(completion);
            return None;
        }
        cq.as_ref()
    }

    /// A failed send without a context is one that the program did not
    /// want to hear of again, an injected message for instance. An entry with a
    /// null context would tell it nothing, and Open MPI follows it blindly.
    #[cold]
    fn log_nameless(&self, completion: &Completion) {
        let Err(failure) = &completion.outcome else { return };
        let peer = match (&self.engine, completion.peer) {
            (Some(engine), Some(peer)) => engine.describe(peer),
            _ => String::from("an unknown peer"),
        };
        let message = format!("a message without context to {peer} failed: {failure}");
        log::warn(About::Completions, &message);
    }

    #[cold]
    fn kept(&mut self, completion: &Completion) -> Kept {
        let source = self.source_of(completion);
        match &completion.outcome {
            Ok(()) => Kept::Good(Entry::new(completion), source),
            Err(failure) => {
                // A probe that finds nothing is ordinary, and names nobody.
                let peer = match (&self.engine, completion.peer) {
                    (Some(engine), Some(peer)) if *failure != Failure::NoMessage => {
                        Some(engine.describe(peer))
                    }
                    _ => None,
                };
                Kept::Bad(Failed::new(completion, failure, peer, source))
            }
        }
    }

    /// The number of a completion's peer, if the program asked to be told and
    /// has it in its address vector.
    fn source_of(&mut self, completion: &Completion) -> fi_addr_t {
        match (&self.engine, completion.peer) {
            (Some(engine), Some(peer)) if self.source && !completion.kind.is_begun_here() => {
                self.peers.number(engine, peer)
            }
            _ => ffi::FI_ADDR_NOTAVAIL,
        }
    }

    /// Opens the mailbox, unless it is open.
    pub(super) fn open(&mut self) -> Result<&mut Engine, Errno> {
        if self.engine.is_none() && self.named.is_none() {
            let settings = param::get();
            let opened = Engine::open(settings, self.peers.expected(), self.threaded);
            let engine = opened.map_err(|error| {
                log::warn(About::Endpoint, &format!("endpoint not opened: {error}"));
                Errno::NO_MEMORY
            })?;
            linger::opened(engine.address());
            self.named = Some(engine);
            report::opened();
        }
        self.engine.as_mut().or(self.named.as_mut()).ok_or(Errno::BAD_STATE)
    }

    pub(super) fn enable(&mut self, core: &Arc<EpCore>) -> Result<(), Errno> {
        if self.enabled {
            return Ok(());
        }
        if !self.peers.has_vector() {
            return Err(Errno::NO_AV);
        }
        let needs = [(ffi::FI_SEND, &self.tx), (ffi::FI_RECV, &self.rx)];
        if needs.iter().any(|(cap, direction)| self.caps & cap != 0 && direction.cq.is_none()) {
            return Err(Errno::NO_CQ);
        }
        let counts_messages = self.counters.count_messages();
        self.open()?;
        let engine = self.engine.insert(self.named.take().ok_or(Errno::BAD_STATE)?);
        if counts_messages {
            engine.count_all();
        }
        if core.threaded {
            // Nobody else sleeps, so nobody else needs what wakes a sleeper.
            core.shared.open(engine.context().waker());
            // Open MPI 5 opens such an endpoint in each process, and may never use it.
            if info::is_one_sided(self.caps) {
                self.unused = Some(Arc::downgrade(core));
            } else {
                core.start_thread();
            }
        }
        for direction in [&self.tx, &self.rx] {
            if let Some(cq) = &direction.cq {
                cq.attach(core)?;
            }
        }
        for counter in self.counters() {
            counter.attach(core)?;
        }
        self.enabled = true;
        Ok(())
    }
}

impl State {
    pub(super) fn bind_cq(&mut self, cq: &Arc<CqCore>, flags: u64) -> Result<(), Errno> {
        let directions = ffi::FI_TRANSMIT | ffi::FI_RECV;
        if flags & !(directions | ffi::FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        if flags & directions == 0 {
            return Err(Errno::INVALID);
        }
        if cq.waiters.descriptor().is_some() && !self.threaded {
            log::warn(
                About::Endpoint,
                "a completion queue with a descriptor (FI_WAIT_FD) is to be opened before the \
                 endpoints that are bound to it, which have a thread then",
            );
            return Err(Errno::NOT_SUPPORTED);
        }
        for (flag, direction) in [(ffi::FI_TRANSMIT, &mut self.tx), (ffi::FI_RECV, &mut self.rx)] {
            if flags & flag == 0 {
                continue;
            }
            if direction.cq.is_some() {
                return Err(Errno::INVALID);
            }
            direction.cq = Some(Arc::clone(cq));
            direction.selective = flags & ffi::FI_SELECTIVE_COMPLETION != 0;
        }
        Ok(())
    }

    pub(super) fn bind_cntr(&mut self, cntr: &Arc<CntrCore>, flags: u64) -> Result<(), Errno> {
        self.counters.bind(cntr, flags)
    }

    /// The counters, each once or more.
    pub(super) fn counters(&self) -> Vec<Arc<CntrCore>> {
        self.counting().cloned().collect()
    }

    fn counting(&self) -> impl Iterator<Item = &Arc<CntrCore>> {
        let of_regions = self.regions.values().filter_map(|(_, counter)| counter.as_ref());
        self.counters.bound().chain(of_regions)
    }

    /// Exposes a region that is not.
    fn expose(&mut self, exposed: &Exposed, counter: Option<&Arc<CntrCore>>) -> Result<(), Errno> {
        let told = exposed.told.or(self.counters.count_peers().then_some(exposed.key));
        let engine = self.engine.as_mut().ok_or(Errno::BAD_STATE)?;
        let region = engine.expose(&Exposed { told, ..exposed.clone() })?;
        self.counters.are_there |= counter.is_some();
        self.regions.insert(exposed.key, (region, counter.cloned()));
        self.begin_use();
        Ok(())
    }

    /// There is something that the thread is for: memory that peers may use, an operation, or a call
    /// that is to sleep. Before that an endpoint without messages needs none.
    #[inline]
    pub fn begin_use(&mut self) {
        if let Some(core) = self.unused.take().and_then(|core| core.upgrade()) {
            core.start_thread();
        }
    }

    /// Exposes none any more.
    pub fn hide_all(&mut self) {
        for (region, _) in std::mem::take(&mut self.regions).into_values() {
            if let Some(engine) = &mut self.engine {
                engine.hide(region);
            }
        }
    }

    /// Exposes it no more. Gives its counter, if nothing else here counts on that.
    fn hide(&mut self, key: u64) -> Option<Arc<CntrCore>> {
        let (region, counter) = self.regions.remove(&key)?;
        if let Some(engine) = &mut self.engine {
            engine.hide(region);
        }
        counter.filter(|idle| !self.counting().any(|used| Arc::ptr_eq(used, idle)))
    }

    pub(super) fn bind_av(&mut self, av: &Arc<AvCore>) -> Result<(), Errno> {
        if self.peers.has_vector() {
            return Err(Errno::INVALID);
        }
        self.peers.bind(av);
        Ok(())
    }
}
