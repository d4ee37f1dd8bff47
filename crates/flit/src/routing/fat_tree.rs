//! Ways through a k-ary n-tree: up to a nearest common ancestor by links drawn
//! at random, then down the one way there is.
//!
//! Ways only rise and then only fall, so no channels wait for each other in a
//! circle, and all virtual channels serve all packets.

use super::cube::{Classes, Spare};
use super::{At, Hop, Route, Senses};
use crate::ConfigError;
use crate::config;
use crate::topology::FatTree;

/// A routing made for a fat tree.
#[derive(Clone, Debug)]
pub struct Routing {
    vcs: u8,
    every_vc: u16,
    arity: u32,
    single_path: bool,
    digit_mask: u32,
    routers: Vec<Place>,
    /// The digits of each node's number to the base of the arity, each in a
    /// field of its own, so that neither hop nor test divides.
    homes: Vec<u32>,
}

/// The subtree below a router.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The digits that the numbers of its nodes begin with, and a 0.
    prefix: u32,
    /// Bits of the digits behind that 0.
    shift: u8,
}

impl Routing {
    pub(super) fn new(
        topology: FatTree,
        config: &config::Routing,
        vcs: Option<u8>,
    ) -> Result<Routing, ConfigError> {
        let config::Routing::Minimal { vcs_per_class } = *config else {
            return Err(ConfigError::new("routing.kind", "in a fat tree only minimal is possible"));
        };
        let classes = Classes::new(1, vcs_per_class, vcs, Spare::Shared)?;
        let (arity, levels) = (topology.arity(), topology.levels());
        let width = 32 - (arity - 1).leading_zeros();
        // With at most 2^24 nodes the fields take at most 30 bits: 15 digits of
        // an arity of 3, 10 of 5.
        let spread = |number: u32| {
            let mut rest = number;
            (0..levels).fold(0u32, |word, digit| {
                let low = rest % arity;
                rest /= arity;
                word | (low << (digit * width))
            })
        };
        let place = |router: u32| {
            let level = router / topology.routers_per_level();
            let position = router % topology.routers_per_level();
            let shift = (levels - 1 - level) * width;
            Place {
                prefix: (spread(position * arity) >> shift) & !((1 << width) - 1),
                shift: shift as u8,
            }
        };
        Ok(Routing {
            vcs: classes.vcs(),
            every_vc: classes.every(),
            arity,
            single_path: levels == 1,
            digit_mask: (1 << width) - 1,
            routers: (0..topology.routers()).map(place).collect(),
            homes: (0..topology.nodes()).map(spread).collect(),
        })
    }

    /// Virtual channels of every port.
    pub fn vcs(&self) -> u8 {
        self.vcs
    }

    /// Whether all packets of a flow take the same way.
    pub fn single_path(&self) -> bool {
        self.single_path
    }

    /// The virtual channels by which a packet may enter its first router: all.
    #[inline]
    pub fn entry(&self, _route: &mut Route, _senses: &mut impl Senses) -> u16 {
        self.every_vc
    }

    /// Where a packet goes from here.
    #[inline]
    pub fn hop(&self, at: At, route: &mut Route, senses: &mut impl Senses) -> Hop {
        let here = self.routers[at.router as usize];
        let down = self.homes[route.destination as usize] >> here.shift;
        let port = if down & !self.digit_mask == here.prefix {
            down & self.digit_mask
        } else {
            self.arity + senses.below(self.arity)
        };
        Hop { port: port as u8, vcs: self.every_vc }
    }
}
