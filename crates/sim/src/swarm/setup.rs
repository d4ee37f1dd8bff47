//! What kind of world a seed makes, and what its processes are like.

use super::draw::Draw;
use super::remote::RemoteSetup;
use super::troubles::{self, Trouble};
use crate::nic::Bounds;
use crate::rails::RailsSetup;
use sluice_link::{Grant, Layout};
use sluice_proto::Config;
use sluice_wire::Nanos;

/// Of a hundred worlds, in how many interfaces match messages.
const NICS_PERCENT: u64 = 12;

/// Of a hundred of those, in how many more than otherwise a process ends.
const NIC_DEATHS_PERCENT: u64 = 20;

/// Of a hundred worlds, in how many processes have few chunk claims.
const CLAIMS_PERCENT: u64 = 15;
/// More requests than any program here has.
const REQUESTS_MANY: u32 = 1 << 20;
/// Of a hundred worlds, in how many processes have few requests.
const REQUESTS_PERCENT: u64 = 15;

/// See the module.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of each process's mailbox.
    pub layouts: Vec<Layout>,
    pub endpoint: Config,
    /// How long each process waits before it looks at what came.
    pub poll_ns: Vec<u64>,
    /// Packets that a process reads at one look.
    pub batch: u64,
    pub latency_ns: u64,
    /// Most that a packet comes later than others. Those of a pair keep their
    /// order.
    pub jitter_ns: u64,
    /// What a slot and 1,024 bytes of a bulk transfer take.
    pub slot_ns: u64,
    pub kib_ns: u64,
    /// Of a hundred pairs, how many cannot read each other's memory, and how many
    /// find that out by trying.
    pub unreadable_percent: u64,
    pub forbidden_percent: u64,
    /// Whether there are chunk claims, and the bytes of a chunk; none: who uses
    /// claims takes all.
    pub chunk_claims: Option<Option<u64>>,
    /// Of a hundred phases, how many begin with receives.
    pub awaited_percent: u64,
    /// Whether packets are taken before their memory is read.
    pub is_late: bool,
    /// Of a hundred payloads, for how many the rail asks where they should land.
    pub placing_percent: u64,
    /// Whether processes are seen to look, half of the time.
    pub is_looked: bool,
    /// Most that it takes to open a connection; zero: every one is open.
    pub connecting_ns: u64,
    /// Hosts, and the rails between them.
    pub rails: RailsSetup,
    /// What interfaces take, if they match messages. Nobody who lives is given up there.
    pub nics: Option<Bounds>,
    /// Most chunk claims of a process.
    pub claims_max: usize,
    /// What they do with remote memory.
    pub remote: Option<RemoteSetup>,
    /// What befalls processes.
    pub(super) troubles: Vec<Trouble>,
    /// Who ends, and after how many calls into the machines.
    pub death: Option<(usize, u64)>,
    pub phases: u64,
    /// Operations of a process in a phase.
    pub operations: u64,
    /// Most operations of a process at one look.
    pub burst: u64,
    pub tags: u64,
}

