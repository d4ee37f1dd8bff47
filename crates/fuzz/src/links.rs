//! Calls of [`sluice_link::Links`]: three processes that send, free and return credits, some of
//! whom die; or one of whom says what it likes.

use crate::Input;
use crate::net::dynamic_layout;
use crate::traffic::Traffic;
use sluice_link::{Grant, Layout};
use sluice_wire::{Credits, Packet, PeerId, ReturnResponse};

const PROCESSES: usize = 3;
const CALLS_MAX: usize = 400;

fn mailbox(input: &mut Input<'_>) -> Layout {
    let grant = Grant {
        data_slots: 1 + input.byte() as u16 % 8,
        control_slots: 2 + input.byte() % 6,
        credit_slots: 2 + input.byte() % 6,
    };
    let dynamic_slots = input.pick(&[0, 0, 8, 30]);
    dynamic_layout(PROCESSES as u16, grant, dynamic_slots, 0)
}

/// Every credit is in one place after each call, and all of them are back in the end.
pub fn link_calls(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let is_hostile = input.flag();
    let layouts = (0..PROCESSES).map(|_| mailbox(&mut input)).collect();
    let mut traffic = Traffic::new(layouts, 1);
    traffic.answers_at_once = input.flag();
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        let call = input.byte();
        let (from, to) = (input.below(PROCESSES), input.below(PROCESSES));
        let alive = |who: usize| traffic.processes[who].alive;
        let parted = |who: usize, peer: usize| {
            traffic.processes[who].links.gone(PeerId(peer as u32)).is_some()
        };
        if from == to || !alive(from) || !alive(to) || parted(from, to) || parted(to, from) {
            continue;
        }
        match call % 8 {
            0 | 1 => {
                traffic.send(from, to, 1 + u32::from(input.byte() % 4));
            }
            2 => traffic.send_control(from, to),
            3 | 4 => arrive(&mut traffic, from, to, is_hostile),
            5 if !traffic.processes[to].held.is_empty() => {
                let which = input.below(traffic.processes[to].held.len());
                traffic.free(to, which);
            }
            5 => {}
            6 => traffic.idle(from),
            _ if is_hostile => forge(&mut traffic, &mut input),
            _ if traffic.alive().len() > 2 => traffic.kill(from),
            _ => {}
        }
        if is_hostile {
            // Only those who are honest have books.
            traffic.processes.iter().skip(1).for_each(|process| process.links.check_invariants());
        } else {
            traffic.check();
        }
    }
    if !is_hostile {
        traffic.settle();
    }
}

/// The oldest packet of a pair arrives, if there is one.
fn arrive(traffic: &mut Traffic, from: usize, to: usize, is_hostile: bool) {
    let is_there = traffic.processes[0].port.net().flights(from, to).next().is_some();
    if is_there && traffic.deliver(from, to).is_err() {
        // The liar's own links know nothing of what was said in their name.
        let is_of_liar = from == 0 || to == 0;
        assert!(is_hostile && is_of_liar, "an honest process broke the protocol");
        give_up(traffic, to, from);
    }
}

/// Process 0 says something to another one, with the number that comes next or not.
fn forge(traffic: &mut Traffic, input: &mut Input<'_>) {
    let to = 1 + input.below(PROCESSES - 1);
    let packet = match input.below(4) {
        0 => Packet::ReturnRequest,
        1 => Packet::ReturnResponse(ReturnResponse { slots: input.word() }),
        2 => Packet::Credit,
        _ => crate::traffic::put(1).0,
    };
    let credits = Credits {
        data: u16::from(input.byte()) * u16::from(input.byte()),
        control: input.byte() % 64,
    };
    let mut seq = traffic.processes[to].links.expected_seq(PeerId(0));
    seq.0 = seq.0.wrapping_add(u32::from(input.pick(&[0_u8, 0, 0, 1, 255])));
    let head = packet.emit(seq, credits, 0);
    let port = traffic.processes[to].port.clone();
    port.net_mut().lose(0, to);
    port.net_mut().forge(0, to, &head, &[]);
    arrive(traffic, 0, to, true);
}

/// What a process does about one that broke the protocol.
fn give_up(traffic: &mut Traffic, who: usize, peer: usize) {
    let process = &mut traffic.processes[who];
    process.links.drop_peer(PeerId(peer as u32), sluice_link::PeerError::Protocol);
    process.held.retain(|&(other, _)| other != peer);
    let port = process.port.clone();
    port.net_mut().lose(peer, who);
}
