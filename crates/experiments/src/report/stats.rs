//! Draws what the endpoints of a run have said when they closed: the lines of a file that
//! `FI_SLUICE_STATS=json:FILE` names (`docs/configuration.md` has their members).

use super::drawing::{Drawing, Values, escaped};
use super::heat::Map;
use super::page;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The version that is read.
const VERSION: u64 = 1;
/// Most processes that are drawn.
const PROCESSES_MAX: usize = 128;
/// Most pairs that are listed, the busiest.
const PAIRS_MAX: usize = 500;

/// What an endpoint has said.
#[derive(Debug, Deserialize)]
struct Endpoint {
    sluice_stats: u64,
    host: String,
    pid: u32,
    messages: Messages,
    unexpected: Unexpected,
    peers: Vec<Peer>,
}

#[derive(Debug, Deserialize)]
struct Messages {
    eager: u64,
    announced: u64,
    asked_for: u64,
    bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Unexpected {
    messages: u64,
    bytes_peak: u64,
}

#[derive(Debug, Deserialize)]
struct Peer {
    peer: String,
    rail: String,
    packets_out: u32,
    packets_in: u32,
    #[serde(default)]
    stalls: u64,
    #[serde(default)]
    stalled_ns: u64,
    #[serde(default)]
    unexpected_slots_max: u64,
    #[serde(default)]
    resumed: u64,
    #[serde(default)]
    sent: Sent,
    #[serde(default)]
    received: Received,
}

/// What was sent to a peer since counting began, by protocol.
#[derive(Debug, Default, Deserialize)]
struct Sent {
    messages: u64,
    bytes: u64,
    eager: u64,
    get: u64,
    put: u64,
    cooperative: u64,
    speculative: u64,
}

/// What has come from it.
#[derive(Debug, Default, Deserialize)]
struct Received {
    messages: u64,
    bytes: u64,
}

/// The page of a file.
pub fn html(file: &Path) -> Result<String> {
    let text =
        fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let endpoints = parse(&text).with_context(|| file.display().to_string())?;
    let title = format!("What {} endpoints have done", endpoints.len());
    let mut html = page::begin(&title);
    if let Some(drawing) = draw(&endpoints)? {
        page::figure(&mut html, &drawing);
    }
    for (name, values) in
        [("Endpoints", all_endpoints(&endpoints)), ("Pairs", busiest_pairs(&endpoints))]
    {
        // Writing to a string cannot fail.
        let _ = write!(html, "<section>\n<h2>{}</h2>\n", escaped(name));
        page::values(&mut html, &values);
        html.push_str("</section>\n");
    }
    html.push_str(page::END);
    Ok(html)
}

fn parse(text: &str) -> Result<Vec<Endpoint>> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = index + 1;
        let endpoint: Endpoint = serde_json::from_str(line)
            .with_context(|| format!("line {number} is not of FI_SLUICE_STATS=json"))?;
        let version = endpoint.sluice_stats;
        ensure!(version == VERSION, "line {number} is of version {version}, not {VERSION}");
        endpoints.push(endpoint);
    }
    ensure!(!endpoints.is_empty(), "no endpoint has said anything");
    endpoints.sort_by(|a, b| (&a.host, a.pid).cmp(&(&b.host, b.pid)));
    Ok(endpoints)
}

/// Who has sent how many packets to whom, of processes on one host; nothing if there are too
/// many, or none has sent anything.
fn draw(endpoints: &[Endpoint]) -> Result<Option<Drawing>> {
    let mut places = BTreeMap::new();
    for Endpoint { host, pid, .. } in endpoints {
        let next = places.len() as u32;
        places.entry((host.as_str(), format!("pid {pid}"))).or_insert(next);
    }
    let mut packets: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for Endpoint { host, pid, peers, .. } in endpoints {
        let from = places[&(host.as_str(), format!("pid {pid}"))];
        for peer in peers {
            if let Some(to) = places.get(&(host.as_str(), peer.peer.clone())) {
                *packets.entry((*to, from)).or_default() += u64::from(peer.packets_out);
            }
        }
    }
    let most = packets.values().copied().max().unwrap_or(0);
    if most == 0 || places.len() > PROCESSES_MAX {
        return Ok(None);
    }
    let count = places.len() as u32;
    let shares =
        packets.into_iter().map(|((to, from), count)| (to, from, count as f64 / most as f64));
    let map = Map::new("to process", "from process".into(), count, count, shares);
    let title = "Packets between the processes of a host".to_owned();
    let description = format!(
        "A share of the most: {most} packets. Processes are in the order of the table of endpoints."
    );
    let svg = map.draw()?;
    Ok(Some(Drawing::new("packets".into(), title, description, &svg, Values::default())))
}

