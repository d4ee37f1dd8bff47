//! The division of a mailbox, and the region that each packet is counted in.

use proptest::prelude::*;
use sluice_link::{Grant, HANDOVER_SLOTS, Layout, LayoutError, MailboxRegion};
use sluice_wire::{
    Ack, Get, GetDone, List, MatchBits, Packet, PtIndex, Put, RemoteKey, Reply, Rts, Status,
};

#[test]
fn two_senders_get_the_most_that_is_of_use() {
    let layout = Layout::divide(2, 1 << 14).unwrap();
    let grant = Grant { data_slots: 1024, control_slots: 32, credit_slots: 8 };
    let expected =
        Layout { grant, dynamic_slots: 0, senders_max: 2, reply_slots: 2048, ring_slots: 8192 };
    assert_eq!(layout, expected);
    assert_eq!(grant.total(), 1066);
}

#[test]
fn what_does_not_fit_says_what_would() {
    let error = Layout::divide(100, 1 << 12).unwrap_err();
    let need = LayoutError::TooManySenders { senders_max: 100, need_slots: 32768, slots_max: 4096 };
    assert_eq!(error, need);
    assert!(Layout::divide(100, 32768).is_ok());
}

#[test]
fn a_layout_that_nobody_makes_is_refused() {
    let sound = Layout::divide(4, 1 << 13).unwrap();
    assert_eq!(sound.check(), Ok(()));
    let grant = sound.grant;
    let wrong = [
        Layout { ring_slots: sound.ring_slots + 1, ..sound },
        Layout { ring_slots: sound.ring_slots / 4, ..sound },
        Layout { ring_slots: 0, ..sound },
        Layout { senders_max: 0, ..sound },
        Layout { senders_max: u16::MAX, ..sound },
        Layout { grant: Grant { data_slots: 0, ..grant }, ..sound },
        Layout { grant: Grant { control_slots: 0, ..grant }, ..sound },
        Layout { grant: Grant { credit_slots: 1, ..grant }, ..sound },
    ];
    for layout in wrong {
        assert_eq!(layout.check(), Err(LayoutError::Foreign), "{layout:?}");
    }
}

#[test]
fn a_dynamic_region_fills_the_ring() {
    let layout = Layout::divide_dynamic(64, 1 << 16).unwrap();
    // A quarter of the equal share of what is left is each sender's own.
    let grant = Grant { data_slots: 237, control_slots: 32, credit_slots: 4 };
    let fixed = 64 * (237 + 36 + HANDOVER_SLOTS) + 2048;
    let dynamic_slots = (1 << 16) - fixed;
    let expected =
        Layout { grant, dynamic_slots, senders_max: 64, reply_slots: 2048, ring_slots: 1 << 16 };
    assert_eq!(layout, expected);
    // Equation 2: as many data slots as places for the credit packets of their region.
    assert!(u32::from(grant.data_slots) >= u32::from(grant.credit_slots / 2));
    // No more than is of use.
    assert_eq!(Layout::divide_dynamic(2, 1 << 20).unwrap().ring_slots, 1 << 13);
    // The dynamic region is part of the ring, and checked as such.
    for more in [1, u32::MAX] {
        let too_large =
            Layout { dynamic_slots: layout.dynamic_slots.saturating_add(more), ..layout };
        assert_eq!(too_large.check(), Err(LayoutError::Foreign));
    }
}