impl Setup {
    /// Everything that is drawn before the first step.
    pub fn draw(seed: u64) -> Setup {
        let mut draw = Draw::stream(seed, 1);
        let few = draw.percent(70);
        let count = if few { draw.between(2, 4) } else { draw.between(5, 10) };
        let alike = draw.percent(60).then(|| mailbox(&mut draw, count as u16));
        let layouts: Vec<Layout> =
            (0..count).map(|_| alike.unwrap_or_else(|| mailbox(&mut draw, count as u16))).collect();
        // Where replies have few slots, a long message is thousands of packets, and
        // the last ones say nothing that the first do not.
        let has_few = layouts.iter().any(|layout| layout.reply_slots < 12);
        let longest = if has_few { 400 } else { u32::MAX };
        let least = if has_few { 64 } else { 700 };
        let pull_bytes_max = Draw::stream(seed, 6).pick(&[least, 5_000, 1 << 20]);
        let endpoint = Config {
            eager_bytes_max: draw.pick(&[0, 64, 256, 1024, 4096, 8192]).min(longest),
            looking_bytes_max: 0,
            network_eager_bytes_max: 0,
            patience: Nanos(draw.pick(&[0, 50, 1_000, 20_000])),
            requests_max: REQUESTS_MANY,
            regions_max: 1,
            inject_bytes_max: draw.pick(&[0, 500, 5_000, 1 << 20]),
            announce_bytes_min: draw.pick(&[0, 100, 1 << 20]),
            share_bytes_min: draw.pick(&[0, 300, 1 << 20]),
            pull_bytes_max,
        };
        let eager = endpoint.eager_bytes_max;
        let network_eager_bytes_max =
            Draw::stream(seed, 30).pick(&[eager, eager, 0, 500, 8192]).min(longest);
        let looking_bytes_max = Draw::stream(seed, 72).pick(&[0, 1000, 16_384]).min(longest);
        let endpoint = Config { network_eager_bytes_max, looking_bytes_max, ..endpoint };
        let poll_ns = draw.pick(&[1, 20, 100]);
        let slow_percent = draw.pick(&[0, 0, 30, 60]);
        let poll_ns = (0..count)
            .map(|_| if draw.percent(slow_percent) { poll_ns * 200 } else { poll_ns })
            .collect();
        let budget = draw.between(30, 240);
        let phases = draw.between(1, 3);
        let is_late = draw.percent(10);
        let ends = draw.percent(12);
        let death = ends.then(|| (draw.below(count) as usize, draw.below(2_000)));
        let mut setup = Setup {
            chunk_claims: None,
            awaited_percent: 0,
            is_late,
            placing_percent: Draw::stream(seed, 13).pick(&[0, 50, 100]),
            is_looked: Draw::stream(seed, 71).percent(50),
            connecting_ns: Draw::stream(seed, 11).pick(&[0, 0, 300, 20_000, 500_000]),
            rails: RailsSetup::draw(seed, layouts.len()),
            nics: None,
            claims_max: usize::MAX,
            remote: None,
            troubles: Vec::new(),
            death,
            layouts,
            endpoint,
            poll_ns,
            batch: draw.pick(&[1, 2, 8, 64]),
            latency_ns: draw.pick(&[0, 100, 1_000, 30_000]),
            jitter_ns: draw.pick(&[0, 50, 1_000, 50_000]),
            slot_ns: draw.pick(&[0, 10, 64]),
            kib_ns: draw.pick(&[0, 100, 900]),
            unreadable_percent: draw.pick(&[0, 50, 100, 100]),
            forbidden_percent: draw.pick(&[0, 0, 30]),
            phases,
            operations: (budget / (phases * count)).max(4),
            burst: draw.pick(&[1, 3, 20]),
            tags: draw.pick(&[1, 3, 8]),
        };
        let mut draw = Draw::stream(seed, 6);
        let chunk_bytes = draw.pick(&[None, Some(48), Some(200), Some(3_000)]);
        // The longest message is some tens of chunks: more of them say nothing new.
        let longest = u64::from(endpoint.eager_bytes_max).max(2 * setup.chunk_bytes());
        let chunk_bytes = chunk_bytes.map(|bytes: u64| bytes.max(longest / 32));
        if draw.percent(70) {
            setup.chunk_claims = Some(chunk_bytes);
            // Who cannot read announces nothing.
            setup.unreadable_percent = draw.pick(&[0, 0, 50]);
            setup.endpoint.announce_bytes_min = draw.pick(&[0, 0, 100]);
            setup.awaited_percent = Draw::stream(seed, 8).pick(&[40, 100, 100]);
        }
        if Draw::stream(seed, 43).percent(CLAIMS_PERCENT) {
            setup.claims_max = Draw::stream(seed, 46).pick(&[0, 1, 2, 4]);
        }
        if Draw::stream(seed, 42).percent(REQUESTS_PERCENT) {
            setup.endpoint.requests_max = Draw::stream(seed, 44).pick(&[3, 5, 10]);
        }
        setup.remote = RemoteSetup::draw(seed, &setup.layouts);
        if let Some(remote) = setup.remote {
            setup.endpoint.regions_max = remote.regions_max;
        }
        setup.troubles = troubles::draw(seed, setup.layouts.len(), setup.rails.timing.gone_ns);
        let mut draw = Draw::stream(seed, 10);
        if draw.percent(20) {
            setup.endpoint.inject_bytes_max = draw.pick(&[0, 150, 400, 1_000]);
        }
        if Draw::stream(seed, 26).percent(NICS_PERCENT) {
            let mut draw = Draw::stream(seed, 31);
            setup.nics = Some(Bounds {
                bytes_max: draw.pick(&[0, 64, 500, 4096, 1 << 20]),
                sends_max: draw.pick(&[1, 2, 5, 40, 256]),
                receives_max: Draw::stream(seed, 45).pick(&[1, 2, 4, 10, 1_000]),
            });
            setup.rails.drop_lasting_partitions();
            let mut draw = Draw::stream(seed, 47);
            if setup.death.is_none() && draw.percent(NIC_DEATHS_PERCENT) {
                setup.death = Some((draw.below(count) as usize, draw.below(400)));
            }
        }
        setup
    }

