//! One test body for the engine over any world: what is right where processes
//! are simulated in virtual time has to be right over a real rail, in any
//! order in which a world lets things happen.
//!
//! A world only opens interfaces and lets time pass. [`Stage`] is what the
//! scenarios play on; a macro makes a test of each scenario for one world.

mod counting;
mod faults;
mod lists;
mod moving;
mod sums;

pub use {counting::*, faults::*, lists::*, moving::*, sums::*};

use crate::pair::{open, pattern, program_limits};
use sluice_link::Port;
use sluice_portals::{
    Command, Ct, Eq, EqTaken, Event, EventKind, Handle, Limits, List, Local, Md, MdOptions, Me,
    MeSpec, Ni, NiFail, PtOptions, PtlError, Target, Vector,
};
use sluice_wire::{AckKind, Addr, MatchBits, PeerId, PtIndex, Region};
use std::fmt::Debug;

/// Several interfaces that can reach each other.
pub trait World {
    /// How an interface reaches the others.
    type Port: Port;
    /// What kinds of this world there are.
    type Setting: Copy + Debug;

    fn settings() -> Vec<Self::Setting>;
    /// Whether a rail has read the memory of a packet when it takes it. Where it
    /// reads it later, volatile memory is not free at once (as of now the
    /// engine copies it only for commands that wait for credits).
    fn copies_at_once(setting: Self::Setting) -> bool;
    /// A world of so many interfaces.
    fn open(setting: Self::Setting, interfaces: usize, limits: Limits) -> Self;
    /// An interface, and its way to the others.
    fn side(&mut self, who: usize) -> (&mut Ni, &mut Self::Port);
    fn interface(&self, who: usize) -> &Ni;
    /// What one interface calls another.
    fn peer(&self, at: usize, of: usize) -> PeerId;
    /// Memory of a process. What is as long as a page begins with one.
    fn alloc(&mut self, who: usize, bytes: &[u8]) -> Region;
    fn bytes(&self, who: usize, region: Region) -> Vec<u8>;
    fn write(&mut self, who: usize, region: Region, bytes: &[u8]);
    /// Bytes of the smallest part of memory that can be taken away.
    fn page(&self) -> u64;
    /// From now on these pages fault.
    fn unmap(&mut self, who: usize, pages: Region);
    /// Bytes that the port has lent.
    fn lent(&self, who: usize) -> u64;
    /// Lets something happen.
    fn step(&mut self);
    /// Lets everything happen until nothing does any more.
    fn settle(&mut self);
    /// An interface ends, and all others learn of it. They know it.
    fn end(&mut self, who: usize);
}

/// The portal table entry of every interface.
pub const PT: PtIndex = PtIndex(5);

/// What the tests of an interface need.
struct Side {
    /// Takes the events of what it initiates.
    eq: Handle<Eq>,
    /// Takes the events of [`PT`].
    pt_eq: Handle<Eq>,
    ct: Handle<Ct>,
    /// All memory.
    md: Handle<Md>,
    ended: bool,
}

/// A world whose interfaces are ready to be used.
pub struct Stage<W: World> {
    world: W,
    sides: Vec<Side>,
    setting: W::Setting,
}

impl<W: World> Drop for Stage<W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the world {:?}", self.setting);
        }
    }
}

/// What is told of an operation.
pub type Outcome = (EventKind, u64, Result<(), NiFail>);

pub const SEGV: Result<(), NiFail> = Err(NiFail::Segv);

/// Runs a scenario over every kind of a world.
pub fn over<W: World>(scenario: impl Fn(W::Setting)) {
    W::settings().into_iter().for_each(scenario);
}

