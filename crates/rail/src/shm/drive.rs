//! The driver: runs a machine over the rail, with the rail's host as the machine's port.
//!
//! A poll looks at the mailbox's head slot and returns; everything else (bulk
//! moves, ends of peers, the clock, stuck slots) waits for [`Shm::attention`]
//! or for every [`TICK_POLLS`]th poll, so that an empty poll costs one load. The first empty
//! poll after a packet is the machine's idle moment, and nothing else: of short messages
//! half of all polls are such. What is looked after now and then is in `housekeeping`.

use super::bounce;
use super::bulk::{Direction, PASS_BYTES, Transfer, Turn};
use super::copy::slot_bytes;
use super::doorbell::SLEEP_NS_MAX;
use super::handover::Handed;
use super::host::Host;
use super::looks;
use super::peers::{Life, Peer};
use super::prefetch::CAN_FETCH;
use super::processor::is_intel;
use super::ring::{WORDS, writer_of};
use super::segment::Claim;
use super::ways::is_compared;
use super::{Shm, backing};
use sluice_link::{ClaimsId, Machine, PeerError, RailError};
use sluice_wire::{Nanos, Packet, PeerId, Plain, PlainParsed, Put, Rts};
use std::ops::Range;

/// Polls between two looks at the clock. A power of two.
const TICK_POLLS: u32 = 32;
/// Slots of an answer from which on it comes with the time of its arrival: the pace
/// of a pull is read off these, and beside copying so much a look at the clock costs
/// little.
const CLOCKED_SLOTS_MIN: u32 = 32;
/// Between two looks, by a thread that sleeps, at a transfer whose other side
/// copies the last chunk: about what a chunk takes.
const NAP_NS: u64 = 50_000;

/// Why the next poll does more than to look at the mailbox. There is work for it beyond;
/// another rail wants to be polled, which keeps nobody from sleeping; packets have come, and
/// the machine has had no idle moment since; lines are to be fetched before they are written (`ahead`)
/// or read.
const WORK: u8 = 1;
const OTHERS: u8 = 2;
const IDLE_OWED: u8 = 4;
const LINES: u8 = 8;
/// Those that keep a thread from sleeping.
const AWAKE: u8 = WORK | IDLE_OWED;

/// Delivers up to `budget` packets to `machine`, moves bulk data, notices
/// the ends of peers. Says how many inputs the machine got.
#[inline]
pub(crate) fn poll<H: Host, M: Machine>(
    host: &mut H,
    now: Nanos,
    machine: &mut M,
    budget: usize,
) -> usize {
    let packets = take_in(host, now, machine, budget);
    let shm = host.shm_mut();
    shm.polls = shm.polls.wrapping_add(1);
    shm.note_look();
    if shm.attention & LINES != 0 && packets == 0 {
        shm.fetch_lines();
    }
    if shm.attention & (WORK | OTHERS) != 0 || shm.polls.is_multiple_of(TICK_POLLS) {
        return packets + poll_rest(host, now, machine, packets == 0);
    }
    if packets == 0 {
        let is_owed = shm.attention & IDLE_OWED != 0;
        shm.attention &= LINES;
        if is_owed || machine.deadline().is_some_and(|deadline| deadline <= now) {
            machine.on_idle(now, host);
        }
    }
    packets
}

/// Delivers up to `budget` packets to `machine` and does nothing else: for a
/// look at what has arrived before a request that may depend on it.
#[inline]
pub(crate) fn take_in<H: Host, M: Machine>(
    host: &mut H,
    now: Nanos,
    machine: &mut M,
    budget: usize,
) -> usize {
    let mut packets = 0;
    while packets < budget {
        let Some(copy) = host.shm_mut().reader.peek() else { break };
        deliver(host, now, machine, &copy);
        packets += 1;
    }
    if packets != 0 {
        host.shm_mut().owe_idle();
    }
    packets
}

