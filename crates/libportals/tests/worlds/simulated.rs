//! Two or three machines in virtual time: whatever may happen next happens in
//! an order that a seed decides.

use crate::conformance::World;
use crate::pair::net::random::Random;
use crate::pair::net::{Mode, NetPort, roomy};
use crate::pair::{Pair, Side};
use sluice_portals::{Limits, MdOptions, Ni};
use sluice_wire::{PeerId, Region};

pub struct Simulated {
    pair: Pair,
    random: Random,
}

impl World for Simulated {
    type Port = NetPort;
    type Setting = (Mode, u64);

    fn settings() -> Vec<(Mode, u64)> {
        let mode = Mode::default();
        let modes = [
            mode,
            Mode { can_read: false, ..mode },
            Mode { pending_percent: 50, ..mode },
            Mode { forbidden_percent: 30, ..mode },
            Mode { can_read: false, pending_percent: 50, ..mode },
        ];
        modes.iter().flat_map(|&mode| (0..3).map(move |seed| (mode, seed))).collect()
    }

    fn copies_at_once((mode, _): (Mode, u64)) -> bool {
        mode.pending_percent == 0
    }

    fn open((mode, seed): (Mode, u64), interfaces: usize, limits: Limits) -> Simulated {
        let layouts = vec![roomy(); interfaces];
        let pair = Pair::with_limits(&layouts, mode, MdOptions::default(), limits);
        Simulated { pair, random: Random::new(seed) }
    }

    fn side(&mut self, who: usize) -> (&mut Ni, &mut NetPort) {
        let Side { ni, port, .. } = &mut self.pair.sides[who];
        (ni, port)
    }

    fn interface(&self, who: usize) -> &Ni {
        &self.pair.sides[who].ni
    }

    fn peer(&self, _: usize, of: usize) -> PeerId {
        PeerId(of as u32)
    }

    fn alloc(&mut self, who: usize, bytes: &[u8]) -> Region {
        self.pair.alloc(who, bytes)
    }

    fn bytes(&self, who: usize, region: Region) -> Vec<u8> {
        self.pair.bytes(who, region)
    }

    fn write(&mut self, who: usize, region: Region, bytes: &[u8]) {
        use sluice_link::LocalMemory;
        assert_eq!(region.len, bytes.len() as u64);
        self.pair.sides[who].port.store(region.addr, bytes);
    }

    fn page(&self) -> u64 {
        4096
    }

    fn unmap(&mut self, who: usize, pages: Region) {
        self.pair.sides[who].port.unmap(pages);
    }

    fn lent(&self, who: usize) -> u64 {
        let (handling, other) = self.pair.sides[who].port.net().lent(who);
        handling + other
    }

    fn step(&mut self) {
        let events = self.pair.sides[0].port.net().events();
        if !events.is_empty() {
            self.pair.happen(*self.random.pick(&events));
        }
    }

    fn settle(&mut self) {
        loop {
            while !self.pair.sides[0].port.net().events().is_empty() {
                self.step();
            }
            // Idle moments.
            self.pair.settle();
            if self.pair.sides[0].port.net().events().is_empty() {
                return;
            }
        }
    }

    fn end(&mut self, who: usize) {
        self.pair.kill(who);
    }
}

crate::conformance::tests_over!(Simulated);
