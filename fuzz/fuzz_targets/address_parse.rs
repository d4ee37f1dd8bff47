//! Arbitrary bytes are refused with an error, or are the address that was read from
//! them, byte for byte. Addresses come from peers through the job's launcher.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_rail::Address;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(address) = Address::from_bytes(bytes) {
        assert_eq!(address.to_bytes(), bytes);
    }
});
