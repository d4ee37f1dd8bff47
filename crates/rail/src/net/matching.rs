//! A rail that matches tags in the place of this process ([`Matcher`]): when there is one,
//! who agrees on it, and what has come of it.
//!
//! It is opened with the network, before any message, or not at all. Both of two processes
//! have one, by the same provider, or they are no peers: what one gives to its rail the other
//! would never see.
//!
//! Only with [`Security::None`]: the provider takes messages from anybody who reaches the
//! endpoint, and has matched them before this side can ask who sent them.

use super::handshake::{Hello, Refusal, Security, TagsName};
use super::{Entry, Event, Net, NetConfig, fabric};
use crate::ofi::{self, Matcher};
use crate::shm::{Warn, keep_looks};
use rustix::event::epoll;
use sluice_link::{Full, PeerError, TaggedEnd, TaggedMessage, TaggedWanted, Token};
use sluice_wire::{Nanos, PeerId, PtIndex, Region};

/// Why this process matches messages where a rail was to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMatching {
    /// Messages have another way.
    #[error("peers on this host are reached over shared memory; leave shm out of FI_SLUICE_RAILS")]
    SharedMemory,
    /// The provider would match messages of anybody.
    #[error(
        "with FI_SLUICE_SECURITY={0} all messages are from processes that have proved who they \
         are, which a rail that matches does not ask; in a network that only the job can reach, \
         set it to none"
    )]
    Security(Security),
    /// There is no such rail.
    #[error("FI_SLUICE_RAILS names no provider of libfabric")]
    NoProvider,
}

impl NoMatching {
    /// What settings say of it; `None` if a rail may match.
    #[must_use]
    pub fn of(shares: bool, security: Security, has_provider: bool) -> Option<NoMatching> {
        if shares {
            Some(NoMatching::SharedMemory)
        } else if security != Security::None {
            Some(NoMatching::Security(security))
        } else {
            (!has_provider).then_some(NoMatching::NoProvider)
        }
    }
}

/// For how long what a peer has sent before its end may still come.
const LINGER_NS: u64 = 50_000_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Matching {
    matcher: Matcher,
    /// By which device, an index.
    device: usize,
    provider: String,
    /// Peers that are gone, of which the machine is to be told then.
    parting: Vec<(PeerId, PeerError, Nanos)>,
}

impl NetConfig {
    /// Takes back that a rail is to match, where none may.
    pub(crate) fn limit_matching(&mut self, shares: bool, warn: Warn) {
        let has_provider = self.devices.iter().any(|device| device.fabric.is_some());
        let why_not = NoMatching::of(shares, self.security, has_provider);
        if let (true, Some(why)) = (self.matching, why_not) {
            self.matching = false;
            warn_of(warn, &why);
        }
    }
}

fn warn_of(warn: Warn, why: &dyn std::fmt::Display) {
    (warn.0)(&format!("no rail matches messages, this process does: {why}"));
}

impl Net {
    /// Opens endpoints that match tags, if that is wanted; where it cannot be, that is said.
    pub(super) fn open_matching(&mut self) {
        if !self.config.matching {
            return;
        }
        if let Err(why) = self.try_open_matching() {
            warn_of(self.warn, &why);
        }
    }

    fn try_open_matching(&mut self) -> Result<(), String> {
        let mut devices = self.config.devices.iter().zip(0..);
        let found = devices.find_map(|(device, at)| Some((device, device.fabric.clone()?, at)));
        let (own, spec, device) = found.ok_or_else(|| NoMatching::NoProvider.to_string())?;
        let lanes = self.fabrics.get(device).and_then(Option::as_ref);
        let domain = lanes.map(|lanes| ofi::lock(&lanes.device).endpoint().offer().domain());
        let matcher =
            Matcher::open(&spec.provider, own.addresses.first(), &domain.unwrap_or_default());
        keep_looks();
        let matcher = matcher.map_err(|why| why.to_string())?;
        let descriptors: Vec<_> = matcher
            .descriptors()
            .flatten()
            .filter_map(|found| rustix::io::fcntl_dupfd_cloexec(found, 0).ok())
            .collect();
        let parting = Vec::new();
        self.matching = Some(Matching { matcher, device, provider: spec.provider, parting });
        for descriptor in descriptors {
            // Without it sleeps are short.
            let _ = self.add(Entry::Matching(descriptor));
        }
        Ok(())
    }

