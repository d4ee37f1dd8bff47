//! How a process of which the address or the label is known is found: by its card, a
//! file in the directory of this user's files (`held`) that is named by the mark of its
//! key. A card is read when its process is first spoken to or waited for, unless that
//! one has spoken first: then its card is in its entry of the own mailbox.
//!
//! Invariant: a peer whose card cannot be had is given up, so nobody waits for it.

use super::Shm;
use super::card::Card;
use super::dirs::{existing_dir, find_user_dir, user_dir, user_dirs};
use super::error::{CardError, OpenError};
use super::held::{self, Held, HeldError, hold, sweep};
use super::identity::Identity;
use super::peers::Life;
use super::show;
use crate::address::Address;
use crate::shortage::{is_shortage, remedy};
use sluice_link::PeerError;
use sluice_wire::PeerId;
use std::io;
use std::path::{Path, PathBuf};

/// What the files of cards begin with.
pub(super) const PREFIX: &str = "card-";
/// How many of them are looked at for stale ones when a rail is opened.
pub(super) const SWEEP_FILES_MAX: usize = 1024;

fn file_of(address: &Address) -> String {
    format!("{PREFIX}{address}")
}

/// Makes this process's card known, until what this returns is dropped. Removes some
/// that ended processes have left.
pub(super) fn publish(card: &Card, identity: &Identity, shm_dir: &Path) -> Result<Held, OpenError> {
    for dir in user_dirs(shm_dir, identity.uid) {
        sweep(&dir, identity, PREFIX, SWEEP_FILES_MAX);
        show::sweep(&dir, identity, SWEEP_FILES_MAX);
    }
    hold_card(card, identity, shm_dir)
}

/// How many cards of ended processes of this user lie below `shm_dir`.
///
/// # Errors
/// If this process cannot be identified.
pub fn stale_cards(shm_dir: &Path) -> Result<usize, OpenError> {
    let identity = Identity::of_this_process()?;
    let dirs = user_dirs(shm_dir, identity.uid);
    Ok(dirs.map(|dir| held::count_stale(&dir, &identity, PREFIX)).sum())
}

fn hold_card(card: &Card, identity: &Identity, shm_dir: &Path) -> Result<Held, OpenError> {
    let dir = find_user_dir(shm_dir, identity.uid)?;
    let name = file_of(&card.address());
    hold(&dir, identity, &name, &card.to_bytes()).map_err(|why| {
        let cause = match why {
            HeldError::Io(cause) => cause,
            HeldError::InUse { pid } => io::Error::other(format!("pid {pid} holds it")),
            HeldError::Foreign(what) => io::Error::other(what),
            HeldError::NotFound => io::ErrorKind::NotFound.into(),
        };
        OpenError::Card { path: dir.join(name), cause }
    })
}

/// A card that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) card: Card,
    /// Its process has ended without taking the card along.
    pub(super) has_ended: bool,
}

/// The card of the process at `address`, by what lies in this user's directories.
pub(super) fn find(
    address: &Address,
    identity: &Identity,
    shm_dir: &Path,
) -> Result<Found, CardError> {
    let name = file_of(address);
    for path in user_dirs(shm_dir, identity.uid) {
        let dir = match existing_dir(&path, identity.uid) {
            Ok(dir) => dir,
            Err(OpenError::Dir { cause, .. }) if is_shortage(&cause) => {
                return Err(CardError::Io(cause));
            }
            // It is not there, or another user's.
            Err(_) => continue,
        };
        let read = match held::read(&dir, identity, &name) {
            Ok(read) => read,
            Err(HeldError::NotFound) => continue,
            Err(HeldError::Foreign(what)) => return Err(CardError::Malformed(what)),
            Err(HeldError::Io(cause)) => return Err(CardError::Io(cause)),
            Err(HeldError::InUse { .. }) => unreachable!("reading takes nothing"),
        };
        let card = Card::from_bytes(&read.content)?;
        if card.key != *address.key() {
            return Err(CardError::OtherKey);
        }
        if card.holder() != read.holder {
            return Err(CardError::OtherHolder { said: card.pid, holder: read.holder.pid });
        }
        return Ok(Found { card, has_ended: read.is_stale });
    }
    Err(CardError::Missing)
}

/// Where the card of a process lies, as a rule.
pub(super) fn path_of(address: &Address, shm_dir: &Path, uid: u32) -> PathBuf {
    user_dir(shm_dir, uid).join(file_of(address))
}

impl Shm {
    /// Puts this process's card back if somebody has removed it.
    pub(super) fn keep_card(&mut self) {
        if self.published.is_there() {
            return;
        }
        // What stands in the way now may be gone the next time.
        if let Ok(published) = hold_card(&self.card, &self.identity, &self.shm_dir) {
            self.warn.0(&format!(
                "somebody removed the card of this process from {}; it is put back (systemd does \
                 that at the end of a session, unless RemoveIPC=no)",
                self.shm_dir.display()
            ));
            self.published = published;
        }
    }

