//! Packets about messages that wait for credits: handed to the layer above where
//! there is one that knows them, refused where there is none.

use crate::pair::net::{Mode, NetPort, roomy};
use sluice_portals::{Limits, Ni, Taken};
use sluice_wire::{Credits, Decline, Packet, PacketSeq, PeerId, Waiting, Watch};

#[test]
fn the_layer_above_gets_them_accounted_for() {
    let packets = [
        Packet::Watch(Watch { after: 5 }),
        Packet::Waiting(Waiting { watched: false, number: 5, found: None }),
        Packet::Decline(Decline { number: 5 }),
    ];
    for credits_until_matched in [false, true] {
        for packet in packets {
            let limits = Limits { credits_until_matched, ..Limits::default() };
            let mut port = NetPort::network(vec![roomy(); 2], Mode::default(), 1).remove(0);
            let mut ni = Ni::new(limits, roomy());
            let head = packet.emit(PacketSeq(0), Credits::default(), 0);
            let parsed = Packet::parse(head.bytes()).unwrap();
            let taken = ni.on_packet(&mut port, PeerId(1), &parsed);
            if credits_until_matched {
                assert_eq!(taken, Taken::Above { brought_credits: false });
                // Read, so its credit is owed again.
                let ledger = ni.links().ledger(PeerId(1)).unwrap();
                assert_eq!((ledger.control_held, ledger.control_owed), (0, 1));
            } else {
                assert_eq!(taken, Taken::Violation);
                assert_eq!(ni.status().protocol_violations, 1);
            }
            ni.check_invariants();
        }
    }
}
