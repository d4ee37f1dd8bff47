//! What moves cost on one rail, between memory of one kind: what the choice of a
//! protocol is computed from.
//!
//! A rail measures them or they are stated. They stand here because a rail makes
//! them, the layers above use them, and neither knows the other.
//!
//! Times of whole steps are nanoseconds; a byte is too fast for that and takes
//! picoseconds.

/// What a direct move costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// One that moves next to nothing.
    pub start_ns: u64,
    /// Each byte of a long one.
    pub byte_ps: u64,
}

/// What moves cost. The default is *stated*: figures of one machine with two
/// virtual cores, rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A packet of one slot, from its sender's call until it is handled.
    pub packet_ns: u64,
    /// Each byte of a longer packet, copied into the mailbox and out of it.
    pub packet_byte_ps: u64,
    /// Reading memory of a peer; `None` if the rail cannot.
    pub read: Option<Direct>,
    /// Writing it.
    pub write: Option<Direct>,
    /// Opening chunk claims, taking the chunks of a transfer and closing them; `None` if
    /// the rail has none.
    pub claim_ns: Option<u64>,
}

impl Default for Costs {
    fn default() -> Costs {
        let direct = Direct { start_ns: 1200, byte_ps: 75 };
        Costs {
            packet_ns: 250,
            packet_byte_ps: 100,
            read: Some(direct),
            write: Some(direct),
            claim_ns: Some(100),
        }
    }
}

impl Costs {
    /// Longest step that is believed: a millisecond.
    pub const STEP_NS_MAX: u64 = 1_000_000;
    /// Slowest byte that is believed: ten megabytes a second.
    pub const BYTE_PS_MAX: u64 = 100_000;

    /// Whether all figures are such as a machine can have. Others are not a
    /// measurement.
    #[must_use]
    pub fn are_plausible(&self) -> bool {
        let step = |ns: u64| (1..=Costs::STEP_NS_MAX).contains(&ns);
        let byte = |ps: u64| (1..=Costs::BYTE_PS_MAX).contains(&ps);
        let direct =
            |way: Option<Direct>| way.is_none_or(|way| step(way.start_ns) && byte(way.byte_ps));
        step(self.packet_ns)
            && byte(self.packet_byte_ps)
            && direct(self.read)
            && direct(self.write)
            && self.claim_ns.is_none_or(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_not_plausible() {
        let stated = Costs::default();
        let never = Some(Direct { start_ns: 0, byte_ps: 75 });
        let crawls = Some(Direct { start_ns: 1, byte_ps: Costs::BYTE_PS_MAX + 1 });
        assert!(stated.are_plausible());
        assert!(Costs { read: None, write: None, claim_ns: None, ..stated }.are_plausible());
        for bad in [
            Costs { packet_ns: 0, ..stated },
            Costs { packet_ns: Costs::STEP_NS_MAX + 1, ..stated },
            Costs { packet_byte_ps: 0, ..stated },
            Costs { read: never, ..stated },
            Costs { write: crawls, ..stated },
            Costs { claim_ns: Some(0), ..stated },
        ] {
            assert!(!bad.are_plausible(), "{bad:?}");
        }
    }
}