    /// How many faults may happen: those of rails, what befalls processes, the end of one.
    pub fn faults(&self) -> usize {
        self.rails.faults.len() + self.troubles.len() + usize::from(self.death.is_some())
    }

    /// Leaves only these of them, by number.
    pub fn keep_faults(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut number = 0..;
        let mut is_left = || is_kept(number.next().expect("there are few"));
        self.rails.faults.retain(|_| is_left());
        self.troubles.retain(|_| is_left());
        self.death = self.death.filter(|_| is_left());
    }

    /// Leaves only the first so many processes.
    pub fn keep_processes(&mut self, count: usize) {
        self.layouts.truncate(count);
        self.poll_ns.truncate(count);
        self.rails.host.truncate(count);
        self.troubles.retain(|trouble| trouble.who < count);
        self.death = self.death.filter(|(who, _)| *who < count);
    }

    /// Nothing comes late, and no phase begins with receives.
    pub fn calm(&mut self) {
        (self.jitter_ns, self.connecting_ns) = (0, 0);
        (self.is_late, self.placing_percent, self.awaited_percent) = (false, 0, 0);
        self.rails.stale_key_percent = 0;
    }

    /// Whether some attempts to move published memory come at a wrong moment.
    pub fn misses_published(&self) -> bool {
        self.remote.is_some_and(|remote| remote.misses_published)
    }

    /// Whether processes may run out of requests.
    pub fn has_few_requests(&self) -> bool {
        self.endpoint.requests_max < REQUESTS_MANY
    }

    /// Bytes of a reply that the least mailbox takes at once, more or less: the
    /// lengths around it and its double are where chunks end.
    pub fn chunk_bytes(&self) -> u64 {
        let least = self.layouts.iter().map(|layout| layout.reply_slots).min().unwrap_or(1);
        32 + u64::from((least / 2).max(1) - 1) * 60
    }
}

/// A mailbox for `senders`, mostly a small one.
fn mailbox(draw: &mut Draw, senders: u16) -> Layout {
    let style = draw.below(20);
    let credit_slots = draw.between(2, 8) as u8;
    let control_slots = draw.pick(&[1, 1, 2, 3, 4, 32]);
    let reply_slots = draw.pick(&[1, 2, 5, 12, 20, 400]);
    let (data_slots, dynamic_slots) = match style {
        0..6 => (draw.pick(&[1, 2, 3, 5]), 0),
        6..9 => (draw.between(1, 40) as u16, 0),
        9 => (300, 0),
        10..18 => {
            (draw.pick(&[1, 2, 3, 4, 6]), draw.pick(&[1, 2, 5, 20, 100]) * u32::from(senders) / 2)
        }
        _ => {
            let most = 1 << 14;
            let divide = if style == 18 { Layout::divide } else { Layout::divide_dynamic };
            return divide(senders, most).expect("ten senders fit");
        }
    };
    let grant = Grant { data_slots, control_slots, credit_slots };
    let sum = u32::from(senders) * grant.total() + dynamic_slots + u32::from(reply_slots);
    let layout = Layout {
        grant,
        dynamic_slots: if style < 10 { 0 } else { dynamic_slots.max(1) },
        senders_max: senders,
        reply_slots,
        ring_slots: (sum + 1).next_power_of_two(),
    };
    layout.check().expect("a mailbox that can be");
    layout
}
