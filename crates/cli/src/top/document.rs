//! What an endpoint shows, as it is read: bytes that another process wrote.

use serde::Deserialize;
use serde_json::Value;

/// The version that this command reads.
const VERSION: u64 = sluice_rail::snapshot::VERSION as u64;

/// A snapshot, as far as this command uses it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Document {
    pub pid: u32,
    pub at_ns: u64,
    pub messages: Messages,
    pub unexpected: Unexpected,
    pub rails: Vec<Rail>,
    pub peers: Vec<Peer>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Messages {
    pub eager: u64,
    pub announced: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Unexpected {
    pub now: u64,
    pub bytes_peak: u64,
}

/// Shared memory has packets, devices have bytes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Rail {
    pub rail: String,
    pub packets_out: u64,
    pub packets_in: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Peer {
    pub peer: String,
    pub rail: String,
    pub packets_out: u32,
    pub packets_in: u32,
    pub credits: u32,
    pub credits_max: u32,
    pub held: u32,
    pub waiting: u64,
    pub waiting_ns: u64,
    #[serde(default)]
    pub stalls: u64,
    #[serde(default)]
    pub stalled_ns: u64,
    #[serde(default)]
    pub unexpected_slots_max: u32,
    #[serde(default)]
    pub resumed: u32,
    #[serde(default)]
    pub sent: Sent,
    #[serde(default)]
    pub received: Received,
}

/// What was sent to a peer since counting began, by protocol.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Sent {
    pub messages: u64,
    pub bytes: u64,
    pub eager: u64,
}

/// What has come from it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Received {
    pub messages: u64,
    pub bytes: u64,
}

impl Document {
    /// Reads what the process `pid` shows. The value has all that it says.
    pub fn parse(bytes: &[u8], pid: u32) -> Result<(Document, Value), String> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|_| "what it shows is no JSON".to_owned())?;
        match value["sluice_stats"].as_u64() {
            Some(VERSION) => {}
            Some(other) => return Err(format!("it shows version {other}, and not {VERSION}")),
            None => return Err("what it shows has no version".into()),
        }
        let document = Document::deserialize(&value)
            .map_err(|why| format!("what it shows cannot be read: {why}"))?;
        // What another process shows under the name of this one is not this one's.
        if document.pid != pid {
            return Err(format!("it shows what pid {} has done", document.pid));
        }
        // It goes to a terminal.
        let names = document.peers.iter().map(|peer| &peer.peer);
        let names = names.chain(document.rails.iter().map(|rail| &rail.rail));
        if names.flat_map(|name| name.chars()).any(char::is_control) {
            return Err("what it shows has control characters in names".into());
        }
        Ok((document, value))
    }

    /// Messages sent.
    pub fn sent(&self) -> u64 {
        self.messages.eager.saturating_add(self.messages.announced)
    }

    /// Packets that came and went over shared memory.
    pub fn packets(&self) -> (u64, u64) {
        let shm = self.rails.iter().find(|rail| rail.rail == "shm");
        shm.map_or((0, 0), |rail| (rail.packets_in, rail.packets_out))
    }

    /// Messages that have ever found no credit.
    pub fn stalls(&self) -> u64 {
        self.peers.iter().fold(0, |sum, peer| sum.saturating_add(peer.stalls))
    }

    /// Messages that wait for credits.
    pub fn waiting(&self) -> u64 {
        self.peers.iter().fold(0, |sum, peer| sum.saturating_add(peer.waiting))
    }
}

/// What happens in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub messages: f64,
    pub bytes: f64,
    pub packets_in: f64,
    pub packets_out: f64,
}