#[inline]
fn deliver<H: Host, M: Machine>(host: &mut H, now: Nanos, machine: &mut M, copy: &[u64; WORDS]) {
    let shm = host.shm_mut();
    let writer = writer_of(copy);
    let position = shm.reader.head();
    let plain = shm.senders.get_mut(usize::from(writer)).and_then(|sender| {
        sender.note_read(position);
        sender.plain()
    });
    let Some(peer) = plain.or_else(|| shm.sender_of(writer)) else {
        return shm.refuse_unknown(copy);
    };
    shm.observe_in(peer, copy);
    if let Some(plain) = PlainParsed::read(copy) {
        // Nearly every packet. The others are parsed by what they say.
        let slots = plain.slots();
        if slots > shm.packet_slots_max {
            return refuse(host, now, machine, peer, writer);
        }
        let Some(slots) = shm.take_up(copy, peer, slots, Plain::HEADER_BYTES, plain.payload_len)
        else {
            return refuse(host, now, machine, peer, writer);
        };
        machine.on_plain(now, host, peer, &plain);
        return host.shm_mut().put_down(slots);
    }
    deliver_parsed(host, now, machine, copy, peer, writer);
}

#[inline(never)]
fn deliver_parsed<H: Host, M: Machine>(
    host: &mut H,
    now: Nanos,
    machine: &mut M,
    copy: &[u64; WORDS],
    peer: PeerId,
    writer: u16,
) {
    let shm = host.shm_mut();
    if let Some(handed) = Handed::of(copy) {
        if !handed.is_ok_and(|handed| shm.take_in_handed(copy, peer, handed)) {
            refuse(host, now, machine, peer, writer);
        }
        return;
    }
    let Ok(packet) = Packet::parse(slot_bytes(copy)) else {
        return refuse(host, now, machine, peer, writer);
    };
    let credits = packet.slots();
    if credits > shm.packet_slots_max {
        return refuse(host, now, machine, peer, writer);
    }
    let (offset, len) = (packet.payload_offset, packet.payload_len);
    let Some(slots) = shm.take_up(copy, peer, credits, offset, len) else {
        return refuse(host, now, machine, peer, writer);
    };
    if let Packet::Put(Put { rts: Some(Rts { claims: Some(claims), .. }), .. }) = packet.packet
        && let Some((line, _)) = shm.own_line(ClaimsId(claims))
    {
        // It was written by the other core, and is looked at once it is matched.
        line.fetch();
    }
    let is_clocked = credits >= CLOCKED_SLOTS_MIN && matches!(packet.packet, Packet::Reply(_));
    let now = if is_clocked { shm.refresh_now().max(now) } else { now };
    machine.on_packet(now, host, peer, &packet);
    let shm = host.shm_mut();
    shm.put_down(slots);
    // Several in a row take longer than a sender looks at whether this process is here.
    shm.note_look();
}

/// Everything but the mailbox. Only if that was `empty` the machine may have its idle
/// moment: bulk moves that packets asked for start now, and what can wait is done by the
/// first poll that finds nothing.
#[cold]
#[inline(never)]
fn poll_rest<H: Host, M: Machine>(host: &mut H, now: Nanos, machine: &mut M, empty: bool) -> usize {
    let shm = host.shm_mut();
    if empty && shm.attention & !LINES == OTHERS && !shm.polls.is_multiple_of(TICK_POLLS) {
        return poll_others_alone(host, now, machine);
    }
    shm.attention &= IDLE_OWED | LINES;
    if shm.polls.is_multiple_of(TICK_POLLS) && shm.is_housekeeping_due() {
        shm.look_after();
        if shm.show.take_due() {
            host.show(machine);
        }
    }
    let shm = host.shm_mut();
    let mut inputs = 0;
    if !shm.transfers.is_empty() {
        inputs += run_transfers(host, now, machine);
    }
    if !host.shm_mut().ending.is_empty() {
        host.shm_mut().unstick();
        inputs += report_ended(host, now, machine);
    }
    while let Some((peer, why)) = host.shm_mut().condemned.pop() {
        inputs += give_up(host, now, machine, peer, why);
    }
    let others = host.poll_others(now, machine);
    if others == 0 && empty {
        host.shm_mut().attention &= !IDLE_OWED;
        machine.on_idle(now, host);
    }
    let others_want = host.others_want();
    let shm = host.shm_mut();
    if shm.is_anything_left() {
        shm.attend();
    }
    if others_want {
        shm.attend_to_others();
    }
    inputs + others
}

