//! The equations of *Dynamic flow control for the EXTOLL interconnect*, each with
//! the paper's number.

/// Freed slots that are worth a credit packet, for a quota whose credit packets
/// have `credit_slots` places in the sender's mailbox (equation 1). A sender that
/// reads none of them cannot bring its receiver there more than `credit_slots`
/// times.
#[must_use]
pub fn return_threshold(quota: u16, credit_slots: u8) -> u16 {
    quota / (u16::from(credit_slots) + 1) + 1
}

/// Credits to be taken from a victim with intended quota `victim` for a sender
/// with intended quota `monitored` (equation 6), never so many that the victim
/// keeps fewer than `static_slots`.
#[must_use]
pub fn stolen_credits(credit_slots: u8, monitored: u32, victim: u32, static_slots: u16) -> u32 {
    let wanted = (u32::from(credit_slots) + 1).max(monitored.abs_diff(victim) / 2);
    wanted.min(victim.saturating_sub(u32::from(static_slots)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_1() {
        let rows = [
            (100, 1, 51),
            (100, 2, 34),
            (100, 3, 26),
            (100, 4, 21),
            (100, 5, 17),
            (60, 2, 21),
            (40, 2, 14),
            (20, 2, 7),
            (10, 2, 4),
            (3, 2, 2),
        ];
        for (quota, credit_slots, threshold) in rows {
            assert_eq!(return_threshold(quota, credit_slots), threshold);
        }
    }

    /// Credits that a sender has at every moment of a steady flow (the left side
    /// of equations 3 and 4).
    fn steady_credits(quota: u16, credit_slots: u8) -> u16 {
        quota - (return_threshold(quota, credit_slots) - 1)
    }

    /// A message of 2 KiB and its header, in the paper's slots of 56 bytes.
    const MESSAGE_SLOTS: u16 = 37;

    #[test]
    fn table_2_and_equations_3_4_5() {
        for (credit_slots, data_slots, mailbox_slots) in
            [(2, 55, 57), (3, 49, 52), (4, 46, 50), (5, 44, 49)]
        {
            let places = u16::from(credit_slots);
            // Equation 5, whose right side is the third column of the table.
            assert_eq!(MESSAGE_SLOTS * (places + 1) / places + places, mailbox_slots);
            assert_eq!(data_slots + places, mailbox_slots);
            // Equations 3 and 4: just enough, and one slot less is too little.
            assert_eq!(steady_credits(data_slots, credit_slots), MESSAGE_SLOTS);
            assert_eq!(steady_credits(data_slots - 1, credit_slots), MESSAGE_SLOTS - 1);
        }
        // With one place: "unknown, far more than 64".
        assert_eq!(MESSAGE_SLOTS * 2 + 1, 75);
        assert!(steady_credits(64, 1) < MESSAGE_SLOTS);
        assert_eq!(steady_credits(74, 1), MESSAGE_SLOTS);
    }

    #[test]
    fn equation_6() {
        // Much alike: one credit for each threshold.
        assert_eq!(stolen_credits(2, 55, 55, 2), 3);
        assert_eq!(stolen_credits(2, 58, 52, 2), 3);
        assert_eq!(stolen_credits(5, 55, 55, 2), 6);
        // Far apart: half the difference, whoever has more.
        assert_eq!(stolen_credits(2, 70, 50, 2), 10);
        assert_eq!(stolen_credits(2, 71, 50, 2), 10);
        assert_eq!(stolen_credits(2, 50, 70, 2), 10);
        // The static slots cannot be stolen.
        assert_eq!(stolen_credits(2, 1000, 6, 2), 4);
        assert_eq!(stolen_credits(2, 4, 4, 2), 2);
        assert_eq!(stolen_credits(2, 4, 2, 2), 0);
        assert_eq!(stolen_credits(2, 4, 1, 2), 0);
    }
}