impl Rates {
    /// Between two snapshots of an endpoint; nothing if they are of one moment.
    pub fn between(before: &Document, after: &Document) -> Option<Rates> {
        let seconds = after.at_ns.checked_sub(before.at_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        let (was, is) = (before.packets(), after.packets());
        Some(Rates {
            messages: rate(before.sent(), after.sent()),
            bytes: rate(before.messages.bytes, after.messages.bytes),
            packets_in: rate(was.0, is.0),
            packets_out: rate(was.1, is.1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sluice_link::{Ledger, Told, ToldPeer};
    use sluice_rail::observer::Tally;
    use sluice_rail::shm::Stats;
    use sluice_rail::snapshot::{self, Snapshot};
    use sluice_wire::{Nanos, PeerId};

    const SHOWN: &str = concat!(
        r#"{"sluice_stats":1,"host":"node1","pid":7,"at_ns":1000000000,"#,
        r#""messages":{"eager":10,"announced":1,"asked_for":12,"bytes":1000},"#,
        r#""unexpected":{"messages":13,"now":14,"bytes_now":15,"bytes_peak":16},"violations":20,"#,
        r#""rails":[{"rail":"shm","packets_out":21,"packets_in":20,"read_bytes":22,"#,
        r#""written_bytes":23,"failed":3},{"rail":"eth0","bytes":40}],"#,
        r#""peers":[{"peer":"pid 8","rail":"shm","packets_out":1,"packets_in":2,"credits":3,"#,
        r#""credits_max":4,"held":5,"waiting":6,"waiting_ns":1500000000,"#,
        r#""stalls":8,"stalled_ns":2500000000,"unexpected_slots_max":7,"resumed":9,"#,
        r#""sent":{"messages":50,"bytes":51,"eager":30,"get":14,"put":3,"cooperative":2,"speculative":1},"#,
        r#""received":{"messages":52,"bytes":53,"announced":54}}],"peers_left_out":0}"#,
    );

    fn read(text: &str) -> Result<Document, String> {
        Document::parse(text.as_bytes(), 7).map(|(document, _)| document)
    }

    #[test]
    fn what_is_shown_is_read() {
        let document = read(SHOWN).unwrap();
        assert_eq!((document.sent(), document.waiting(), document.packets()), (11, 6, (20, 21)));
        assert_eq!((document.rails[1].bytes, document.peers[0].credits), (40, 3));
        let peer = &document.peers[0];
        assert_eq!((peer.sent.eager, peer.received.bytes, document.stalls()), (30, 53, 8));
    }

    #[test]
    fn what_is_not_fit_is_refused() {
        for (from, to, why) in [
            (r#""sluice_stats":1"#, r#""sluice_stats":2"#, "it shows version 2, and not 1"),
            (r#""sluice_stats":1,"#, "", "what it shows has no version"),
            (r#""pid":7"#, r#""pid":8"#, "it shows what pid 8 has done"),
            ("pid 8", r"\u001b[2J", "what it shows has control characters in names"),
            (r#""packets_in":2,"#, r#""packets_in":-2,"#, "what it shows cannot be read: "),
            ("}", "", "what it shows is no JSON"),
        ] {
            let said = read(&SHOWN.replacen(from, to, 1)).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
        for end in 0..SHOWN.len() {
            assert!(read(&SHOWN[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn rates_are_by_the_clock_of_the_process() {
        let before = read(SHOWN).unwrap();
        let mut after = before.clone();
        after.at_ns += 500_000_000;
        after.messages.eager += 100;
        after.rails[0].packets_in += 50;
        // A program that has closed its endpoint and opened another one.
        after.messages.bytes = 0;
        let rates = Rates { messages: 200.0, bytes: 0.0, packets_in: 100.0, packets_out: 0.0 };
        assert_eq!(Rates::between(&before, &after), Some(rates));
        assert_eq!(Rates::between(&before, &before), None);
    }

    /// A snapshot with these figures, and one peer with these.
    fn snapshot(
        [at, eager, announced, bytes, now, packets]: [u64; 6],
        of_peer: [u16; 4],
    ) -> Snapshot {
        let [credits, held, stalls, resumed] = of_peer;
        let ledger = Ledger {
            granted: None,
            data_credits: credits,
            data_credits_kept: 0,
            control_credits: 0,
            data_at_sender: 0,
            data_held: held,
            data_owed: 0,
            control_held: 0,
            control_owed: 0,
            dynamic: None,
        };
        let told = ToldPeer {
            peer: PeerId(0),
            packets_out: 1,
            packets_in: 2,
            credits_max: credits.into(),
            ledger,
            unexpected_slots_max: held.into(),
            stalls: stalls.into(),
            stalled: Nanos(at),
            waiting: 6,
            waits_since: None,
        };
        let tally = Tally { bytes_out: bytes, messages_in: eager, ..Tally::default() };
        let name = "pid 8".to_owned();
        let peer = snapshot::Peer {
            name,
            is_far: true,
            told,
            waiting: Nanos(at),
            tally,
            resumed: resumed.into(),
        };
        Snapshot {
            host: "node1".into(),
            pid: 7,
            at: Nanos(at),
            sent_bytes: bytes,
            told: Told { eager, announced, unexpected_now: now, ..Told::default() },
            shm: Stats { packets_out: packets, ..Stats::default() },
            net: None,
            devices: vec![("eth0".into(), bytes)],
            peers: vec![peer],
            peers_left_out: 0,
            counted_since: None,
        }
    }

    proptest! {
        #[test]
        fn any_figures_are_read_as_they_are_shown(figures: [u64; 6], of_peer: [u16; 4]) {
            let document = read(&snapshot(figures, of_peer).to_json()).unwrap();
            let [at, eager, announced, bytes, now, packets] = figures;
            let [credits, held, stalls, resumed] = of_peer.map(u32::from);
            let Document { messages, unexpected, rails, peers, .. } = &document;
            prop_assert_eq!((document.at_ns, unexpected.now), (at, now));
            prop_assert_eq!(messages, &Messages { eager, announced, bytes });
            prop_assert_eq!((rails[0].packets_out, rails[1].bytes), (packets, bytes));
            let Peer { peer, rail, sent, received, .. } = &peers[0];
            prop_assert_eq!((&**peer, &**rail), ("pid 8", "network"));
            prop_assert_eq!((peers[0].credits, peers[0].credits_max), (credits, credits));
            prop_assert_eq!((peers[0].held, peers[0].stalls), (held, stalls.into()));
            prop_assert_eq!((peers[0].resumed, peers[0].waiting_ns), (resumed, at));
            prop_assert_eq!((sent.bytes, received.messages), (bytes, eager));
        }

        /// Any bytes, and a text that was changed in one place. What is read has sums and rates.
        #[test]
        fn any_bytes_are_refused_or_have_sums(
            any in prop::collection::vec(any::<u8>(), 0..200),
            at in 0..SHOWN.len(),
            len in 0..20_usize,
            put in prop_oneof!["[0-9a-z\"{}:,\\\\]{0,20}", "\\\\u00[0-9a-f]{2}"],
        ) {
            let mut changed = SHOWN.to_owned();
            changed.replace_range(at..(at + len).min(SHOWN.len()), &put);
            for bytes in [any, changed.into_bytes()] {
                let Ok((document, _)) = Document::parse(&bytes, 7) else { continue };
                let before = read(SHOWN).unwrap();
                if let Some(rates) = Rates::between(&before, &document) {
                    let all = [rates.messages, rates.bytes, rates.packets_in, rates.packets_out];
                    prop_assert!(all.iter().all(|rate| rate.is_finite() && *rate >= 0.0));
                }
                prop_assert!(document.waiting() >= document.peers.iter().map(|peer| peer.waiting).max().unwrap_or(0));
            }
        }
    }
}