/// Nothing but the other rails, which want to be looked at in each poll: all else of a poll
/// comes with every [`TICK_POLLS`]th, or when there is work for it.
fn poll_others_alone<H: Host, M: Machine>(host: &mut H, now: Nanos, machine: &mut M) -> usize {
    host.shm_mut().attention &= LINES;
    let inputs = host.poll_others(now, machine);
    let others_want = host.others_want();
    if others_want {
        host.shm_mut().attend_to_others();
    }
    if inputs == 0 && machine.deadline().is_some_and(|deadline| deadline <= now) {
        machine.on_idle(now, host);
    }
    inputs
}

fn run_transfers<H: Host, M: Machine>(host: &mut H, now: Nanos, machine: &mut M) -> usize {
    let mut ended = 0;
    // Those that wait cost a look each, and nothing of the pass.
    for _ in 0..host.shm_mut().transfers.aside() {
        let shm = host.shm_mut();
        let Some(transfer) = shm.transfers.next_aside() else { break };
        let turn = shm.turn_of(transfer, 0);
        ended += after_turn(host, now, machine, &transfer, turn);
    }
    let mut pass = PASS_BYTES;
    while let Some((transfer, len)) = host.shm_mut().transfers.turn(&mut pass) {
        let turn = host.shm_mut().turn_of(transfer, len);
        ended += after_turn(host, now, machine, &transfer, turn);
    }
    ended
}

/// Puts a transfer where its turn leaves it. Says how many inputs the machine
/// got.
fn after_turn<H: Host, M: Machine>(
    host: &mut H,
    now: Nanos,
    machine: &mut M,
    transfer: &Transfer,
    turn: Turn,
) -> usize {
    let shm = host.shm_mut();
    match turn {
        Turn::More(transfer) => shm.transfers.push(transfer),
        Turn::Wait(transfer) => shm.transfers.set_aside(transfer),
        Turn::End(outcome) => {
            shm.stats.count_end(transfer.direction, outcome.is_ok());
            machine.on_moved(now, host, transfer.token, outcome);
            return 1;
        }
    }
    0
}

/// Gives up a peer that broke the protocol.
#[cold]
fn refuse<H: Host, M: Machine>(
    host: &mut H,
    now: Nanos,
    machine: &mut M,
    peer: PeerId,
    writer: u16,
) {
    let shm = host.shm_mut();
    shm.stats.violations += 1;
    shm.skip_refused(writer);
    shm.warn.0(&format!("{} broke the protocol; it is given up", shm.describe(peer)));
    give_up(host, now, machine, peer, PeerError::Protocol);
}

/// Reports the ended peers all of whose packets have been read, and frees
/// what was theirs.
fn report_ended<H: Host, M: Machine>(host: &mut H, now: Nanos, machine: &mut M) -> usize {
    let mut inputs = 0;
    let mut at = 0;
    while let Some(&peer) = host.shm_mut().ending.get(at) {
        let shm = host.shm_mut();
        let head = shm.reader.head();
        let life = shm.peers.get(peer).map(|known| known.life);
        let read_all = match life {
            // Positions wrap; the distance is at most one ring.
            Some(Life::Ending { until }) => until.wrapping_sub(head).cast_signed() <= 0,
            _ => true,
        };
        if !read_all {
            at += 1;
            continue;
        }
        shm.ending.swap_remove(at);
        inputs += give_up(host, now, machine, peer, PeerError::Dead);
        // One that was given up may live, and write here still.
        if matches!(life, Some(Life::Ending { .. } | Life::Ended)) {
            host.shm_mut().reclaim(peer);
        }
    }
    inputs
}

