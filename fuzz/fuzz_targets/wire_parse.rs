//! Arbitrary bytes are refused with an error, or are the header that the
//! packet read from them writes: `parse` and `emit` are exact inverses, and
//! nothing panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::{Packet, SLOT_PREFIX_BYTES, slots_for};

fuzz_target!(|bytes: &[u8]| {
    let Ok(parsed) = Packet::parse(bytes) else {
        return;
    };
    let again = parsed.packet.emit(parsed.seq, parsed.credits, parsed.payload_len);
    let header = &bytes[..parsed.payload_offset as usize];
    assert_eq!(again.len(), header.len());
    assert_eq!(parsed.packet.header_bytes(), parsed.payload_offset);
    // The prefix is the rail's: it is written as zero and not read.
    assert_eq!(again.bytes()[..SLOT_PREFIX_BYTES], [0; SLOT_PREFIX_BYTES]);
    assert_eq!(again.bytes()[SLOT_PREFIX_BYTES..], header[SLOT_PREFIX_BYTES..]);
    assert!(slots_for(parsed.total_bytes()) >= 1);
});
