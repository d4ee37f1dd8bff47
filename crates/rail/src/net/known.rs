//! A connection that is open, and what two processes know of each other from then on: all
//! rails between them.

use super::conn::{Conn, Origin};
use super::devices::{self, Addresses, Offer, pair};
use super::handshake::{Established, Hello};
use super::join::{Attempt, Side};
use super::remote::{Met, Pair, Stage};
use super::ring::Ring;
use super::{Entry, Event, Net, sealed};
use sluice_multirail::{Peer, RailId, RailSpec};
use sluice_wire::PeerId;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What is expected from asking to the first byte, until it is measured.
const LATENCY_NS: u64 = 20_000;

impl Net {
    /// A connection is open.
    pub(super) fn establish(
        &mut self,
        entry: usize,
        peer: PeerId,
        established: Established,
        rest: &[u8],
    ) {
        self.strangers.retain(|&other| other != entry);
        let Some(Entry::Joining(joining)) = self.entries.get(entry) else { return };
        let by_me = matches!(joining.side, Side::Asking(..));
        let own = match &joining.side {
            Side::Proving(_, device, ..) => *device,
            Side::Asking(Attempt { rail: Some(rail), .. }, _) => {
                self.met(peer).map_or(0, |met| met.pairs[rail.index()].own)
            }
            _ => self.device_of(&joining.socket),
        };
        let hello = established.hello;
        if self.met(peer).is_none() && self.meet_matching(peer, &hello).is_err() {
            self.remove(entry);
            return self.refuse_matching(peer);
        }
        if self.met(peer).is_none() && !self.become_met(peer, entry, own, &hello) {
            return self.no_rail(entry);
        }
        let Some(rail) = self.met(peer).and_then(|met| met.rail_of_pair(own, hello.own_device))
        else {
            return self.no_rail(entry);
        };
        let at = rail.index();
        // Its own attempt, and an older connection, make room.
        let Some(met) = self.met_mut(peer) else { return };
        met.open_at[at] = None;
        if let Some(attempt) = met.attempts[at].take().filter(|&other| other != entry) {
            self.remove(attempt);
        }
        let older = self.met(peer).and_then(|met| met.conns[at]).filter(|&older| older != entry);
        let origin = Origin { by_me, attempt: hello.attempt };
        if let Some(older) = older {
            let own_first = self.goes_first(peer);
            if by_me || self.conn(older).is_some_and(|conn| conn.origin.stays(origin, own_first)) {
                return self.asked_in_vain(entry, "has a connection that is newer");
            }
            self.broke(older, None);
        }
        let Entry::Joining(joining) = std::mem::replace(&mut self.entries[entry], Entry::Taken)
        else {
            return;
        };
        let (lane, rest) = match self.lane_of(entry, own, &hello, *joining, rest) {
            Ok(made) => made,
            Err(why) => return self.lane_failed(entry, peer, rail, &why),
        };
        let mut conn = Conn::new(lane, peer, rail, own, origin);
        let is_unread = !rest.is_empty();
        match established.cipher {
            None => conn.partial = rest,
            Some(cipher) => {
                let (sealing, unsealing) = sealed::both(cipher, &rest);
                conn.out.seal(sealing);
                conn.unsealing = Some(unsealing);
            }
        }
        self.entries[entry] = Entry::Conn(Box::new(conn));
        let now = self.now;
        if let Some(met) = self.met_mut(peer) {
            met.conns[at] = Some(entry);
            met.refused = 0;
        }
        let wanted = self.with_rails(peer, |rails, below| rails.opened(now, below, rail));
        if wanted != Some(true) {
            if let Some(met) = self.met_mut(peer) {
                met.conns[at] = None;
            }
            return self.remove(entry);
        }
        self.stats.opened += 1;
        if let Some(remote) = self.remote_mut(peer) {
            remote.asks_in_vain = 0;
        }
        self.warm(entry);
        // What came with the handshake is not told again.
        if is_unread {
            self.unread.push(entry);
        }
    }

