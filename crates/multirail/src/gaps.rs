//! How far apart the looks of a process are: for how long what it does at one has to last.
//!
//! A process looks at a connection as often as it finds time: one that has many connections,
//! or computes, every few milliseconds. Between two looks, in a *gap*, nothing is asked for and
//! nothing is given to a socket. If less is under way than lasts for a gap, the connection is
//! idle for the rest of it, and what was measured is the pace of the looks: whoever goes by that
//! asks for less each time. So what is under way is to last for three gaps, if that is more than
//! is usual: the one that passes, one by which an estimate that is too low shows, and one for
//! gaps that are longer than the mean. Of two, the shortest chunks would not show it: where the
//! estimate is what one of them makes in a gap, two have no room.
//!
//! Of each gap only what is longer than a look takes counts: whoever gives a socket much at a
//! look looks the later at it the next time, and would give it the more. The mean is weighted
//! by time, because it is time in which a connection is idle. So a process that looks often
//! and is late now and then has short gaps, and one that looks thrice at once every few
//! milliseconds has long ones.

/// What is under way is to last for so many gaps.
const GAPS: u64 = 3;
/// Longer than a look that gives or takes much: means of 50 to 150 us were measured of a sender
/// over shaped links of one machine.
const LOOK_NS: u64 = 250_000;
/// The mean is of about so much time; a power of two.
const WINDOW_NS: u64 = 1 << 24;
/// Longer gaps are taken for as long.
const GAP_NS_MAX: u64 = 10_000_000;
/// A gap counts as twice the mean at most, or twice this: one look that was very late is not
/// a process that looks seldom.
const MEAN_NS_LEAST: u64 = 500_000;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    mean_ns: u64,
}

impl Gaps {
    /// A look comes so long after the one before. It stands for so much time as has passed since
    /// a look was noted last.
    pub fn note(&mut self, gap_ns: u64, since_ns: u64) {
        let most_ns = 2 * self.mean_ns.max(MEAN_NS_LEAST);
        let gap_ns = gap_ns.saturating_sub(LOOK_NS).min(most_ns).min(GAP_NS_MAX);
        let since_ns = since_ns.min(WINDOW_NS);
        let all = self.mean_ns * (WINDOW_NS - since_ns) + gap_ns * since_ns;
        self.mean_ns = all / WINDOW_NS;
    }

    /// For how long what is under way is to last, if it is to last so long for who looks often.
    #[must_use]
    pub fn last_ns(&self, usual_ns: u64) -> u64 {
        usual_ns.max(GAPS * self.mean_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks with such gaps in turn, for so long.
    fn looks(gaps: &mut Gaps, turn: &[u64], ns: u64) {
        let mut passed = 0;
        for &gap in turn.iter().cycle() {
            if passed >= ns {
                return;
            }
            passed += gap;
            gaps.note(gap, gap);
        }
    }

    #[test]
    fn who_looks_seldom_is_known_as_such_within_a_tenth_of_a_second_and_so_is_who_looks_often() {
        for gap in [1_000_000, 3_000_000, 10_000_000] {
            let mut gaps = Gaps::default();
            looks(&mut gaps, &[gap], 100_000_000);
            let last_ns = gaps.last_ns(250_000);
            assert!((2 * gap..=3 * gap).contains(&last_ns), "{gap}: {gaps:?}");
            looks(&mut gaps, &[2_000], 100_000_000);
            assert_eq!(gaps.last_ns(250_000), 250_000, "{gap}: {gaps:?}");
        }
    }

    #[test]
    fn looks_at_once_do_not_hide_the_gap_before() {
        let mut gaps = Gaps::default();
        looks(&mut gaps, &[5_000_000, 1_000, 1_000, 20_000], 100_000_000);
        assert!(gaps.last_ns(0) > 13_000_000, "{gaps:?}");
    }

    #[test]
    fn who_is_late_now_and_then_looks_often() {
        let mut gaps = Gaps::default();
        let mut turn = vec![2_000; 10_000];
        turn.push(1_000_000);
        looks(&mut gaps, &turn, 1_000_000_000);
        assert_eq!(gaps.last_ns(250_000), 250_000, "{gaps:?}");
        // Nor is one that was away for long, once.
        gaps.note(u64::MAX, u64::MAX);
        assert!(gaps.last_ns(0) <= 2 * GAPS * MEAN_NS_LEAST, "{gaps:?}");
    }

    /// Looks that take longer the more is given at them do not make for more.
    #[test]
    fn what_a_look_takes_is_no_gap() {
        let mut gaps = Gaps::default();
        looks(&mut gaps, &[LOOK_NS, 10_000], 100_000_000);
        assert_eq!(gaps.last_ns(250_000), 250_000);
    }

    #[test]
    fn gaps_have_an_end() {
        let mut gaps = Gaps::default();
        for _ in 0..100 {
            gaps.note(u64::MAX, u64::MAX);
        }
        assert_eq!(gaps.last_ns(0), GAPS * GAP_NS_MAX);
    }
}
