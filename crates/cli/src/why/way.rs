//! Where the bytes of a message travel, and why there.

use serde_json::{Value, json};
use sluice_proto::selection::Protocol;
use sluice_rail::shm::PayloadPlace;
use sluice_text::bytes;

/// Where bytes travel.
pub(super) struct Way {
    /// As scripts read it.
    name: &'static str,
    pub(super) said: String,
}

impl Way {
    /// That of a message of `len` bytes by a protocol, over a network or in shared memory.
    pub(super) fn of(protocol: Protocol, len: u64, by_network: bool) -> Way {
        let (name, said) = match (protocol, by_network) {
            (Protocol::Eager, true) => ("packet", "in its packet, on a connection".to_owned()),
            (Protocol::Eager, false) => in_shared_memory(len),
            (Protocol::Speculative, _) => (
                "shared copy",
                "the receive was announced: the sender copies into its buffer when it sends, and \
                 the receiver takes part, chunk by chunk"
                    .to_owned(),
            ),
            (Protocol::Cooperative, _) => (
                "shared copy",
                "announced: both sides copy from memory to memory, chunk by chunk, each while it \
                 is in the library; where both are, and the receiver has found that faster, the \
                 sender hands its chunks over in buffers of its own"
                    .to_owned(),
            ),
            (Protocol::Get, _) => (
                "pulled",
                "announced, and pulled: the receiver reads it from the sender's memory".to_owned(),
            ),
            (Protocol::Put, _) => (
                "written",
                "announced: the sender writes it into the receiver's memory, where that says"
                    .to_owned(),
            ),
            (Protocol::Pull, _) => (
                "pulled in packets",
                "announced, and pulled in packets: the receiver asks for one chunk after another"
                    .to_owned(),
            ),
        };
        Way { name, said }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "name": self.name, "detail": self.said })
    }
}

fn in_shared_memory(len: u64) -> (&'static str, String) {
    let least = bytes(PayloadPlace::buffer_bytes_min());
    match PayloadPlace::of(len) {
        PayloadPlace::Slot => ("slot", "in the slot of its header, where there is room".to_owned()),
        PayloadPlace::Slots => (
            "slots",
            format!(
                "in slots of the receiver's mailbox, behind that of its header: it is shorter than \
                 {least}, so a place apart would gain nothing"
            ),
        ),
        PayloadPlace::Buffer => (
            "bounce memory",
            format!(
                "in bounce memory, a buffer of the sender's that its slot names: it has {least} or \
                 more; in slots of the mailbox if no buffer is free, or if the receiver's core is \
                 so far that stores past the caches are faster"
            ),
        ),
        PayloadPlace::Portions => (
            "portions",
            format!(
                "in bounce memory, a buffer of the sender's that its slot names, in portions of \
                 {}: the receiver copies one while the sender stores the next; in slots of the \
                 mailbox if no buffer is free{}",
                bytes(PayloadPlace::portion_bytes(len)),
                if PayloadPlace::is_compared(len) {
                    "; announced, and copied by both sides, where the receiver has found that faster"
                } else {
                    ""
                }
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_its_way() {
        let name = |protocol, len| Way::of(protocol, len, false).name;
        assert_eq!(name(Protocol::Eager, 8), "slot");
        assert_eq!(name(Protocol::Eager, 256), "slots");
        let least = PayloadPlace::buffer_bytes_min();
        assert_eq!(name(Protocol::Eager, least - 1), "slots");
        assert_eq!(name(Protocol::Eager, least), "bounce memory");
        assert_eq!(name(Protocol::Eager, 9 << 10), "portions");
        assert_eq!(name(Protocol::Cooperative, 64 << 10), "shared copy");
        assert_eq!(Way::of(Protocol::Eager, 8 << 10, true).name, "packet");
        let may_be_announced =
            |len| Way::of(Protocol::Eager, len, false).said.contains("announced");
        assert_eq!([32, 64, 256].map(|kib| may_be_announced(kib << 10)), [false, true, true]);
        let said = Way::of(Protocol::Eager, 256, false).said;
        assert!(said.contains(&bytes(least)), "{said}");
    }
}
