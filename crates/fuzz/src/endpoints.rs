//! Calls of [`sluice_proto::Endpoint`]: three processes exchange messages in every way that
//! there is, some die; or the first one says what it likes.

use crate::Input;
use crate::net::{Mode, dynamic_layout};
use crate::world::{World, pattern};
use sluice_link::{Grant, Layout};
use sluice_proto::{Config, Delivery, Probe, ProbeAction, Recv, Send, Space};
use sluice_wire::{Credits, Nanos, Packet, PeerId, Region};

const PROCESSES: usize = 3;
const CALLS_MAX: usize = 200;
const LIAR: usize = 0;
const BYTES: u64 = 2000;

fn mailbox(input: &mut Input<'_>) -> Layout {
    let grant =
        Grant { data_slots: 2 + u16::from(input.byte() % 30), control_slots: 32, credit_slots: 4 };
    let dynamic_slots = input.pick(&[0, 0, 16]);
    dynamic_layout(PROCESSES as u16, grant, dynamic_slots, 64)
}

fn mode(input: &mut Input<'_>) -> Mode {
    Mode {
        pending_percent: input.pick(&[0, 0, 50]),
        can_read: input.flag(),
        chunk_claims: input.flag(),
        connecting_percent: input.pick(&[0, 0, 50]),
        placing_percent: input.pick(&[0, 50, 100]),
        is_network: input.flag(),
        ..Mode::default()
    }
}

/// The books of all are in order after each call; in the end, everything that was on its way
/// has arrived.
pub fn endpoint_calls(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let is_hostile = input.flag();
    let config = Config {
        eager_bytes_max: input.pick(&[0, 100, 500]),
        looking_bytes_max: 0,
        network_eager_bytes_max: input.pick(&[0, 100, 500]),
        announce_bytes_min: input.pick(&[0, 200, 1000]),
        share_bytes_min: input.pick(&[0, 200, 1000]),
        requests_max: input.pick(&[2, 8, 1000]),
        inject_bytes_max: input.pick(&[0, 1000, 1 << 20]),
        pull_bytes_max: input.pick(&[0, 300, 1 << 20]),
        ..Config::default()
    };
    let layouts: [Layout; PROCESSES] = std::array::from_fn(|_| mailbox(&mut input));
    let mode = mode(&mut input);
    let mut world = World::new(&layouts, mode, config, 1);
    // The books of a pair are of two who are honest.
    world.checks = !is_hostile;
    let mut run = Run {
        buffers: (0..PROCESSES).map(|who| world.alloc(who, &pattern(who as u64, BYTES))).collect(),
        contexts: 0,
        is_hostile,
    };
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        run.call(&mut world, &mut input);
        if is_hostile {
            world.processes.iter().skip(1).for_each(|honest| honest.endpoint.check_invariants());
        }
    }
    if is_hostile {
        // Those who are honest go on with each other.
        for who in 1..PROCESSES {
            world.processes[0].port.net_mut().lose(who, LIAR);
        }
    }
    world.run();
}

struct Run {
    /// Of each process.
    buffers: Vec<Region>,
    contexts: u64,
    is_hostile: bool,
}

impl Run {
    fn call(&mut self, world: &mut World, input: &mut Input<'_>) {
        let first = usize::from(self.is_hostile);
        let who = first + input.below(PROCESSES - first);
        let peer = input.below(PROCESSES);
        if world.is_dead(who) {
            return;
        }
        let space = if input.one_in(4) { Space::Untagged } else { Space::Tagged };
        let tag = if space == Space::Tagged { u64::from(input.byte() % 3) } else { 0 };
        let ignore = input.pick(&[0, 0, 1, u64::MAX]);
        let source = Some(PeerId(peer as u32)).filter(|_| !input.one_in(3));
        self.contexts += 1;
        let context = self.contexts;
        match input.byte() % 12 {
            0 | 1 => {
                let send = Send {
                    space,
                    peer: PeerId(peer as u32),
                    buf: self.part(who, input),
                    tag,
                    data: input.flag().then_some(7),
                    context,
                    report: input.flag(),
                    inject: input.one_in(4),
                    delivery: input.pick(&[
                        None,
                        None,
                        Some(Delivery::Arrived),
                        Some(Delivery::Matched),
                    ]),
                };
                let _ = world.send(who, &send);
            }
            2 | 3 => {
                let buf = self.part(who, input);
                let report = input.flag();
                let recv = Recv { space, source, buf, tag, ignore, context, report };
                let _ = world.recv(who, &recv);
            }
            4 => {
                let actions = [ProbeAction::Peek, ProbeAction::Claim, ProbeAction::Discard];
                let action = input.pick(&actions);
                let probe = Probe { space, source, tag, ignore, context, action };
                let _ = world.probe(who, &probe);
            }
            5 => {
                world.cancel(who, u64::from(input.byte()) % context);
            }
            6 => self.take_claimed(world, who, input),
            7 if self.is_hostile => lie(world, input),
            7 if input.byte() == 255 => {
                world.kill(who);
                (0..PROCESSES).filter(|&other| other != who).for_each(|other| {
                    if !world.is_dead(other) {
                        world.tell_death(other, who);
                    }
                });
            }
            8 => {
                world.now = world.now.saturating_add(Nanos(u64::from(input.byte()) * 1000));
                world.idle(who);
            }
            _ => {
                let events = world.processes[0].port.net().events();
                if !events.is_empty() {
                    let event = events[input.below(events.len())];
                    world.happen(event);
                }
            }
        }
    }

    /// A part of a process's buffer.
    fn part(&self, who: usize, input: &mut Input<'_>) -> Region {
        let whole = self.buffers[who];
        whole.truncated(u64::from(input.byte()) * 8 % (BYTES + 1))
    }

    fn take_claimed(&mut self, world: &mut World, who: usize, input: &mut Input<'_>) {
        let context = u64::from(input.byte()) % self.contexts;
        let buf = self.part(who, input);
        let now = world.now;
        let process = &mut world.processes[who];
        let (endpoint, port) = (&mut process.endpoint, &mut process.port);
        if input.flag() {
            let _ = endpoint.recv_claimed(now, port, context, buf, true);
        } else {
            let _ = endpoint.discard_claimed(now, port, context, true);
        }
        world.check();
    }
}

/// The first process says something, most often with the number that comes next.
fn lie(world: &mut World, input: &mut Input<'_>) {
    let to = 1 + input.below(PROCESSES - 1);
    let me = PeerId(LIAR as u32);
    if world.processes[to].endpoint.links().gone(me).is_some() {
        return;
    }
    let mut seq = world.processes[to].endpoint.links().expected_seq(me).0;
    seq = seq.wrapping_add(u32::from(input.pick(&[0_u8, 0, 0, 0, 1, 255])));
    let credits =
        Credits { data: u16::from(input.pick(&[0_u8, 0, 1, 8])), control: input.pick(&[0, 1]) };
    // What was read of bytes, or the last that somebody has said, to anybody.
    let packet = if input.flag() {
        let mut bytes = [0_u8; 128];
        let len = 1 + input.below(bytes.len());
        let drawn = input.take(len);
        bytes[..drawn.len()].copy_from_slice(drawn);
        match Packet::parse(&bytes) {
            Ok(parsed) => parsed.packet,
            Err(_) => return,
        }
    } else {
        let net = world.processes[0].port.net();
        let back = usize::from(input.byte());
        match net.log.iter().rev().nth(back) {
            Some((_, _, packet, _)) => *packet,
            None => return,
        }
    };
    world.forge(LIAR, to, &packet, seq, credits);
}
