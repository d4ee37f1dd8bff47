//! When a node has its next message to send.
//!
//! Open-loop messages are a Bernoulli process: in each cycle, one is made with a
//! fixed probability. The process is drawn as gaps, and a gap only when the message
//! before it has gone. So the queue of a source that cannot send fast enough has no
//! bound and takes no memory.

use crate::Rng;

/// Never.
pub(crate) const NEVER: u32 = u32::MAX;

/// Gaps of a Bernoulli process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gaps {
    /// 1 / ln(1 - rate); 0 for a message every cycle.
    scale: f64,
    silent: bool,
}

impl Gaps {
    pub fn new(rate: f64) -> Gaps {
        let silent = rate <= 0.0;
        let scale = if rate >= 1.0 || silent { 0.0 } else { 1.0 / (-rate).ln_1p() };
        Gaps { scale, silent }
    }

    /// The cycle of the first message at or after `from`.
    pub fn first(self, from: u32, rng: &mut Rng) -> u32 {
        if self.silent {
            return NEVER;
        }
        // 1 - unit() is in (0, 1], so the logarithm is finite.
        let gap = ((1.0 - rng.unit()).ln() * self.scale).floor();
        if gap >= f64::from(NEVER - from) { NEVER } else { from + gap as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn the_rate_is_the_rate() {
        for rate in [0.001, 0.1, 0.5, 0.9, 1.0] {
            let (gaps, mut rng) = (Gaps::new(rate), Rng::new(1, Stream::Source, 0));
            let mut at = 0;
            for _ in 0..100_000 {
                at = gaps.first(at, &mut rng) + 1;
            }
            let seen = 100_000.0 / f64::from(at);
            assert!((seen / rate - 1.0).abs() < 0.02, "{rate}: {seen}");
        }
        assert_eq!(Gaps::new(0.0).first(7, &mut Rng::new(1, Stream::Source, 0)), NEVER);
    }
}
