//! What a mailbox is made with, as settings and options say it.

use sluice_rail::observer::Observed;
use sluice_rail::shm::{BulkKind, Config, CreditKind, SegmentKind};
use std::path::PathBuf;

/// Mailboxes are sized for as many senders as the program says, and this many
/// more: those that join later.
const SENDERS_MARGIN: usize = 8;
/// The fewest senders to expect. Programs say too little: Open MPI gives the
/// number of slots of the allocation, which is less than the number of ranks
/// when there are more ranks than cores.
const SENDERS_MIN: usize = 64;
/// Slots per sender beyond which the limit on a mailbox is raised for large
/// jobs: a little more than the least quota.
const SLOTS_PER_SENDER: u32 = 256;

/// What a mailbox is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailOptions {
    /// How large data is moved.
    pub bulk: BulkKind,
    /// How the room for messages is shared among the senders.
    pub credits: CreditKind,
    /// How the memory of the mailbox is made.
    pub segment: SegmentKind,
    /// Senders that it has room for; `None`: by how many the program expects.
    pub peers_max: Option<u16>,
    /// Most slots that it may have; `None`: as many as the senders need.
    pub mailbox_slots: Option<u32>,
    /// Most memory for messages that arrived before their receives.
    pub unexpected_bytes: u64,
    /// The directory in which processes find each other. All of a job must agree.
    pub shm_dir: PathBuf,
    /// What is noted of packets and requests.
    pub observed: Observed,
}

impl Default for RailOptions {
    fn default() -> RailOptions {
        RailOptions {
            bulk: BulkKind::Auto,
            credits: CreditKind::Dynamic,
            segment: SegmentKind::Auto,
            peers_max: None,
            mailbox_slots: None,
            unexpected_bytes: RailOptions::UNEXPECTED_BYTES,
            shm_dir: Config::default().shm_dir,
            observed: Observed::default(),
        }
    }
}

impl RailOptions {
    /// The default of [`RailOptions::unexpected_bytes`].
    pub const UNEXPECTED_BYTES: u64 = 4 << 20;

    /// For a program that expects so many senders (0 if it does not say), and a machine
    /// that keeps so many bytes in so many slots.
    #[must_use]
    pub fn config(&self, senders: usize, slots_within: impl FnOnce(u64) -> u32) -> Config {
        let wanted = senders.saturating_add(SENDERS_MARGIN).max(SENDERS_MIN);
        let senders_max = self.peers_max.unwrap_or(u16::try_from(wanted).unwrap_or(u16::MAX));
        let slots_needed = u32::from(senders_max) * SLOTS_PER_SENDER;
        let enough = slots_needed.next_power_of_two().max(Config::default().slots_max);
        Config {
            senders_max,
            slots_max: self.mailbox_slots.unwrap_or(enough),
            data_slots_max: slots_within(self.unexpected_bytes),
            credits: self.credits,
            segment: self.segment,
            bulk: self.bulk,
            shm_dir: self.shm_dir.clone(),
            observed: self.observed.clone(),
            ..Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(options: &RailOptions, senders: usize) -> (u16, u32) {
        let config = options.config(senders, |_| 7);
        assert_eq!(config.data_slots_max, 7);
        (config.senders_max, config.slots_max)
    }

    #[test]
    fn a_mailbox_has_room_for_the_senders_that_are_expected_and_some_more() {
        let options = &RailOptions::default();
        assert_eq!(sized(options, 0), (64, 65_536));
        assert_eq!(sized(options, 100), (108, 65_536));
        assert_eq!(sized(options, 1000), (1008, 1 << 18));
        assert_eq!(sized(options, usize::MAX), (u16::MAX, 1 << 24));
    }

    #[test]
    fn what_is_set_holds_over_what_is_expected() {
        let few = RailOptions { peers_max: Some(2), ..RailOptions::default() };
        assert_eq!(sized(&few, 1000), (2, 65_536));
        let small = RailOptions { mailbox_slots: Some(1024), ..RailOptions::default() };
        assert_eq!(sized(&small, 1000), (1008, 1024));
    }
}
