//! A plain put has one more way to be read and written; both ways say the same.

mod common;

use proptest::prelude::*;
use sluice_wire::{Credits, MatchBits, Packet, PacketSeq, Plain, PlainParsed, PtIndex, SLOT_WORDS};

fn plain() -> impl Strategy<Value = Plain> {
    (any::<u8>(), any::<u64>(), any::<u64>(), any::<u8>()).prop_map(
        |(pt_index, match_bits, hdr_data, user)| Plain {
            pt_index: PtIndex(pt_index),
            match_bits: MatchBits(match_bits),
            hdr_data,
            user,
        },
    )
}

/// Bytes of a slot that are a plain put, or differ from one in a few places of its head.
fn nearly_plain() -> impl Strategy<Value = [u64; SLOT_WORDS]> {
    let change = (common::VERSION_AT..common::DATATYPE_AT + 1, any::<u8>());
    let changes = proptest::collection::vec(change, 0..3);
    (plain(), any::<[u64; SLOT_WORDS]>(), changes).prop_map(|(plain, mut words, changes)| {
        let head = plain.emit(PacketSeq(7), Credits { data: 3, control: 2 }, 9);
        let header = head.len() / size_of::<u64>();
        words[..header].copy_from_slice(&head.words()[..header]);
        for (at, to) in changes {
            let (word, shift) = (at / 8, at % 8 * 8);
            words[word] = words[word] & !(0xff << shift) | u64::from(to) << shift;
        }
        words
    })
}

fn bytes_of(words: &[u64; SLOT_WORDS]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn it_is_written_as_any_put(
        plain in plain(),
        seq in any::<u32>(),
        data in any::<u16>(),
        control in any::<u8>(),
        len in any::<u32>(),
    ) {
        let (seq, credits) = (PacketSeq(seq), Credits { data, control });
        let head = plain.emit(seq, credits, len);
        let like_any = Packet::Put(plain.put()).emit(seq, credits, len);
        prop_assert_eq!(head.bytes(), like_any.bytes());
        prop_assert_eq!(head.slot(), like_any.slot());
        prop_assert_eq!(head.len(), Plain::HEADER_BYTES as usize);
        let parsed = PlainParsed { seq, credits, plain, payload_len: len };
        prop_assert_eq!(PlainParsed::read(&head.words().map(u64::from_le)), Some(parsed));
        prop_assert_eq!(PlainParsed::of(&parsed.parsed()), Some(parsed));
        prop_assert_eq!(parsed.slots(), parsed.parsed().slots());
    }

    #[test]
    fn it_is_read_as_any_put(words in nearly_plain()) {
        let like_any = Packet::parse(&bytes_of(&words)).ok();
        let plain = like_any.as_ref().and_then(PlainParsed::of);
        prop_assert_eq!(PlainParsed::read(&words.map(u64::to_le)), plain);
        if let (Some(plain), Some(like_any)) = (plain, like_any) {
            prop_assert_eq!(plain.parsed(), like_any);
        }
    }
}