/// Makes the tests of one world.
macro_rules! tests_over {
    ($world:ty: $($scenario:ident)*) => {
        $(
            #[test]
            fn $scenario() {
                crate::conformance::over::<$world>(crate::conformance::$scenario::<$world>);
            }
        )*
    };
    ($world:ty) => {
        crate::conformance::tests_over! { $world:
            puts_of_every_length_arrive_whole
            gets_of_every_length_bring_everything
            what_does_not_fit_is_cut
            memory_in_pieces_is_one
            short_and_long_puts_match_in_order
            volatile_memory_is_free_at_once_and_credits_keep_the_order
            an_interface_reaches_itself
            three_move_data_at_once
            the_end_of_an_interface_ends_what_it_was_to_answer
            early_messages_are_found_by_appending
            an_overflow_entry_is_free_after_its_last_header
            searches_look_or_take
            what_must_not_be_cut_goes_to_the_next_entry
            entries_fill_up_and_unlink_themselves
            entries_admit_whom_and_what_they_say
            what_is_in_use_cannot_be_taken_away
            items_are_combined
            swaps_swap_and_bring_back
            nobody_s_step_is_lost
            counters_count_what_was_asked_for
            a_chain_of_triggers_goes_round
            cancelled_triggers_do_nothing
            each_kind_of_acknowledgement
            flow_control_disables_until_enabled
            too_many_headers_disable
            a_full_queue_disables
            puts_from_and_to_unmapped_memory_fail
            gets_from_and_into_unmapped_memory_fail
            atomics_on_unmapped_memory_fail
            pieces_that_are_unmapped_fail
        }
    };
}
pub(crate) use tests_over;

/// An entry for `bits` from anybody, without the link event.
pub fn entry(region: Region, bits: u64, user_ptr: u64) -> MeSpec {
    crate::pair::entry(region, bits, open(), user_ptr)
}

impl<W: World> Stage<W> {
    pub fn open(setting: W::Setting, interfaces: usize) -> Stage<W> {
        Stage::with_limits(setting, interfaces, program_limits())
    }

    pub fn with_limits(setting: W::Setting, interfaces: usize, limits: Limits) -> Stage<W> {
        let mut world = W::open(setting, interfaces, limits);
        let sides = (0..interfaces).map(|who| {
            let (ni, _) = world.side(who);
            let [eq, pt_eq] = [0; 2].map(|_| ni.eq_alloc(1 << 14).unwrap());
            let ct = ni.ct_alloc().unwrap();
            let all = Region { addr: Addr(0), len: u64::MAX };
            let md = ni.md_bind(all, None, Some(eq), Some(ct), MdOptions::default()).unwrap();
            ni.pt_alloc(PT, PtOptions::default(), Some(pt_eq)).unwrap();
            Side { eq, pt_eq, ct, md, ended: false }
        });
        let sides = sides.collect();
        Stage { world, sides, setting }
    }

    pub fn enable(&mut self, who: usize) {
        let (ni, port) = self.world.side(who);
        ni.pt_enable(port, PT).unwrap();
    }

    pub fn ni(&mut self, who: usize) -> &mut Ni {
        self.world.side(who).0
    }

    /// The portal table entry of a side with flow control, and a queue for so
    /// many events.
    pub fn control(&mut self, who: usize, events_max: usize) {
        let ni = self.world.side(who).0;
        ni.pt_free(PT).unwrap();
        let eq = ni.eq_alloc(events_max).unwrap();
        let options = PtOptions { flow_control: true, ..PtOptions::default() };
        ni.pt_alloc(PT, options, Some(eq)).unwrap();
        self.sides[who].pt_eq = eq;
    }

    pub fn alloc(&mut self, who: usize, bytes: &[u8]) -> Region {
        self.world.alloc(who, bytes)
    }

    /// Memory for so many bytes.
    pub fn room(&mut self, who: usize, len: u64) -> Region {
        self.world.alloc(who, &vec![0; len as usize])
    }

    /// Memory with a page in the middle that is not mapped, and so many bytes
    /// before it.
    pub fn holed(&mut self, who: usize, before: u64, bytes: &[u8]) -> Region {
        let page = self.world.page();
        let pages = self.room(who, 8 * page);
        let begin = Region { addr: pages.addr.offset(2 * page - before), len: bytes.len() as u64 };
        assert!(before <= 2 * page && begin.len + 2 * page - before <= 8 * page);
        self.world.write(who, begin, bytes);
        self.world.unmap(who, Region { addr: pages.addr.offset(2 * page), len: page });
        begin
    }

    pub fn bytes(&self, who: usize, region: Region) -> Vec<u8> {
        self.world.bytes(who, region)
    }

    pub fn write(&mut self, who: usize, region: Region, bytes: &[u8]) {
        self.world.write(who, region, bytes);
    }

    pub fn local(&self, who: usize, region: Region) -> Local {
        Local { md: self.sides[who].md, offset: region.addr.0, length: region.len }
    }