/// Ends everything with a peer and reports it, as far as that was not done.
fn give_up<H: Host, M: Machine>(
    host: &mut H,
    now: Nanos,
    machine: &mut M,
    peer: PeerId,
    why: PeerError,
) -> usize {
    let shm = host.shm_mut();
    let Some(known) = shm.peers.get(peer) else { return 0 };
    if known.gone.is_some() {
        return tell_end(host, now, machine, peer);
    }
    let writes_no_more = shm.cut_off(peer, why);
    let mut inputs = 0;
    while let Some(transfer) = host.shm_mut().transfers.take_of(peer) {
        host.shm_mut().stats.count_end(transfer.direction, false);
        machine.on_moved(now, host, transfer.token, Err(RailError::PeerGone));
        inputs += 1;
    }
    let shm = host.shm_mut();
    shm.peers.detach(peer, &shm.card, &mut shm.own_bounces);
    if writes_no_more {
        // Its entry is free when what it wrote has been read.
        shm.begin_end(peer);
    }
    inputs + tell_end(host, now, machine, peer)
}

/// Reports the end of a peer, once, if somebody above knows the peer.
fn tell_end<H: Host, M: Machine>(host: &mut H, now: Nanos, machine: &mut M, peer: PeerId) -> usize {
    let Some(known) = host.shm_mut().peers.get_mut(peer) else { return 0 };
    let Some(why) = known.gone.filter(|_| known.seen && !known.told) else { return 0 };
    known.told = true;
    machine.on_peer_gone(now, host, peer, why);
    1
}

impl Shm {
    /// Peers are to see that this process takes in what it is sent.
    #[inline(always)]
    pub(crate) fn note_look(&self) {
        looks::note(self.segment.look());
    }

    /// There is work for the next poll beyond the mailbox.
    #[inline(always)]
    pub(super) fn attend(&mut self) {
        self.attention |= WORK;
    }

    /// Fetches some of the lines that are likely to be written or read next.
    fn fetch_lines(&mut self) {
        let reads = self.reader.fetch_alike();
        if !self.ahead.fetch_some() && !reads {
            self.attention &= !LINES;
        }
    }

    /// The packet at the head takes so many slots, and the next one is likely to be alike. Polls
    /// that wait for it fetch as many lines: it then has the further ones with the first, and not
    /// after it, which between cores that are far from each other takes as long again. Not on Intel's
    /// processors, where it was not measured.
    #[inline]
    pub(super) fn expect_to_read(&mut self, slots: u32) {
        if CAN_FETCH && !is_intel() {
            self.reader.expect_alike(slots);
            self.attention |= LINES;
        }
    }

    /// As many bytes as were written last, and are likely to be next, are these.
    #[inline]
    pub(super) fn expect_to_write(&mut self, bytes: Range<usize>, is_stream: bool) {
        if CAN_FETCH && self.ahead.expect(bytes, is_stream) {
            self.attention |= LINES;
        }
    }

    /// Something has come, and the machine is to have an idle moment after it.
    #[inline(always)]
    pub(crate) fn owe_idle(&mut self) {
        self.attention |= IDLE_OWED;
    }

    /// The next poll is to look at the other rails.
    pub(crate) fn attend_to_others(&mut self) {
        self.attention |= OTHERS;
    }

    /// Whether the next poll is to look at the other rails.
    #[inline(always)]
    pub(crate) fn others_want(&self) -> bool {
        self.attention & OTHERS != 0
    }

