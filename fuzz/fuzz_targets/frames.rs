//! Arbitrary bytes, as what comes on a connection: each frame is refused with an error, or is
//! what its header and body write; nothing panics. The first byte says whether the check of
//! each header is put right first, so that what is behind it is reached.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::frame::{
    Ask, CloseReason, FRAME_HEAD_BYTES, Found, FrameHead, FrameKind, RemoteWrite, WriteDone,
};

fuzz_target!(|input: &[u8]| {
    let Some((is_mended, mut rest)) = input.split_first() else { return };
    while let Some((head, behind)) = rest.split_first_chunk::<FRAME_HEAD_BYTES>() {
        let mut head = *head;
        if is_mended & 1 == 1 {
            let check = crc32c::crc32c(&head[4..]).to_le_bytes();
            head[..4].copy_from_slice(&check);
        }
        let Ok(parsed) = FrameHead::parse(&head) else { return };
        assert_eq!(parsed.emit(), head);
        let Some((body, behind)) = behind.split_at_checked(parsed.len as usize) else { return };
        read_body(&parsed, body);
        rest = behind;
    }
});

/// A body is refused, or is what its parts write.
fn read_body(head: &FrameHead, body: &[u8]) {
    match head.kind {
        FrameKind::Ask | FrameKind::Seek => {
            if let Ok(ask) = Ask::parse(body) {
                assert!(ask.len > 0 && ask.emit()[..] == *body);
            }
        }
        FrameKind::Found => {
            let found = Found::parse(body).expect("it has the right length");
            assert_eq!(found.emit()[..], *body);
        }
        FrameKind::Write => {
            let write = RemoteWrite::parse(body).expect("it has the right length");
            assert_eq!(write.emit()[..], *body);
        }
        FrameKind::Written => {
            if let Ok(done) = WriteDone::parse(body) {
                assert_eq!(done.emit()[..], *body);
            }
        }
        FrameKind::Close => {
            if let Ok(reason) = CloseReason::from_id(head.id) {
                assert_eq!(reason.id(), head.id);
            }
        }
        FrameKind::Packet
        | FrameKind::Data
        | FrameKind::Fault
        | FrameKind::Probe
        | FrameKind::Answer => {}
    }
}
