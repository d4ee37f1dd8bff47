//! What a peer cannot do with packets that ask for credits or give them back.

use crate::net::dynamic_layout;
use crate::traffic::Traffic;
use sluice_link::{Grant, Layout, MailboxRegion, PeerError, Violation};
use sluice_wire::{Credits, Packet, PacketSeq, PeerId, ReturnResponse};

fn mailbox(dynamic_slots: u32) -> Layout {
    let grant = Grant { data_slots: 2, control_slots: 4, credit_slots: 4 };
    dynamic_layout(4, grant, dynamic_slots, 0)
}

/// Process 1 forges what process 0 gets.
fn two(receiver: Layout, forger: Layout) -> Traffic {
    let mut traffic = Traffic::new(vec![receiver, forger], 1);
    // They know each other; the forger's packets begin behind that.
    assert!(traffic.send(0, 1, 1) && traffic.send(1, 0, 1));
    traffic.deliver_all();
    traffic
}

fn forge(traffic: &mut Traffic, seq: u32, packet: Packet) -> Result<(), Violation> {
    let head = packet.emit(PacketSeq(seq), Credits::default(), 0);
    traffic.processes[1].port.net_mut().forge(1, 0, &head, &[]);
    traffic.deliver(1, 0)
}

fn response(slots: u64) -> Packet {
    Packet::ReturnResponse(ReturnResponse { slots })
}

#[test]
fn a_mailbox_without_dynamic_region_asks_for_nothing() {
    let mut traffic = two(mailbox(20), mailbox(0));
    let refused = forge(&mut traffic, 1, Packet::ReturnRequest);
    assert_eq!(refused, Err(Violation::ReturnRequest));
}

#[test]
fn nobody_asks_twice_before_the_answer() {
    let mut traffic = two(mailbox(20), mailbox(20));
    traffic.answers_at_once = false;
    assert_eq!(forge(&mut traffic, 1, Packet::ReturnRequest), Ok(()));
    // One slot came back for the first packet in the meantime or not; it has none
    // for a third, but the number is not what is wrong first.
    traffic.free_all(0);
    let refused = forge(&mut traffic, 2, Packet::ReturnRequest);
    assert_eq!(refused, Err(Violation::ReturnRequest));
}

#[test]
fn a_request_is_answered_once_and_with_a_static_slot() {
    let mut traffic = two(mailbox(20), mailbox(20));
    assert_eq!(forge(&mut traffic, 1, Packet::ReturnRequest), Ok(()));
    let sent: Vec<Packet> =
        traffic.processes[0].port.net().flights(0, 1).map(|flight| flight.parsed.packet).collect();
    assert!(sent.contains(&response(0)), "{sent:?}");
    assert_eq!(traffic.ledger(0, 1).unwrap().data_credits, 0);
}

#[test]
fn credits_are_not_given_back_unasked() {
    for receiver in [mailbox(0), mailbox(20)] {
        for slots in [0, 1] {
            let mut traffic = two(receiver, mailbox(20));
            let refused = forge(&mut traffic, 1, response(slots));
            assert_eq!(refused, Err(Violation::UnaskedReturn));
        }
    }
}

#[test]
fn a_request_needs_a_credit_like_everything() {
    let mut traffic = two(mailbox(20), mailbox(20));
    assert!(traffic.send(1, 0, 1));
    traffic.deliver_all();
    assert_eq!(traffic.ledger(0, 1).unwrap().data_at_sender, 0);
    let refused = forge(&mut traffic, 2, Packet::ReturnRequest);
    assert_eq!(refused, Err(Violation::NoCredit { region: MailboxRegion::Data, slots: 1 }));
    traffic.processes[0].links.drop_peer(PeerId(1), PeerError::Protocol);
    assert_eq!(forge(&mut traffic, 3, response(0)), Err(Violation::Gone));
    traffic.processes[0].links.check_invariants();
}