    /// The peer with this card, which another process says is its own.
    pub(super) fn admit(&mut self, card: &Card) -> Result<PeerId, CardError> {
        card.check(&self.card, self.identity.uid)?;
        self.peers.intern_card(card)
    }

    /// The card of a peer of which only the address is known; `None` if it could not
    /// be had now. One that cannot be had at all is told of and given up, one that has
    /// ended begins its end.
    pub(super) fn card_of(&mut self, peer: PeerId) -> Option<Card> {
        let known = self.peers.get(peer)?;
        if let Some(card) = &known.card {
            return Some(**card);
        }
        let address =
            known.address.filter(|_| known.life == Life::Quiet && known.gone.is_none())?;
        // That it is given up has been said, but not reported yet.
        if self.condemned.iter().any(|&(other, _)| other == peer) {
            return None;
        }
        let mut found = find(&address, &self.identity, &self.shm_dir);
        if matches!(found, Err(CardError::Missing)) {
            // It may have spoken, which has not been looked at.
            self.adopt_senders();
            if let Some(card) = self.peers.get(peer).and_then(|known| known.card.as_deref()) {
                return Some(*card);
            }
        }
        if let Ok(Found { card, .. }) = &found
            && let Err(why) = self.admit(card)
        {
            found = Err(why);
        }
        match found {
            Ok(Found { card, has_ended: false }) => Some(card),
            Ok(Found { has_ended: true, .. }) => {
                self.begin_end(peer);
                None
            }
            // Nothing is known of it; the same may work later.
            Err(CardError::Io(cause)) if is_shortage(&cause) => {
                self.tell_shortage(peer, "the card", &cause);
                if !self.unwatched.contains(&peer) {
                    self.unwatched.push(peer);
                }
                None
            }
            Err(why) => {
                self.stats.violations += u64::from(why.is_violation());
                self.warn.0(&self.why_not_found(peer, &address, &why));
                self.condemned.push((peer, PeerError::Unreachable));
                self.attend();
                None
            }
        }
    }

    /// Says, once, what this process lacks to open something of a peer.
    pub(super) fn tell_shortage(&mut self, peer: PeerId, what: &str, cause: &io::Error) {
        if !std::mem::replace(&mut self.is_shortage_told, true) {
            self.warn.0(&format!(
                "cannot open {what} of {}: {cause}; {}; operations on peers that it does not know \
                 yet fail until then",
                self.describe(peer),
                remedy(cause, "see what this process lacks"),
            ));
        }
    }

    fn why_not_found(&self, peer: PeerId, address: &Address, why: &CardError) -> String {
        let path = path_of(address, &self.shm_dir, self.identity.uid);
        let (who, path) = (self.describe(peer), path.display());
        match why {
            CardError::Missing => format!(
                "cannot reach {who}: its card {path} is not here: it has ended, or it has a {} of \
                 its own; let all processes of a job share one (docker run --ipc=host, or the same \
                 mount)",
                self.shm_dir.display()
            ),
            CardError::Io(cause) => {
                format!("cannot reach {who}: its card {path} cannot be read: {cause}")
            }
            _ => format!("cannot reach {who}: its card {path} is refused: {why}"),
        }
    }

    /// Looks up a peer of which only the label is known. One that is not found now
    /// may be later.
    pub(super) fn look_up(&mut self, peer: PeerId) -> Result<(), PeerError> {
        let label = self.peer_label(peer);
        let Some((names, kind)) = &self.names else { return Err(PeerError::Unreachable) };
        let found = match names.find(label as u32, *kind) {
            Ok(address) => {
                let found = find(&address, &self.identity, &self.shm_dir);
                let usable = |card: &Card| card.check(&self.card, self.identity.uid);
                found.and_then(|found| usable(&found.card).map(|()| found)).map_err(|why| {
                    self.stats.violations += u64::from(why.is_violation());
                    format!("its card {address}: {why}")
                })
            }
            Err(why) => Err(why.to_string()),
        };
        let card = match found {
            Ok(Found { card, has_ended: false }) => card,
            // Its name is about to go the same way.
            Ok(Found { has_ended: true, .. }) => return Err(PeerError::Unreachable),
            Err(why) => {
                // Once: a program may wait for another by trying again and again.
                if self.missed.insert(peer) {
                    let line = format!("cannot reach the process that is called {label:#x}: {why}");
                    self.warn.0(&line);
                }
                return Err(PeerError::Unreachable);
            }
        };
        if card.label != label {
            return Err(PeerError::Unreachable);
        }
        match self.admit(&card) {
            Ok(found) if found == peer => Ok(()),
            _ => Err(PeerError::Unreachable),
        }
    }
}