    /// By which provider messages are matched in the place of this process.
    #[must_use]
    pub fn matches_by(&self) -> Option<&str> {
        Some(&self.matching.as_ref()?.provider)
    }

    /// This process itself is a peer, under this id.
    pub(crate) fn match_own(&mut self, own: PeerId) {
        let Some(Matching { matcher, .. }) = &mut self.matching else { return };
        let (id, names) = (matcher.id(), matcher.names());
        if matcher.introduce(own, id, &names).is_err() {
            (self.warn.0)("messages to itself cannot be sent: the provider refuses its own name");
        }
    }

    /// What hellos say of it.
    pub(super) fn tags_name(&self, device: usize) -> Option<TagsName> {
        let matching = self.matching.as_ref().filter(|matching| matching.device == device)?;
        Some(TagsName { id: matching.matcher.id(), names: matching.matcher.names() })
    }

    /// Whether a process that says this is matched with as this one is.
    pub(super) fn agrees_on_matching(&self, peer: PeerId, hello: &Hello) -> Result<(), Refusal> {
        let is_agreed = match (&self.matching, hello.tags()) {
            (None, None) => true,
            (Some(own), Some((provider, tags))) => {
                own.provider == provider && own.matcher.may_be(tags.id, peer)
            }
            _ => false,
        };
        is_agreed.then_some(()).ok_or(Refusal::Matching)
    }

    /// The two have met.
    pub(super) fn meet_matching(&mut self, peer: PeerId, hello: &Hello) -> Result<(), Refusal> {
        self.agrees_on_matching(peer, hello)?;
        let (Some(own), Some((_, tags))) = (&mut self.matching, hello.tags()) else {
            return Ok(());
        };
        own.matcher.introduce(peer, tags.id, &tags.names).map_err(|_| Refusal::Matching)
    }

    /// A peer is given up because the two do not agree.
    pub(super) fn refuse_matching(&mut self, peer: PeerId) {
        let who = self.describe(peer);
        (self.warn.0)(&format!("{who} is no peer: {}", Refusal::Matching));
        self.lose(peer, PeerError::Refused);
    }

    /// Nothing more goes to a peer.
    pub(super) fn end_matching(&mut self, peer: PeerId) {
        if let Some(Matching { matcher, .. }) = &mut self.matching {
            matcher.forget(peer);
        }
    }

    /// Looks what the rail that matches has.
    pub(super) fn look_at_matching(&mut self) {
        let Some(Matching { matcher, .. }) = &mut self.matching else { return };
        if !matcher.is_used() {
            return;
        }
        matcher.progress();
        if let Some(full) = matcher.take_full() {
            (self.warn.0)(&full);
        }
        if let Some(why) = matcher.take_broken() {
            let provider = &self.matching.as_ref().expect("it is used").provider;
            (self.warn.0)(&format!("the provider {provider} matches no messages any more: {why}"));
            self.unlist_matching();
        }
        let Some(Matching { matcher, .. }) = &mut self.matching else { return };
        for peer in matcher.take_lost() {
            if self.remote(peer).is_some() {
                self.lose(peer, PeerError::Unreachable);
            } else {
                // This process itself.
                self.end_matching(peer);
                self.events.push_back(Event::Gone(peer, PeerError::Unreachable));
            }
        }
    }

    /// Its descriptors tell of nothing any more that anybody looks at.
    fn unlist_matching(&mut self) {
        let of_it =
            |(at, entry): (usize, &Entry)| matches!(entry, Entry::Matching(_)).then_some(at);
        for at in self.entries.iter().filter_map(of_it).collect::<Vec<_>>() {
            if let Some(Entry::Matching(descriptor)) = self.entries.get(at) {
                let _ = epoll::delete(&self.epoll, descriptor);
            }
            self.remove(at);
        }
    }

    /// What the machine is to be told next.
    pub(crate) fn next_matched(&mut self) -> Option<(Token, TaggedEnd)> {
        let told = self.matching.as_mut()?.matcher.next_told()?;
        if let (_, TaggedEnd::Met { from, .. }) = told {
            // The machine knows of it from now on.
            self.note_seen(from);
        }
        Some(told)
    }

