//! What is seen, as text and as JSON.

use super::document::{Document, Peer, Rates};
use super::process::{Seen, State};
use serde_json::{Value, json};
use sluice_text::{Column, Table};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The version of [`to_json`].
const VERSION: u32 = 1;

/// A receiver that others wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WaitedFor {
    senders: u64,
    messages: u64,
    longest_ns: u64,
}

/// The receivers that somebody waits for.
fn waited_for(seen: &[Seen]) -> BTreeMap<&str, WaitedFor> {
    let documents = seen.iter().filter_map(|one| one.document.as_ref());
    let mut all: BTreeMap<&str, WaitedFor> = BTreeMap::new();
    for peer in documents.flat_map(|document| &document.peers).filter(|peer| peer.waiting > 0) {
        let receiver = all.entry(&peer.peer).or_default();
        receiver.senders += 1;
        receiver.messages = receiver.messages.saturating_add(peer.waiting);
        receiver.longest_ns = receiver.longest_ns.max(peer.waiting_ns);
    }
    all
}

/// For programs.
pub fn to_json(seen: &[Seen]) -> Value {
    let processes: Vec<Value> = seen.iter().map(process_to_json).collect();
    let waited_for: Vec<Value> = waited_for(seen)
        .into_iter()
        .map(|(peer, WaitedFor { senders, messages, longest_ns })| {
            json!({"peer": peer, "senders": senders, "messages": messages,
                   "longest_ns": longest_ns})
        })
        .collect();
    json!({"sluice_top": VERSION, "processes": processes, "waited_for": waited_for})
}

fn process_to_json(seen: &Seen) -> Value {
    let (state, why) = match &seen.state {
        State::Shown => ("shown", None),
        State::Silent => ("silent", None),
        State::Refused(why) => ("refused", Some(why)),
    };
    let rates = seen.rates.map(|rates| {
        let Rates { messages, bytes, packets_in, packets_out } = rates;
        json!({"messages": messages, "bytes": bytes, "packets_in": packets_in,
               "packets_out": packets_out})
    });
    json!({
        "pid": seen.pid,
        "rank": seen.rank,
        "command": seen.command,
        "state": state,
        "why": why,
        "per_second": rates,
        "stats": seen.value,
    })
}

/// For people.
pub fn to_text(seen: &[Seen], peers: bool) -> String {
    let rate = |seen: &Seen, of: fn(&Rates) -> f64| {
        seen.rates.as_ref().map_or("-".into(), |rates| format!("{:.0}", of(rates)))
    };
    let shown = |seen: &Seen, of: &dyn Fn(&Document) -> String| {
        seen.document.as_ref().map_or("-".into(), of)
    };
    let columns: [Column<Seen>; 12] = [
        ("pid", &|seen| seen.pid.to_string()),
        ("rank", &|seen| seen.rank.map_or("-".into(), |rank| rank.to_string())),
        ("command", &|seen| seen.command.clone()),
        ("sent/s", &|seen| rate(seen, |rates| rates.messages)),
        ("sent MB/s", &|seen| {
            seen.rates.map_or("-".into(), |rates| format!("{:.1}", rates.bytes / 1e6))
        }),
        ("in pkt/s", &|seen| rate(seen, |rates| rates.packets_in)),
        ("out pkt/s", &|seen| rate(seen, |rates| rates.packets_out)),
        ("unexpected", &|seen| shown(seen, &|shown| shown.unexpected.now.to_string())),
        ("peak KiB", &|seen| {
            shown(seen, &|shown| shown.unexpected.bytes_peak.div_ceil(1024).to_string())
        }),
        ("stalls", &|seen| shown(seen, &|shown| shown.stalls().to_string())),
        ("waiting", &|seen| shown(seen, &|shown| shown.waiting().to_string())),
        ("longest", &|seen| shown(seen, &|shown| longest(&shown.peers))),
    ];
    let mut text = Table::of(seen, &columns).to_string();
    if peers {
        text.push('\n');
        text.push_str(&peers_to_text(seen));
    }
    for one in seen {
        // Writing to a string does not fail.
        let _ = match &one.state {
            State::Shown => Ok(()),
            State::Silent => writeln!(text, "pid {} is silent: it is not in the library", one.pid),
            State::Refused(why) => writeln!(text, "pid {} is not read: {why}", one.pid),
        };
    }
    for (peer, WaitedFor { senders, messages, longest_ns }) in waited_for(seen) {
        let _ = writeln!(
            text,
            "{peer} is waited for: {messages} messages of {senders} senders, the oldest for {}",
            seconds(longest_ns)
        );
    }
    text
}

