//! A snapshot as OpenMetrics text.

use super::Snapshot;
use super::json::quoted;
use sluice_wire::Nanos;
use std::fmt::Write as _;

/// The families of metrics.
const MESSAGES: Family = Family("sluice_messages", "counter", "Messages sent, by protocol");
const BYTES: Family = Family("sluice_sent_bytes", "counter", "Bytes of messages sent");
const UNEXPECTED: Family =
    Family("sluice_unexpected_messages", "counter", "Messages that arrived before their receive");
const UNEXPECTED_NOW: Family =
    Family("sluice_unexpected_now", "gauge", "Messages that have no receive yet");
const UNEXPECTED_BYTES: Family =
    Family("sluice_unexpected_bytes", "gauge", "Memory of messages that have no receive yet");
const UNEXPECTED_PEAK: Family =
    Family("sluice_unexpected_peak_bytes", "gauge", "The most that there ever was");
const VIOLATIONS: Family =
    Family("sluice_violations", "counter", "Packets refused because they broke the protocol");
const PACKETS: Family = Family("sluice_shm_packets", "counter", "Packets over shared memory");
const BOUNCES: Family = Family(
    "sluice_shm_bounces",
    "counter",
    "Packets over shared memory whose payload went by a bounce buffer",
);
const MOVED: Family =
    Family("sluice_shm_moved_bytes", "counter", "Bytes moved from memory to memory");
const DEVICE: Family = Family("sluice_device_bytes", "counter", "Bytes sent by a network device");
const CONNECTIONS: Family =
    Family("sluice_connections", "counter", "Connections, by what became of them");
const TWICE: Family = Family("sluice_packets_twice", "counter", "Packets that came twice");
const WAITING: Family =
    Family("sluice_peer_waiting", "gauge", "Messages that wait for credits of a peer");
const WAITING_SECONDS: Family =
    Family("sluice_peer_waiting_seconds", "gauge", "How long the oldest of them has waited");
const CREDITS: Family = Family("sluice_peer_credits", "gauge", "Credits left toward a peer");
const HELD: Family = Family("sluice_peer_held", "gauge", "Slots that hold messages of a peer");
const STALLS: Family =
    Family("sluice_peer_stalls", "counter", "Messages that found no credit of a peer");
const STALLED: Family = Family(
    "sluice_peer_stalled_seconds",
    "counter",
    "For how long messages waited for its credits",
);
const UNEXPECTED_SLOTS: Family = Family(
    "sluice_peer_unexpected_slots",
    "gauge",
    "Most slots that messages of a peer have held before their receive",
);
const RESUMED: Family = Family(
    "sluice_peer_resumed",
    "counter",
    "How often packets to a peer went on, and again, over another connection",
);
const PEER_SENT: Family =
    Family("sluice_peer_sent_messages", "counter", "Messages sent to a peer, by protocol");
const PEER_RECEIVED: Family =
    Family("sluice_peer_received_messages", "counter", "Messages that came from a peer");
const PEER_BYTES: Family =
    Family("sluice_peer_bytes", "counter", "Bytes of messages exchanged with a peer");