    /// A descriptor of all memory with these options.
    pub fn md(&mut self, who: usize, options: MdOptions) -> Handle<Md> {
        let Side { eq, ct, .. } = self.sides[who];
        let all = Region { addr: Addr(0), len: u64::MAX };
        self.ni(who).md_bind(all, None, Some(eq), Some(ct), options).unwrap()
    }

    /// All of a descriptor of these pieces.
    pub fn pieces_md(&mut self, who: usize, pieces: &[Region]) -> Local {
        let Side { eq, ct, .. } = self.sides[who];
        let (vector, whole) = self.bind(who, pieces);
        let options = MdOptions::default();
        let md = self.ni(who).md_bind(whole, Some(vector), Some(eq), Some(ct), options).unwrap();
        Local { md, offset: 0, length: whole.len }
    }

    /// An entry of these pieces.
    pub fn pieces_entry(
        &mut self,
        who: usize,
        pieces: &[Region],
        bits: u64,
        user_ptr: u64,
    ) -> MeSpec {
        let (vector, whole) = self.bind(who, pieces);
        MeSpec { vector: Some(vector), ..entry(whole, bits, user_ptr) }
    }

    fn bind(&mut self, who: usize, pieces: &[Region]) -> (Handle<Vector>, Region) {
        let vector = Vector::new(pieces.to_vec()).unwrap();
        let whole = Region { addr: Addr(0), len: vector.total_bytes() };
        (self.ni(who).vector_bind(vector).unwrap(), whole)
    }

    pub fn gathered(&self, who: usize, pieces: &[Region]) -> Vec<u8> {
        pieces.iter().flat_map(|&piece| self.bytes(who, piece)).collect()
    }

    pub fn target(&self, at: usize, of: usize, bits: u64, remote_offset: u64) -> Target {
        let peer = self.world.peer(at, of);
        Target { peer, pt_index: PT, match_bits: MatchBits(bits), remote_offset }
    }

    pub fn append(&mut self, who: usize, list: List, spec: MeSpec) -> Option<Handle<Me>> {
        let (ni, port) = self.world.side(who);
        let appended = ni.me_append(port, PT, list, spec).expect("there is room for an entry");
        ni.check_invariants();
        appended
    }

    /// Appends to the priority list.
    pub fn post(&mut self, who: usize, spec: MeSpec) -> Option<Handle<Me>> {
        self.append(who, List::Priority, spec)
    }

    pub fn issue(&mut self, who: usize, command: &Command) -> Result<(), PtlError> {
        let (ni, port) = self.world.side(who);
        let issued = ni.issue(port, command);
        ni.check_invariants();
        issued
    }

    pub fn trigger(&mut self, who: usize, command: Command, ct: Handle<Ct>, threshold: u64) {
        let (ni, port) = self.world.side(who);
        ni.trigger(port, command, ct, threshold).expect("it is right in itself");
        ni.check_invariants();
    }

    /// Issues a put with a full acknowledgement. Its header data is the
    /// length plus 1000.
    pub fn put(&mut self, from: usize, to: usize, bits: u64, bytes: &[u8]) -> Region {
        let region = self.alloc(from, bytes);
        self.put_at(from, to, bits, 0, region, Some(AckKind::Full));
        region
    }

    pub fn put_at(
        &mut self,
        from: usize,
        to: usize,
        bits: u64,
        offset: u64,
        region: Region,
        ack: Option<AckKind>,
    ) {
        let target = self.target(from, to, bits, offset);
        let hdr_data = 1000 + region.len;
        let local = self.local(from, region);
        let put = Command::Put { from: local, ack, target, hdr_data, user_ptr: 500 };
        self.issue(from, &put).expect("it is right in itself");
    }

    /// Issues a get, and says where its bytes go.
    pub fn get(&mut self, to: usize, from: usize, bits: u64, offset: u64, len: u64) -> Region {
        let region = self.room(to, len);
        self.get_into(to, from, bits, offset, region);
        region
    }

    pub fn get_into(&mut self, to: usize, from: usize, bits: u64, offset: u64, region: Region) {
        let target = self.target(to, from, bits, offset);
        let get = Command::Get { into: self.local(to, region), target, user_ptr: 600 };
        self.issue(to, &get).expect("it is right in itself");
    }