    /// Whether a poll would find something to do; to be asked before sleeping,
    /// after [`Doorbell::arm`](super::Doorbell::arm). Looks after stuck slots
    /// and ended peers if that is due, so that a process that only sleeps and
    /// asks learns of both.
    pub fn has_work(&mut self) -> bool {
        if self.attention & AWAKE != 0 || self.reader.is_published() || !self.transfers.is_empty() {
            return true;
        }
        if self.is_housekeeping_due() {
            self.look_after();
        } else {
            // A peer that closes rings once and writes nothing.
            self.look_at_claims();
        }
        self.is_busy() || self.reader.is_published()
    }

    /// For how long, in nanoseconds, a thread that looks after this rail may
    /// sleep unless somebody rings; zero if there is something to do. As
    /// [`Shm::has_work`], but a transfer that only waits for the other side's
    /// copying, which ends without ringing, is looked at every 50 us.
    pub fn rest_ns(&mut self) -> u64 {
        let only_waits = self.transfers.only_waits() && !self.reader.is_published();
        if only_waits && self.ending.is_empty() && self.condemned.is_empty() {
            return if self.transfers.awaits_handed() { 0 } else { NAP_NS };
        }
        if self.has_work() { 0 } else { SLEEP_NS_MAX }
    }

    /// Whether there is something left to be done here that no peer will ring
    /// for: to be asked by a call before it leaves this rail to a thread that
    /// sleeps.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.attention & AWAKE != 0 || self.is_anything_left()
    }

    /// Whether a poll has left something to the next one.
    fn is_anything_left(&self) -> bool {
        !self.transfers.is_empty() || !self.ending.is_empty() || !self.condemned.is_empty()
    }

    /// The peer behind a writer that is not plain. `None` if its packets are
    /// not to be delivered.
    #[cold]
    fn sender_of(&mut self, writer: u16) -> Option<PeerId> {
        if self.senders.get(usize::from(writer)).is_some_and(|sender| sender.is_nobody()) {
            self.adopt(writer);
            if self.senders[usize::from(writer)].is_nobody() {
                // It has written, so it had claimed the entry.
                self.give_up_entry(writer);
            }
        }
        let sender = self.senders.get_mut(usize::from(writer))?;
        let peer = sender.peer()?;
        if sender.is_gone() {
            return None;
        }
        sender.mark_seen();
        self.peers.get_mut(peer)?.seen = true;
        Some(peer)
    }

    /// Drops a packet of a peer that was given up, or of nobody.
    #[cold]
    fn refuse_unknown(&mut self, copy: &[u64; WORDS]) {
        let gone = self
            .senders
            .get(usize::from(writer_of(copy)))
            .is_some_and(|sender| sender.peer().is_some());
        if !gone {
            self.stats.violations += 1;
        }
        match Packet::parse(slot_bytes(copy)) {
            Ok(packet) if bounce::named(copy, packet.payload_offset).is_some() => {
                self.reader.skip(1);
            }
            Ok(packet) if packet.slots() <= self.packet_slots_max => {
                self.reader.skip(packet.slots());
            }
            _ => self.skip_refused(writer_of(copy)),
        }
    }

    /// Leaves the published packet at the head behind, which does not say how long it is:
    /// as many slots as its writer says that it took.
    #[cold]
    fn skip_refused(&mut self, writer: u16) {
        let slots = match self.segment.intents().nth(usize::from(writer)) {
            Some(intent) => self.reader.slots_by(intent),
            None => 1,
        };
        self.reader.skip(slots);
    }

    /// Gives a transfer its turn, of `len` bytes if this side does it alone.
    fn turn_of(&mut self, mut transfer: Transfer, len: u64) -> Turn {
        if let Some(share) = transfer.share {
            return self.turn_shared(transfer, share);
        }
        let is_whole = transfer.done == 0 && len == transfer.local.len;
        let is_measured = transfer.direction == Direction::Read && is_compared(transfer.local.len);
        let begun = (is_measured && is_whole).then(|| self.refresh_now());
        looks::note_work(self.segment.look());
        let moved = self.move_slice(&transfer, len);
        self.note_look();
        match moved {
            Ok(moved) => {
                transfer.done += moved;
                self.stats.count_moved(transfer.direction, moved);
                if transfer.done < transfer.local.len {
                    Turn::More(transfer)
                } else {
                    if is_measured {
                        self.note_arrival(transfer.peer, |ways, now| {
                            ways.note_alone(transfer.local.len, begun, now);
                        });
                    }
                    Turn::End(Ok(()))
                }
            }
            Err(why) => Turn::End(Err(why)),
        }
    }

    /// Nothing of a peer is delivered from now on, and what is moved ends. Says whether it
    /// had closed its entry here.
    fn cut_off(&mut self, peer: PeerId, why: PeerError) -> bool {
        if let Some(known) = self.peers.get_mut(peer) {
            known.gone = Some(why);
            known.direct = false;
        }
        let mut writes_no_more = false;
        for writer in 0..self.segment.layout().senders_max {
            let sender = &mut self.senders[usize::from(writer)];
            if sender.peer() == Some(peer) {
                sender.mark_gone();
                writes_no_more |= self.segment.claim_of(writer) == Claim::Closed;
                // One that lives learns of it.
                if why != PeerError::Dead {
                    self.refuse_entry(writer);
                }
            }
        }
        writes_no_more
    }

    /// The memory shared with a peer was overwritten.
    #[cold]
    pub(super) fn give_up_damaged(&mut self, peer: PeerId) {
        self.give_up_later(peer, PeerError::Damaged);
    }

    /// A peer is to be given up. Its operations end in the next poll.
    #[cold]
    pub(super) fn give_up_later(&mut self, peer: PeerId, why: PeerError) {
        let is_over = |known: &Peer| known.gone.is_some() || known.is_elsewhere();
        if self.peers.get(peer).is_none_or(is_over) || self.is_condemned(peer) {
            return;
        }
        let who = self.describe(peer);
        self.stats.violations += u64::from(matches!(why, PeerError::Damaged | PeerError::Protocol));
        self.warn.0(&match why {
            PeerError::Refused => {
                format!("{who} has given this process up, so it is given up here")
            }
            PeerError::Protocol => format!("{who} broke the protocol; it is given up"),
            PeerError::Unreachable => format!(
                "{who} lives, but its mailbox is gone: it has closed all descriptors or become \
                 another program, or somebody removed the file; it is given up"
            ),
            _ => format!("memory shared with {who} was overwritten; it is given up"),
        });
        self.condemned.push((peer, why));
        self.attend();
    }

    /// Whether a peer is about to be given up.
    pub(super) fn is_condemned(&self, peer: PeerId) -> bool {
        self.condemned.iter().any(|(other, _)| *other == peer)
    }

    /// A peer has ended: what it reserved until now is still to be read.
    pub(super) fn begin_end(&mut self, peer: PeerId) {
        let until = self.reader.reserved_until();
        let Some(known) = self.peers.get_mut(peer) else { return };
        if matches!(known.life, Life::Ending { .. } | Life::Ended) {
            return;
        }
        known.life = Life::Ending { until };
        known.watch = None;
        self.housekeeping.watches_changed = true;
        self.ending.push(peer);
        self.attend();
    }

    /// Frees what an ended peer held here.
    fn reclaim(&mut self, peer: PeerId) {
        self.peers.detach(peer, &self.card, &mut self.own_bounces);
        let may_read_still = self.may_read_still(peer);
        if self.release_all_of(peer) {
            self.own_claims.release(peer);
            if !may_read_still {
                self.own_bounces.release(peer);
            }
        }
        if let Some(known) = self.peers.get_mut(peer) {
            known.life = Life::Ended;
            if let Some(card) = &known.card {
                backing::remove_peer_file(card, &self.shm_dir);
            }
        }
    }
}