fn all_endpoints(endpoints: &[Endpoint]) -> Values {
    let row = |(number, endpoint): (usize, &Endpoint)| {
        let Endpoint { host, pid, messages, unexpected, .. } = endpoint;
        vec![
            number.to_string(),
            host.clone(),
            pid.to_string(),
            messages.eager.to_string(),
            messages.announced.to_string(),
            messages.asked_for.to_string(),
            format!("{:.1}", messages.bytes as f64 / 1e6),
            unexpected.messages.to_string(),
            unexpected.bytes_peak.div_ceil(1024).to_string(),
        ]
    };
    let heads = [
        "",
        "host",
        "pid",
        "sent eagerly",
        "announced",
        "asked for",
        "MB sent",
        "unexpected",
        "peak KiB",
    ];
    Values {
        heads: heads.map(str::to_owned).to_vec(),
        rows: endpoints.iter().enumerate().map(row).collect(),
    }
}

fn busiest_pairs(endpoints: &[Endpoint]) -> Values {
    let pairs = endpoints
        .iter()
        .flat_map(|endpoint| endpoint.peers.iter().map(move |peer| (endpoint, peer)));
    let mut pairs: Vec<(&Endpoint, &Peer)> = pairs.collect();
    pairs.sort_by_key(|(_, peer)| std::cmp::Reverse(peer.packets_out));
    pairs.truncate(PAIRS_MAX);
    let row = |(endpoint, peer): &(&Endpoint, &Peer)| {
        let Peer { sent, received, .. } = peer;
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let mut row = vec![
            endpoint.host.clone(),
            endpoint.pid.to_string(),
            peer.peer.clone(),
            peer.rail.clone(),
            peer.packets_out.to_string(),
            peer.packets_in.to_string(),
            sent.messages.to_string(),
            megabytes(sent.bytes),
        ];
        let by_protocol = [sent.eager, sent.get, sent.put, sent.cooperative, sent.speculative];
        row.extend(by_protocol.map(|count| count.to_string()));
        row.extend([received.messages.to_string(), megabytes(received.bytes)]);
        row.extend([peer.stalls.to_string(), format!("{:.1}", peer.stalled_ns as f64 / 1e6)]);
        row.extend([peer.unexpected_slots_max.to_string(), peer.resumed.to_string()]);
        row
    };
    let heads = [
        "host",
        "pid",
        "peer",
        "rail",
        "packets out",
        "packets in",
        "messages out",
        "MB out",
        "eager",
        "get",
        "put",
        "cooperative",
        "speculative",
        "messages in",
        "MB in",
        "stalls",
        "ms without credit",
        "most slots held",
        "resumed",
    ];
    Values { heads: heads.map(str::to_owned).to_vec(), rows: pairs.iter().map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, peer: u32, packets: u32) -> String {
        format!(
            concat!(
                r#"{{"sluice_stats":1,"host":"no<de","pid":{},"at_ns":1,"#,
                r#""messages":{{"eager":7,"announced":8,"asked_for":9,"bytes":1500000}},"#,
                r#""unexpected":{{"messages":10,"now":0,"bytes_now":0,"bytes_peak":1025}},"#,
                r#""violations":0,"rails":[],"peers":[{{"peer":"pid {}","rail":"shm","#,
                r#""packets_out":{},"packets_in":3,"credits":1,"credits_max":1,"held":0,"#,
                r#""waiting":0,"waiting_ns":0,"stalls":21,"stalled_ns":2500000,"#,
                r#""unexpected_slots_max":22,"resumed":23,"sent":{{"messages":31,"bytes":1200000,"#,
                r#""eager":5,"get":6,"put":7,"cooperative":8,"speculative":9}},"#,
                r#""received":{{"messages":41,"bytes":42,"announced":1}}}}],"peers_left_out":0}}"#,
            ),
            pid, peer, packets
        )
    }

    fn page_of(text: &str) -> Result<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stats");
        fs::write(&file, text).unwrap();
        html(&file)
    }

    #[test]
    fn endpoints_and_pairs_are_drawn() {
        let page = page_of(&format!("{}\n\n{}\n", line(12, 11, 5), line(11, 12, 90))).unwrap();
        for part in [
            "<h1>What 2 endpoints have done</h1>",
            "A share of the most: 90 packets.",
            "<td>0</td><td>no&lt;de</td><td>11</td><td>7</td><td>8</td><td>9</td><td>1.5</td>\
             <td>10</td><td>2</td>",
            "<td>no&lt;de</td><td>12</td><td>pid 11</td><td>shm</td><td>5</td><td>3</td>\
             <td>31</td><td>1.2</td><td>5</td><td>6</td><td>7</td><td>8</td><td>9</td>\
             <td>41</td><td>0.0</td><td>21</td><td>2.5</td><td>22</td><td>23</td>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(page.matches("<svg ").count(), 1);
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn one_that_was_alone_has_no_map() {
        let page = page_of(&line(11, 12, 90)).unwrap();
        assert_eq!(page.matches("<svg ").count(), 0);
    }

    #[test]
    fn what_is_not_fit_is_named() {
        let other = line(11, 12, 1).replacen("\"sluice_stats\":1", "\"sluice_stats\":2", 1);
        for (text, why) in [
            ("", "no endpoint has said anything"),
            ("\n# TYPE", "line 2 is not of FI_SLUICE_STATS=json"),
            (&other, "line 1 is of version 2, not 1"),
        ] {
            let said = format!("{:#}", page_of(text).unwrap_err());
            assert!(said.contains(why), "{said}");
        }
    }
}
