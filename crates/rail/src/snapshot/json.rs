//! A snapshot as one object of JSON.

use super::{Peer, Snapshot, VERSION};
use crate::net::NetStats;

impl Snapshot {
    /// As one object of JSON, without a line break. Which members it has is in
    /// `docs/configuration.md`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Snapshot { told, shm, .. } = self;
        let peers: Vec<String> = self.peers.iter().map(peer).collect();
        let since = self.counted_since.map_or("null".to_owned(), |since| since.0.to_string());
        let connections = self.net.as_ref().map_or(String::new(), connections);
        [
            format!(
                r#"{{"sluice_stats":{VERSION},"host":{},"pid":{}"#,
                quoted(&self.host),
                self.pid
            ),
            format!(r#","at_ns":{}"#, self.at.0),
            format!(
                r#","messages":{{"eager":{},"announced":{},"asked_for":{},"bytes":{}}}"#,
                told.eager, told.announced, told.asked_for, self.sent_bytes
            ),
            format!(
                r#","unexpected":{{"messages":{},"now":{},"bytes_now":{},"bytes_peak":{}}}"#,
                told.unexpected,
                told.unexpected_now,
                told.unexpected_bytes_now,
                told.unexpected_bytes_peak
            ),
            format!(r#","violations":{}"#, told.violations + shm.violations),
            format!(r#","rails":[{}]"#, self.rails().join(",")),
            connections,
            format!(r#","counted_since_ns":{since}"#),
            format!(r#","peers":[{}],"peers_left_out":{}}}"#, peers.join(","), self.peers_left_out),
        ]
        .concat()
    }

    fn rails(&self) -> Vec<String> {
        let shm = &self.shm;
        let mut rails = vec![format!(
            r#"{{"rail":"shm","packets_out":{},"packets_in":{},"bounces_out":{},"read_bytes":{},"written_bytes":{},"failed":{}}}"#,
            shm.packets_out,
            shm.packets_in,
            shm.bounces_out,
            shm.read_bytes,
            shm.written_bytes,
            shm.reads_failed + shm.writes_failed
        )];
        let device = |(name, bytes): &(String, u64)| {
            format!(r#"{{"rail":{},"bytes":{bytes}}}"#, quoted(name))
        };
        rails.extend(self.devices.iter().map(device));
        rails
    }
}

fn connections(net: &NetStats) -> String {
    format!(
        r#","connections":{{"opened":{},"broken":{},"altered":{},"packets_twice":{}}}"#,
        net.opened, net.broken, net.altered, net.duplicates
    )
}

fn peer(peer: &Peer) -> String {
    let Peer { name, is_far, told, waiting, tally, resumed } = peer;
    [
        format!(
            r#"{{"peer":{},"rail":"{}","packets_out":{},"packets_in":{},"credits":{},"credits_max":{},"held":{},"waiting":{},"waiting_ns":{}"#,
            quoted(name),
            if *is_far { "network" } else { "shm" },
            told.packets_out,
            told.packets_in,
            told.ledger.data_credits,
            told.credits_max,
            told.ledger.data_held,
            told.waiting,
            waiting.0
        ),
        format!(
            r#","stalls":{},"stalled_ns":{},"unexpected_slots_max":{},"resumed":{resumed}"#,
            told.stalls, told.stalled.0, told.unexpected_slots_max
        ),
        format!(
            r#","sent":{{"messages":{},"bytes":{},"eager":{},"get":{},"put":{},"cooperative":{},"speculative":{}}}"#,
            tally.messages_out,
            tally.bytes_out,
            tally.eager_out(),
            tally.got_out(),
            tally.put_out,
            tally.cooperative_out,
            tally.speculative_out
        ),
        format!(
            r#","received":{{"messages":{},"bytes":{},"announced":{}}}}}"#,
            tally.messages_in, tally.bytes_in, tally.announced_in
        ),
    ]
    .concat()
}

/// A name as a string of JSON, without what that would have to escape.
#[must_use]
pub fn quoted(name: &str) -> String {
    let plain = |c: &char| (c.is_ascii_graphic() || *c == ' ') && !matches!(c, '"' | '\\');
    format!("\"{}\"", name.chars().filter(plain).collect::<String>())
}