/// Name, kind, help.
struct Family(&'static str, &'static str, &'static str);

impl Snapshot {
    /// As OpenMetrics text, its end mark included.
    #[must_use]
    pub fn to_openmetrics(&self) -> String {
        let Snapshot { told, shm, .. } = self;
        let own = format!("host={},pid=\"{}\"", quoted(&self.host), self.pid);
        let mut text = Text { own, text: String::new() };
        let by = |name: &str, value: &str| format!("{name}={}", quoted(value));
        text.family(
            &MESSAGES,
            [(by("protocol", "eager"), told.eager), (by("protocol", "announced"), told.announced)],
        );
        text.family(&BYTES, [(String::new(), self.sent_bytes)]);
        text.family(&UNEXPECTED, [(String::new(), told.unexpected)]);
        text.family(&UNEXPECTED_NOW, [(String::new(), told.unexpected_now)]);
        text.family(&UNEXPECTED_BYTES, [(String::new(), told.unexpected_bytes_now)]);
        text.family(&UNEXPECTED_PEAK, [(String::new(), told.unexpected_bytes_peak)]);
        text.family(&VIOLATIONS, [(String::new(), told.violations + shm.violations)]);
        text.family(
            &PACKETS,
            [(by("direction", "out"), shm.packets_out), (by("direction", "in"), shm.packets_in)],
        );
        text.family(&BOUNCES, [(String::new(), shm.bounces_out)]);
        text.family(
            &MOVED,
            [(by("direction", "out"), shm.written_bytes), (by("direction", "in"), shm.read_bytes)],
        );
        text.family(&DEVICE, self.devices.iter().map(|(name, bytes)| (by("device", name), *bytes)));
        if let Some(net) = &self.net {
            let events = [("opened", net.opened), ("broken", net.broken), ("altered", net.altered)];
            text.family(&CONNECTIONS, events.map(|(what, count)| (by("event", what), count)));
            text.family(&TWICE, [(String::new(), net.duplicates)]);
        }
        self.write_peers(&mut text);
        text.text.push_str("# EOF\n");
        text.text
    }

    fn write_peers(&self, text: &mut Text) {
        let rail = |is_far| if is_far { "network" } else { "shm" };
        let of = |peer: &super::Peer| {
            format!("peer={},rail=\"{}\"", quoted(&peer.name), rail(peer.is_far))
        };
        let peers = || self.peers.iter();
        text.family(&WAITING, peers().map(|peer| (of(peer), peer.told.waiting)));
        let seconds =
            |time: Nanos| format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000);
        text.family(&WAITING_SECONDS, peers().map(|peer| (of(peer), seconds(peer.waiting))));
        text.family(&STALLS, peers().map(|peer| (of(peer), peer.told.stalls)));
        text.family(&STALLED, peers().map(|peer| (of(peer), seconds(peer.told.stalled))));
        let slots = |peer: &super::Peer| peer.told.unexpected_slots_max;
        text.family(&UNEXPECTED_SLOTS, peers().map(|peer| (of(peer), slots(peer))));
        text.family(&RESUMED, peers().map(|peer| (of(peer), peer.resumed)));
        text.family(&CREDITS, peers().map(|peer| (of(peer), peer.told.ledger.data_credits)));
        text.family(&HELD, peers().map(|peer| (of(peer), peer.told.ledger.data_held)));
        if self.counted_since.is_some() {
            self.write_tallies(text, of);
        }
    }

    fn write_tallies(&self, text: &mut Text, of: impl Fn(&super::Peer) -> String) {
        let with = |peer: &super::Peer, label: &str, values: &[(&str, u64)]| {
            let own = of(peer);
            let sample =
                |(value, count): &(&str, u64)| (format!("{own},{label}=\"{value}\""), *count);
            values.iter().map(sample).collect::<Vec<_>>()
        };
        let sent = |peer: &super::Peer| {
            let tally = &peer.tally;
            let by_protocol = [
                ("eager", tally.eager_out()),
                ("get", tally.got_out()),
                ("put", tally.put_out),
                ("cooperative", tally.cooperative_out),
                ("speculative", tally.speculative_out),
            ];
            with(peer, "protocol", &by_protocol)
        };
        let bytes = |peer: &super::Peer| {
            with(peer, "direction", &[("out", peer.tally.bytes_out), ("in", peer.tally.bytes_in)])
        };
        text.family(&PEER_SENT, self.peers.iter().flat_map(sent));
        let received = |peer: &super::Peer| (of(peer), peer.tally.messages_in);
        text.family(&PEER_RECEIVED, self.peers.iter().map(received));
        text.family(&PEER_BYTES, self.peers.iter().flat_map(bytes));
    }
}

struct Text {
    /// The labels that every sample has.
    own: String,
    text: String,
}

impl Text {
    /// A family and its samples, each with its labels; nothing if there is no sample.
    fn family<V: std::fmt::Display>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        let Family(name, kind, help) = family;
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let suffix = if *kind == "counter" { "_total" } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# TYPE {name} {kind}\n# HELP {name} {help}");
        for (labels, value) in samples {
            let comma = if labels.is_empty() { "" } else { "," };
            let _ = writeln!(self.text, "{name}{suffix}{{{}{comma}{labels}}} {value}", self.own);
        }
    }
}
