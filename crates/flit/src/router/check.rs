//! What the conservation checks read of a router.

use super::{Router, State};
use crate::packet::Flit;
use crate::wheel::bits;

impl<const P: usize, const V: usize> Router<P, V> {
    pub fn queued_flits(&self, port: usize) -> impl Iterator<Item = Flit> + '_ {
        self.queues[port].iter()
    }

    pub fn credits(&self, port: usize, vc: usize) -> u32 {
        u32::from(self.outputs[port][vc].credits)
    }

    /// A packet that waits: port, channel, port it wants.
    pub fn standing(&self) -> Option<(u8, u8, u8)> {
        let channels = (0..P).flat_map(|port| (0..V).map(move |vc| (port, vc)));
        let standing =
            channels.into_iter().find(|&(port, vc)| self.inputs[port][vc].state != State::Idle);
        standing.map(|(port, vc)| (port as u8, vc as u8, self.inputs[port][vc].port))
    }

    /// Checks that every set agrees with the state.
    pub fn check_sets(&self) {
        for port in 0..P {
            assert_eq!(self.ready_ports >> port & 1 != 0, self.ready[port] != 0);
            assert_eq!(self.queued >> port & 1 != 0, !self.queues[port].is_empty());
            for vc in 0..V {
                let input = &self.inputs[port][vc];
                let output = usize::from(input.port);
                let can_pass = matches!(input.state, State::Fresh | State::Running)
                    && input.flits > 0
                    && self.outputs[output][usize::from(input.vcs)].credits > 0;
                assert_eq!(
                    self.ready[port] >> vc & 1 != 0,
                    can_pass,
                    "router {}, {port}, {vc}",
                    self.id
                );
                let waits = input.state == State::Waiting;
                assert_eq!(self.waiting[port] >> vc & 1 != 0, waits);
                if waits {
                    assert!(self.waiters[output] >> port & 1 != 0);
                    // Whoever could have a channel now is looked at again.
                    assert!(self.free[output] & input.vcs == 0 || self.dirty >> output & 1 != 0);
                }
            }
            for waiter in bits(self.waiters[port]) {
                let waits = |vc: usize| usize::from(self.inputs[waiter][vc].port) == port;
                assert!(bits(u64::from(self.waiting[waiter])).any(waits));
            }
        }
    }
}
