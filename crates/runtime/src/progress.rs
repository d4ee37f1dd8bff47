//! What the progress thread of a shared context does.
//!
//! When it does it is said in [`attend`](crate::attend). It takes the lock as a
//! call does, turns away where a call has it, and lets go when a call wants it. It takes
//! in what arrives; what has ended stays where it is until the program asks, so the
//! program is told of nothing outside of its own calls.
//!
//! It begins after the opening ([`Shared::open`]) and ends after the closing. It has a
//! reference of its own to what it works on.

use crate::attend::{Attended, Looked, attend};
use crate::cores::{NoCore, Pinned, Search};
use crate::lock::Unavailable;
use crate::progress_thread::ProgressThread;
use crate::shared::{Holds, Polled, Shared, WakerOf};
use sluice_rail::waker::Haste;

/// How a thread is started.
#[derive(Clone, Copy, Debug)]
pub struct ThreadOptions {
    /// Its name.
    pub name: &'static str,
    /// Whether it looks for an idle core of its own, and who is told what came of it.
    pub pin: Option<fn(&str)>,
}

impl<H: Holds> Shared<H> {
    /// Starts the thread, unless there is one. `shared` says where `owner` has this. If
    /// the caller has the lock, the thread waits for it.
    ///
    /// # Errors
    /// The system's, if it has no thread to give.
    pub fn start_thread<O: Clone + Send + 'static>(
        &self,
        owner: O,
        shared: fn(&O) -> &Shared<H>,
        options: ThreadOptions,
    ) -> std::io::Result<()> {
        self.start_with(|| {
            let keeper = owner.clone();
            let mut work = Work {
                owner,
                shared,
                generation: self.generation(),
                tell: options.pin.unwrap_or(|_| {}),
                search: None,
                pinned: None,
                is_broken: false,
            };
            match options.pin.map(|_| Search::begin()) {
                Some(Ok(search)) => work.search = Some(search),
                Some(Err(why)) => work.tell_not_pinned(why),
                None => {}
            }
            let run = move || {
                let shared = shared(&keeper);
                let _fuse = Fuse(shared);
                attend(&shared.attention, &mut work);
            };
            ProgressThread::start(options.name, run)
        })
    }
}

/// Without its thread nothing is sound: if that panics, wherever it is, calls and
/// waits are refused.
struct Fuse<'a, H: Holds>(&'a Shared<H>);

impl<H: Holds> Drop for Fuse<'_, H> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison();
        }
    }
}

/// What the thread works on.
struct Work<O, H: Holds> {
    owner: O,
    shared: fn(&O) -> &Shared<H>,
    generation: u32,
    tell: fn(&str),
    /// Until it is known which core it gets.
    search: Option<Search>,
    /// Held for as long as the thread runs there.
    pinned: Option<Pinned>,
    /// A panic has poisoned the lock, for good.
    is_broken: bool,
}

impl<O, H: Holds> Work<O, H> {
    fn shared(&self) -> &Shared<H> {
        (self.shared)(&self.owner)
    }

    fn tell_not_pinned(&self, why: NoCore) {
        (self.tell)(&format!("the progress thread is not bound to a core: {why}"));
    }
}

impl<O, H: Holds> Attended for Work<O, H> {
    type Waker = WakerOf<H>;

    fn is_closed(&self) -> bool {
        self.is_broken || self.shared().generation() != self.generation
    }

    fn is_waited_at(&self) -> bool {
        self.shared().has_sleepers()
    }

    fn look(&mut self) -> Looked {
        let shared = (self.shared)(&self.owner);
        let mut held = match shared.try_lock() {
            Ok(held) => held,
            Err(Unavailable::Held) => return Looked::Held,
            Err(Unavailable::Poisoned) => {
                self.is_broken = true;
                return Looked::Nothing;
            }
        };
        let Some(polled) = held.polled_mut() else { return Looked::Nothing };
        let inputs = polled.poll_after_sleep();
        let gathers = polled.gathers();
        held.tell();
        drop(held);
        if inputs == 0 {
            return if gathers { Looked::Gathering } else { Looked::Nothing };
        }
        shared.wake_sleepers();
        Looked::Something
    }

    fn rest_ns(&mut self) -> u64 {
        match self.shared().try_lock() {
            Ok(mut held) => held.polled_mut().map_or(0, |polled| polled.rest_ns(Haste::WorthAWake)),
            // A call that is there now may leave something behind, and may have
            // asked before the thread said that it sleeps.
            Err(_) => 0,
        }
    }

    fn waker(&self) -> Option<WakerOf<H>> {
        self.shared().waker()
    }

    fn on_turn(&mut self) {
        let Some(search) = self.search.take_if(|search| search.is_due()) else { return };
        match search.finish() {
            Ok(pinned) => {
                (self.tell)(&format!("the progress thread runs on core {}", pinned.core));
                self.pinned = Some(pinned);
            }
            Err(why) => self.tell_not_pinned(why),
        }
    }
}