    /// Both know each other now, and all rails between them.
    pub(super) fn become_met(
        &mut self,
        peer: PeerId,
        entry: usize,
        own: u8,
        hello: &Hello,
    ) -> bool {
        let pairs = self.pairs_with(own, hello);
        let specs: Vec<RailSpec> = pairs
            .iter()
            .map(|pair| RailSpec {
                bytes_per_s: pair.bytes_per_s,
                latency_ns: self.fabric_latency_ns(pair.own).unwrap_or(LATENCY_NS),
            })
            .collect();
        let now = self.now;
        let rails = Peer::new(&specs, self.config.timing, self.config.striping, now);
        let count = pairs.len();
        let mut met = Met {
            rails,
            opened: hello.opened,
            uid: hello.user,
            pairs,
            conns: vec![None; count],
            attempts: vec![None; count],
            open_at: vec![None; count],
            ring: Ring::default(),
            stream_on: None,
            resumed: 0,
            expected: 0,
            reads: Vec::new(),
            writes: Vec::new(),
            writes_waiting: VecDeque::new(),
            refused: 0,
            altered: 0,
        };
        // The rail by which they have met is not opened once more.
        let Some(rail) = met.rail_of_pair(own, hello.own_device) else { return false };
        met.conns[rail.index()] = Some(entry);
        met.rails.spare_others(rail);
        let Some(remote) = self.remote_mut(peer) else { return false };
        let is_wanted = std::mem::take(&mut remote.is_wanted);
        match std::mem::replace(&mut remote.stage, Stage::Met(Box::new(met))) {
            Stage::Idle => self.active.push(peer),
            Stage::Meeting(meeting) => {
                let others = meeting.entry.filter(|&other| other != entry);
                others.into_iter().for_each(|other| self.remove(other));
            }
            stage @ (Stage::Gone(_) | Stage::Met(_)) => {
                if let Some(remote) = self.remote_mut(peer) {
                    remote.stage = stage;
                }
                return false;
            }
        }
        if let Some(remote) = self.remote_mut(peer) {
            remote.label = hello.label;
        }
        self.met_count += 1;
        if is_wanted {
            self.events.push_back(Event::Connected(peer, hello.opened));
        }
        for device in 0..self.config.devices.len() as u8 {
            if self.carriers.is_lost(device) {
                // The one by which they meet carries something, whatever the system says.
                self.cut_rails(peer, device, Some(rail));
            }
        }
        self.with_rails(peer, |rails, below| rails.advance(now, below));
        true
    }

    /// The rails between this process and one that tells its devices, in an order that
    /// both compute. The one by which they have met is among them.
    pub(super) fn pairs_with(&self, own: u8, hello: &Hello) -> Vec<Pair> {
        let offer = |addresses: Addresses, mbit: u32| Offer {
            addresses: addresses.iter().collect(),
            speed_mbit: (mbit > 0).then_some(mbit),
        };
        let kind_here = |at: usize| {
            self.config.devices[at].fabric.as_ref().map(|fabric| fabric.provider.as_str())
        };
        let kind_there = |at: usize| hello.provider_of(hello.devices[at].index);
        let mut found: Vec<devices::Pair> = Vec::new();
        // Devices of one kind reach each other; those of TCP come first.
        let mut kinds: Vec<Option<&str>> = (0..self.config.devices.len()).map(kind_here).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            let own_places = 0..self.config.devices.len();
            let own_places: Vec<usize> = own_places.filter(|&at| kind_here(at) == kind).collect();
            let peer_places = 0..hello.devices.len();
            let peer_places: Vec<usize> =
                peer_places.filter(|&at| kind_there(at) == kind).collect();
            let own_offer = |&at: &usize| {
                let device = &self.config.devices[at];
                offer(self.told_addresses(at), device.mbit_per_s)
            };
            let peer_offer = |&at: &usize| {
                let device = &hello.devices[at];
                offer(device.addresses, device.mbit_per_s)
            };
            let here: Vec<Offer> = own_places.iter().map(own_offer).collect();
            let there: Vec<Offer> = peer_places.iter().map(peer_offer).collect();
            let pairs = pair(&here, &there).into_iter();
            found.extend(pairs.map(|pair| devices::Pair {
                own: own_places[pair.own],
                peer: peer_places[pair.peer],
                ..pair
            }));
        }
        found.truncate(RailId::COUNT_MAX);
        let met_at = hello.devices.iter().position(|device| device.index == hello.own_device);
        let (own, peer) = (usize::from(own), met_at.unwrap_or(0));
        let is_among = found.iter().any(|pair| (pair.own, pair.peer) == (own, peer));
        let is_possible = kind_here(own) == kind_there(peer);
        let addresses = self.told_addresses(own);
        if !is_among
            && is_possible
            && found.len() < RailId::COUNT_MAX
            && let Some((own_address, peer_address)) =
                addresses.of_one_family(hello.devices[peer].addresses)
        {
            let same_network = false;
            found.push(devices::Pair { own, peer, own_address, peer_address, same_network });
        }
        let as_pair = |pair: devices::Pair| {
            let (here, there) = (&self.config.devices[pair.own], &hello.devices[pair.peer]);
            let known = [here.mbit_per_s, there.mbit_per_s].into_iter().filter(|&mbit| mbit > 0);
            let mbit = known.min().unwrap_or(1000);
            Pair {
                own: pair.own as u8,
                other: there.index,
                from: pair.own_address.addr(),
                at: SocketAddr::new(pair.peer_address.addr(), there.port),
                is_one_network: pair.same_network,
                bytes_per_s: u64::from(mbit) * 125_000,
            }
        };
        found.into_iter().map(as_pair).collect()
    }
}