    /// Whether the machine is to be told of the end of a peer later, when what it has sent
    /// has come.
    pub(crate) fn lingers(&mut self, peer: PeerId, why: PeerError) -> bool {
        let until = self.now.saturating_add(Nanos(LINGER_NS));
        let Some(Matching { parting, .. }) = &mut self.matching else { return false };
        parting.push((peer, why, until));
        true
    }

    /// Of whose end the machine is to be told now.
    pub(crate) fn next_departed(&mut self) -> Option<(PeerId, PeerError)> {
        let now = self.now;
        let Matching { parting, .. } = self.matching.as_mut()?;
        let at = parting.iter().position(|&(.., until)| until <= now)?;
        let (peer, why, _) = parting.remove(at);
        Some((peer, why))
    }

    pub(super) fn has_matched(&self) -> bool {
        self.matching.as_ref().is_some_and(|matching| matching.matcher.has_work())
    }

    pub(super) fn is_matching_used(&self) -> bool {
        self.matching.as_ref().is_some_and(|matching| matching.matcher.is_used())
    }

    pub(super) fn is_matching_drained(&self) -> bool {
        self.matching.as_ref().is_none_or(|matching| matching.matcher.is_drained())
    }

    /// Messages that are of no peer.
    #[cfg(test)]
    pub(super) fn tagged_strays(&self) -> u64 {
        self.matching.as_ref().map_or(0, |matching| matching.matcher.strays())
    }

    /// What searches hold, and may.
    #[cfg(test)]
    pub(super) fn held(&mut self) -> &mut Matcher {
        self.matcher()
    }

    /// For how long a thread may sleep as far as this is concerned.
    pub(super) fn matching_rest_ns(&mut self) -> u64 {
        let now = self.now;
        let Some(Matching { matcher, parting, .. }) = &mut self.matching else { return u64::MAX };
        if !matcher.is_used() {
            return u64::MAX;
        }
        if matcher.has_work() || !matcher.may_sleep() {
            return 0;
        }
        let is_told = matcher.descriptors().all(|found| found.is_some());
        let rest = match (is_told, matcher.is_waiting() || matcher.is_crowded()) {
            (false, _) => fabric::REST_BLIND_NS_MAX,
            (true, true) => fabric::REST_WAITING_NS_MAX,
            (true, false) => fabric::REST_NS_MAX,
        };
        let parts = parting.iter().map(|&(.., until)| until.since(now).0).min();
        parts.map_or(rest, |parts| parts.min(rest))
    }
}

/// What the machine asks of the rail that matches, which there is.
impl Net {
    fn matcher(&mut self) -> &mut Matcher {
        &mut self.matching.as_mut().expect("the machine asks where a rail matches").matcher
    }

    pub(crate) fn post_receive(
        &mut self,
        wanted: &TaggedWanted,
        into: Region,
        token: Token,
    ) -> Result<(), Full> {
        self.matcher().post(wanted, into, token)
    }

    pub(crate) fn end_waiting(&mut self, list: PtIndex) {
        self.matcher().nobody_waits(list);
    }

    pub(crate) fn cancel_receive(&mut self, token: Token) -> bool {
        self.matcher().cancel(token)
    }

    /// # Safety
    /// The bytes can be read.
    pub(crate) unsafe fn send_tagged(
        &mut self,
        peer: PeerId,
        message: &TaggedMessage,
        bytes: Region,
        token: Option<Token>,
    ) -> Result<(), Full> {
        // SAFETY: the caller's promise.
        unsafe { self.matcher().send(peer, message, bytes, token)? }
        if let Some(matching) = &self.matching {
            self.carried.note(matching.device as u8, bytes.len);
        }
        Ok(())
    }

    pub(crate) fn search_tagged(
        &mut self,
        wanted: &TaggedWanted,
        claim: Option<Token>,
    ) -> Option<(PeerId, TaggedMessage)> {
        let found = self.matcher().search(wanted, claim)?;
        self.note_seen(found.0);
        Some(found)
    }

    pub(crate) fn claim_first_tagged(
        &mut self,
        list: PtIndex,
        wants: &mut dyn FnMut(PeerId, &TaggedMessage) -> bool,
        claim: Token,
    ) -> Option<(PeerId, TaggedMessage)> {
        let found = self.matcher().claim_first(list, wants, claim)?;
        self.note_seen(found.0);
        Some(found)
    }

    pub(crate) fn take_claimed(&mut self, claim: Token, into: Region) {
        self.matcher().take(claim, into);
    }
}