#[test]
fn every_kind_of_packet_has_its_region() {
    let (pt_index, match_bits, status) = (PtIndex(0), MatchBits(1), Status::Ok);
    let rts = Rts { total_len: 1, from: RemoteKey::NONE, key: match_bits, claims: None };
    let put = Put {
        pt_index,
        match_bits,
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts: None,
        bulk: None,
        by_control: false,
    };
    let get =
        Get { pt_index, match_bits, op: 0, remote_offset: 0, length: 1, into: RemoteKey::NONE };
    let done = GetDone { pt_index, match_bits, length: 0, status };
    let list = List::Priority;
    let regions = [
        (Packet::Put(put), MailboxRegion::Data),
        (Packet::Put(Put { rts: Some(rts), ..put }), MailboxRegion::Data),
        (Packet::Put(Put { by_control: true, ..put }), MailboxRegion::Control),
        (Packet::Ack(Ack { op: 0, mlength: 0, offset: 0, list, status }), MailboxRegion::Control),
        (Packet::Get(get), MailboxRegion::Control),
        (Packet::GetDone(done), MailboxRegion::Control),
        (Packet::Reply(Reply { op: 0, offset: 0, list, status }), MailboxRegion::Reply),
        (Packet::Credit, MailboxRegion::Credit),
    ];
    for (packet, region) in regions {
        assert_eq!(MailboxRegion::of(&packet), region);
        // One credit, one slot: a control packet is counted as one.
        if region != MailboxRegion::Data && region != MailboxRegion::Reply {
            assert_eq!(sluice_wire::slots_for(packet.header_bytes().into(), 0), 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_division_fits_and_holds_an_eager_message(
        senders in any::<u16>(),
        slots_max in any::<u32>(),
    ) {
        match Layout::divide(senders, slots_max) {
            Ok(layout) => {
                prop_assert_eq!(layout.check(), Ok(()));
                prop_assert!(layout.ring_slots <= slots_max);
                prop_assert_eq!(layout.senders_max, senders.max(1));
                let eager = sluice_wire::slots_for(64, 8192);
                prop_assert!(u32::from(layout.grant.data_slots) >= eager);
            }
            Err(LayoutError::TooManySenders { need_slots, .. }) => {
                prop_assert!(need_slots > slots_max.checked_next_power_of_two().unwrap_or(0) / 2);
                prop_assert!(Layout::divide(senders, need_slots).is_ok());
            }
            Err(_) => prop_assert!(false, "what it makes is sound"),
        }
    }

    #[test]
    fn a_dynamic_division_fits_where_the_static_one_does(
        senders in any::<u16>(),
        slots_max in any::<u32>(),
    ) {
        match Layout::divide_dynamic(senders, slots_max) {
            Ok(layout) => {
                prop_assert_eq!(layout.check(), Ok(()));
                prop_assert!(layout.ring_slots <= slots_max);
                let eager = sluice_wire::slots_for(64, 8192);
                prop_assert!(layout.dynamic_slots >= eager);
            }
            Err(LayoutError::TooManySenders { need_slots, .. }) => {
                prop_assert!(Layout::divide(senders, slots_max).is_err());
                prop_assert!(Layout::divide_dynamic(senders, need_slots).is_ok());
            }
            Err(_) => prop_assert!(false, "what it makes is sound"),
        }
    }

    #[test]
    fn a_division_within_a_bound_keeps_to_it(
        senders in 1u16..3000,
        data_slots_max in 0u32..100_000,
        is_dynamic in any::<bool>(),
    ) {
        let divide = if is_dynamic { Layout::divide_dynamic } else { Layout::divide };
        let whole = divide(senders, 1 << 22).unwrap();
        match whole.within(data_slots_max) {
            Ok(layout) => {
                prop_assert_eq!(layout.check(), Ok(()));
                prop_assert!(layout.data_slots_total() <= data_slots_max);
                prop_assert!(layout.ring_slots <= whole.ring_slots);
                prop_assert_eq!(layout.dynamic_slots > 0, is_dynamic);
                // Nothing is given away but what division by the senders leaves.
                let most = whole.data_slots_total().min(data_slots_max);
                prop_assert!(layout.data_slots_total() > most - u32::from(senders));
            }
            Err(LayoutError::DataSlots { need_slots, .. }) => {
                prop_assert!(data_slots_max < need_slots);
                prop_assert!(whole.within(need_slots).is_ok());
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn more_room_or_fewer_senders_never_give_less(
        senders in 1u16..2000,
        slots_max in 1024u32..(1 << 20),
    ) {
        let data = |senders, slots_max| {
            Layout::divide(senders, slots_max).map_or(0, |layout| layout.grant.data_slots)
        };
        let here = data(senders, slots_max);
        prop_assert!(data(senders, slots_max.saturating_mul(2)) >= here);
        prop_assert!(data(senders - 1, slots_max) >= here);
    }
}