    pub fn settle(&mut self) {
        self.world.settle();
    }

    pub fn step(&mut self) {
        self.world.step();
    }

    pub fn end(&mut self, who: usize) {
        self.sides[who].ended = true;
        self.world.end(who);
    }

    /// Events of what a side has initiated.
    pub fn sent_events(&mut self, who: usize) -> Vec<Event> {
        let eq = self.sides[who].eq;
        self.take(who, eq)
    }

    /// Events of what has come to a side.
    pub fn events(&mut self, who: usize) -> Vec<Event> {
        let eq = self.sides[who].pt_eq;
        self.take(who, eq)
    }

    fn take(&mut self, who: usize, eq: Handle<Eq>) -> Vec<Event> {
        let ni = self.ni(who);
        let next = || match ni.eq_take(eq) {
            EqTaken::Empty => None,
            EqTaken::Event(event) => Some(event),
            EqTaken::EventAfterDrop(event) => panic!("events were lost before {event:?}"),
        };
        std::iter::from_fn(next).collect()
    }

    pub fn sent(&mut self, who: usize) -> Vec<Outcome> {
        outcomes(self.sent_events(who))
    }

    pub fn received(&mut self, who: usize) -> Vec<Outcome> {
        outcomes(self.events(who))
    }

    /// The outcome of the one event of a kind that a side has initiated.
    pub fn outcome_of(&mut self, who: usize, kind: EventKind) -> (u64, Result<(), NiFail>) {
        let sent = self.sent(who);
        let found: Vec<_> = sent.iter().filter(|outcome| outcome.0 == kind).collect();
        assert_eq!(found.len(), 1, "{sent:?}");
        (found[0].1, found[0].2)
    }

    pub fn ct(&self, who: usize) -> (u64, u64) {
        let value = self.world.interface(who).ct(self.sides[who].ct).expect("it is there");
        (value.success, value.failure)
    }

    pub fn ct_handle(&self, who: usize) -> Handle<Ct> {
        self.sides[who].ct
    }

    /// Nothing is left of any operation, and every credit is with its sender or
    /// owed to it.
    pub fn assert_quiet(&self) {
        let living = || (0..self.sides.len()).filter(|&who| !self.sides[who].ended);
        for who in living() {
            let ni = self.world.interface(who);
            ni.check_invariants();
            assert_eq!(ni.operations_now(), 0, "operations of {who}");
            assert_eq!(ni.waiting_now(), 0, "commands of {who} wait");
            assert_eq!(ni.owed_now(), 0, "{who} owes answers");
            assert_eq!(ni.links().reply_slots_reserved(), 0, "reply slots of {who}");
            assert_eq!(ni.links().slots_held(), 0, "slots of {who}");
            assert_eq!(self.world.lent(who), 0, "memory lent to {who}");
            for other in living() {
                let Some(mine) = ni.links().ledger(self.world.peer(who, other)) else { continue };
                let Some(granted) = mine.granted else { continue };
                let theirs = self.world.interface(other).links();
                let theirs = theirs.ledger(self.world.peer(other, who));
                let owed = theirs.map_or((0, 0), |book| (book.data_owed, book.control_owed));
                let all = (granted.data_slots, u16::from(granted.control_slots));
                let credits = (mine.data_credits + owed.0, mine.control_credits + owed.1);
                assert_eq!(credits, all, "credits of {who} at {other}");
            }
        }
    }

    /// A put and a get still do what they should.
    pub fn still_works(&mut self) {
        for len in [20, 3000] {
            let memory = self.room(1, len);
            let handle = self.post(1, entry(memory, 99, 99)).unwrap();
            self.put(0, 1, 99, &pattern(len as usize, 3));
            self.settle();
            let into = self.get(0, 1, 99, 0, len);
            self.settle();
            assert_eq!(self.bytes(0, into), pattern(len as usize, 3));
            assert!(self.sent(0).iter().chain(&self.received(1)).all(|event| event.2.is_ok()));
            self.ni(1).me_unlink(handle).unwrap();
        }
        self.assert_quiet();
    }
}

fn outcomes(events: Vec<Event>) -> Vec<Outcome> {
    events.iter().map(|event| (event.kind, event.mlength, event.outcome)).collect()
}