fn peers_to_text(seen: &[Seen]) -> String {
    let pairs: Vec<(u32, &Peer)> = seen
        .iter()
        .filter_map(|one| Some((one.pid, one.document.as_ref()?)))
        .flat_map(|(pid, document)| document.peers.iter().map(move |peer| (pid, peer)))
        .collect();
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let columns: [Column<(u32, &Peer)>; 17] = [
        ("pid", &|(pid, _)| pid.to_string()),
        ("peer", &|(_, peer)| peer.peer.clone()),
        ("rail", &|(_, peer)| peer.rail.clone()),
        ("packets out", &|(_, peer)| peer.packets_out.to_string()),
        ("packets in", &|(_, peer)| peer.packets_in.to_string()),
        ("sent", &|(_, peer)| peer.sent.messages.to_string()),
        ("eager", &|(_, peer)| peer.sent.eager.to_string()),
        ("MB", &|(_, peer)| megabytes(peer.sent.bytes)),
        ("received", &|(_, peer)| peer.received.messages.to_string()),
        ("MB", &|(_, peer)| megabytes(peer.received.bytes)),
        ("credits", &|(_, peer)| format!("{}/{}", peer.credits, peer.credits_max)),
        ("held here", &|(_, peer)| format!("{}/{}", peer.held, peer.unexpected_slots_max)),
        ("stalls", &|(_, peer)| peer.stalls.to_string()),
        ("in all", &|(_, peer)| seconds(peer.stalled_ns)),
        ("waiting", &|(_, peer)| peer.waiting.to_string()),
        ("longest", &|(_, peer)| longest(std::slice::from_ref(peer))),
        ("resumed", &|(_, peer)| peer.resumed.to_string()),
    ];
    Table::of(&pairs, &columns).to_string()
}

/// How long the oldest waiting message has waited.
fn longest(peers: &[Peer]) -> String {
    let waiting = peers.iter().filter(|peer| peer.waiting > 0).map(|peer| peer.waiting_ns);
    waiting.max().map_or("-".into(), seconds)
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::super::document::Sent;
    use super::*;

    fn peer(name: &str, waiting: u64, waiting_ns: u64) -> Peer {
        let peer = Peer { peer: name.into(), rail: "shm".into(), ..Peer::default() };
        let sent = Sent { messages: 10, bytes: 1_500_000, eager: 7 };
        let peer = Peer { unexpected_slots_max: 3, stalls: 4, stalled_ns: 2_500_000_000, ..peer };
        let peer = Peer { resumed: 5, sent, ..peer };
        Peer { waiting, waiting_ns, credits: 1, credits_max: 8, held: 2, ..peer }
    }

    fn seen(pid: u32, state: State, peers: Option<Vec<Peer>>) -> Seen {
        Seen {
            pid,
            name: pid.to_string(),
            rank: Some(pid - 7),
            command: "cg".into(),
            state,
            document: peers.map(|peers| Document { pid, peers, ..Document::default() }),
            value: Value::Null,
            rates: None,
        }
    }

    fn some() -> Vec<Seen> {
        let rates = Rates { messages: 2.4, bytes: 2e6, packets_in: 3.0, packets_out: 4.0 };
        let first = seen(7, State::Shown, Some(vec![peer("pid 9", 2, 1_500_000_000)]));
        vec![
            Seen { rates: Some(rates), ..first },
            seen(8, State::Shown, Some(vec![peer("pid 9", 1, 2), peer("pid 7", 0, 0)])),
            seen(9, State::Silent, None),
            seen(10, State::Refused("it shows version 2, and not 1".into()), None),
        ]
    }

    #[test]
    fn text() {
        let expected = "\
pid  rank  command  sent/s  sent MB/s  in pkt/s  out pkt/s  unexpected  peak KiB  stalls  waiting  longest
  7     0       cg       2        2.0         3          4           0         0       4        2    1.5 s
  8     1       cg       -          -         -          -           0         0       8        1    0.0 s
  9     2       cg       -          -         -          -           -         -       -        -        -
 10     3       cg       -          -         -          -           -         -       -        -        -
pid 9 is silent: it is not in the library
pid 10 is not read: it shows version 2, and not 1
pid 9 is waited for: 3 messages of 2 senders, the oldest for 1.5 s
";
        assert_eq!(to_text(&some(), false), expected);
        let with_peers = to_text(&some(), true);
        let line = "  8  pid 9   shm            0           0    10      7  1.5         0  0.0      \
                    1/8        2/3       4   2.5 s        1    0.0 s        5";
        assert!(with_peers.lines().any(|found| found == line), "{with_peers}");
    }

    #[test]
    fn json() {
        let document = to_json(&some());
        assert_eq!(
            document["waited_for"],
            json!([{"peer": "pid 9", "senders": 2, "messages": 3, "longest_ns": 1_500_000_000}])
        );
        assert_eq!(document["processes"][0]["per_second"]["messages"], 2.4);
        let states: Vec<_> =
            (0..4).map(|nth| document["processes"][nth]["state"].clone()).collect();
        assert_eq!(states, ["shown", "shown", "silent", "refused"]);
    }
}
