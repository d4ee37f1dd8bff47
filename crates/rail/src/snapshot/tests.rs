//! What is written of a snapshot, to the letter.

use super::*;
use sluice_link::Ledger;
use sluice_wire::PeerId;

fn peer(name: &str, id: u32, is_far: bool) -> Peer {
    let ledger = Ledger {
        granted: None,
        data_credits: 3,
        data_credits_kept: 0,
        control_credits: 0,
        data_at_sender: 0,
        data_held: 5,
        data_owed: 0,
        control_held: 0,
        control_owed: 0,
        dynamic: None,
    };
    let told = ToldPeer {
        peer: PeerId(id),
        packets_out: 1,
        packets_in: 2,
        credits_max: 4,
        ledger,
        unexpected_slots_max: 7,
        stalls: 8,
        stalled: Nanos(2_500_000_000),
        waiting: 6,
        waits_since: Some(Nanos(1)),
    };
    let tally = Tally {
        messages_out: 50,
        bytes_out: 51,
        messages_in: 52,
        bytes_in: 53,
        announced_out: 20,
        announced_in: 54,
        speculative_out: 1,
        cooperative_out: 2,
        put_out: 3,
    };
    let waiting = Nanos(1_500_000_000);
    Peer { name: name.into(), is_far, told, waiting, tally, resumed: 9 }
}

fn snapshot() -> Snapshot {
    Snapshot {
        host: "no\"de\n1".into(),
        pid: 7,
        at: Nanos(99),
        sent_bytes: 1000,
        told: Told {
            eager: 10,
            announced: 11,
            asked_for: 12,
            unexpected: 13,
            unexpected_now: 14,
            unexpected_bytes_now: 15,
            unexpected_bytes_peak: 16,
            violations: 17,
            peers: vec![],
        },
        shm: Stats {
            packets_in: 20,
            packets_out: 21,
            bounces_out: 19,
            read_bytes: 22,
            written_bytes: 23,
            reads_failed: 1,
            writes_failed: 2,
            violations: 3,
            ..Stats::default()
        },
        net: Some(NetStats {
            opened: 30,
            broken: 31,
            altered: 32,
            duplicates: 33,
            ..NetStats::default()
        }),
        devices: vec![("eth0".into(), 40)],
        peers: vec![peer("pid 8", 1, false), peer("pid 9 of node2", 2, true)],
        peers_left_out: 50,
        counted_since: Some(Nanos(98)),
    }
}

#[test]
fn json() {
    let expected = concat!(
        r#"{"sluice_stats":1,"host":"node1","pid":7,"at_ns":99,"#,
        r#""messages":{"eager":10,"announced":11,"asked_for":12,"bytes":1000},"#,
        r#""unexpected":{"messages":13,"now":14,"bytes_now":15,"bytes_peak":16},"#,
        r#""violations":20,"#,
        r#""rails":[{"rail":"shm","packets_out":21,"packets_in":20,"bounces_out":19,"read_bytes":22,"#,
        r#""written_bytes":23,"failed":3},{"rail":"eth0","bytes":40}],"#,
        r#""connections":{"opened":30,"broken":31,"altered":32,"packets_twice":33},"#,
        r#""counted_since_ns":98,"#,
        r#""peers":[{"peer":"pid 8","rail":"shm","packets_out":1,"packets_in":2,"credits":3,"#,
        r#""credits_max":4,"held":5,"waiting":6,"waiting_ns":1500000000,"#,
        r#""stalls":8,"stalled_ns":2500000000,"unexpected_slots_max":7,"resumed":9,"#,
        r#""sent":{"messages":50,"bytes":51,"eager":30,"get":14,"put":3,"cooperative":2,"speculative":1},"#,
        r#""received":{"messages":52,"bytes":53,"announced":54}},"#,
        r#"{"peer":"pid 9 of node2","rail":"network","packets_out":1,"packets_in":2,"credits":3,"#,
        r#""credits_max":4,"held":5,"waiting":6,"waiting_ns":1500000000,"#,
        r#""stalls":8,"stalled_ns":2500000000,"unexpected_slots_max":7,"resumed":9,"#,
        r#""sent":{"messages":50,"bytes":51,"eager":30,"get":14,"put":3,"cooperative":2,"speculative":1},"#,
        r#""received":{"messages":52,"bytes":53,"announced":54}}],"peers_left_out":50}"#,
    );
    assert_eq!(snapshot().to_json(), expected);
}

#[test]
fn json_of_a_process_without_network_or_peers() {
    let alone = Snapshot {
        net: None,
        devices: vec![],
        peers: vec![],
        peers_left_out: 0,
        counted_since: None,
        ..snapshot()
    };
    let json = alone.to_json();
    assert!(
        json.ends_with(r#""failed":3}],"counted_since_ns":null,"peers":[],"peers_left_out":0}"#),
        "{json}"
    );
}

#[test]
fn openmetrics() {
    let one = Snapshot { peers: vec![peer("pid 8", 1, false)], ..snapshot() };
    let expected = r#"# TYPE sluice_messages counter
# HELP sluice_messages Messages sent, by protocol
sluice_messages_total{host="node1",pid="7",protocol="eager"} 10
sluice_messages_total{host="node1",pid="7",protocol="announced"} 11
# TYPE sluice_sent_bytes counter
# HELP sluice_sent_bytes Bytes of messages sent
sluice_sent_bytes_total{host="node1",pid="7"} 1000
# TYPE sluice_unexpected_messages counter
# HELP sluice_unexpected_messages Messages that arrived before their receive
sluice_unexpected_messages_total{host="node1",pid="7"} 13
# TYPE sluice_unexpected_now gauge
# HELP sluice_unexpected_now Messages that have no receive yet
sluice_unexpected_now{host="node1",pid="7"} 14
# TYPE sluice_unexpected_bytes gauge
# HELP sluice_unexpected_bytes Memory of messages that have no receive yet
sluice_unexpected_bytes{host="node1",pid="7"} 15
# TYPE sluice_unexpected_peak_bytes gauge
# HELP sluice_unexpected_peak_bytes The most that there ever was
sluice_unexpected_peak_bytes{host="node1",pid="7"} 16
# TYPE sluice_violations counter
# HELP sluice_violations Packets refused because they broke the protocol
sluice_violations_total{host="node1",pid="7"} 20
# TYPE sluice_shm_packets counter
# HELP sluice_shm_packets Packets over shared memory
sluice_shm_packets_total{host="node1",pid="7",direction="out"} 21
sluice_shm_packets_total{host="node1",pid="7",direction="in"} 20
# TYPE sluice_shm_bounces counter
# HELP sluice_shm_bounces Packets over shared memory whose payload went by a bounce buffer
sluice_shm_bounces_total{host="node1",pid="7"} 19
# TYPE sluice_shm_moved_bytes counter
# HELP sluice_shm_moved_bytes Bytes moved from memory to memory
sluice_shm_moved_bytes_total{host="node1",pid="7",direction="out"} 23
sluice_shm_moved_bytes_total{host="node1",pid="7",direction="in"} 22
# TYPE sluice_device_bytes counter
# HELP sluice_device_bytes Bytes sent by a network device
sluice_device_bytes_total{host="node1",pid="7",device="eth0"} 40
# TYPE sluice_connections counter
# HELP sluice_connections Connections, by what became of them
sluice_connections_total{host="node1",pid="7",event="opened"} 30
sluice_connections_total{host="node1",pid="7",event="broken"} 31
sluice_connections_total{host="node1",pid="7",event="altered"} 32
# TYPE sluice_packets_twice counter
# HELP sluice_packets_twice Packets that came twice
sluice_packets_twice_total{host="node1",pid="7"} 33
# TYPE sluice_peer_waiting gauge
# HELP sluice_peer_waiting Messages that wait for credits of a peer
sluice_peer_waiting{host="node1",pid="7",peer="pid 8",rail="shm"} 6
# TYPE sluice_peer_waiting_seconds gauge
# HELP sluice_peer_waiting_seconds How long the oldest of them has waited
sluice_peer_waiting_seconds{host="node1",pid="7",peer="pid 8",rail="shm"} 1.500000000
# TYPE sluice_peer_stalls counter
# HELP sluice_peer_stalls Messages that found no credit of a peer
sluice_peer_stalls_total{host="node1",pid="7",peer="pid 8",rail="shm"} 8
# TYPE sluice_peer_stalled_seconds counter
# HELP sluice_peer_stalled_seconds For how long messages waited for its credits
sluice_peer_stalled_seconds_total{host="node1",pid="7",peer="pid 8",rail="shm"} 2.500000000
# TYPE sluice_peer_unexpected_slots gauge
# HELP sluice_peer_unexpected_slots Most slots that messages of a peer have held before their receive
sluice_peer_unexpected_slots{host="node1",pid="7",peer="pid 8",rail="shm"} 7
# TYPE sluice_peer_resumed counter
# HELP sluice_peer_resumed How often packets to a peer went on, and again, over another connection
sluice_peer_resumed_total{host="node1",pid="7",peer="pid 8",rail="shm"} 9
# TYPE sluice_peer_credits gauge
# HELP sluice_peer_credits Credits left toward a peer
sluice_peer_credits{host="node1",pid="7",peer="pid 8",rail="shm"} 3
# TYPE sluice_peer_held gauge
# HELP sluice_peer_held Slots that hold messages of a peer
sluice_peer_held{host="node1",pid="7",peer="pid 8",rail="shm"} 5
# TYPE sluice_peer_sent_messages counter
# HELP sluice_peer_sent_messages Messages sent to a peer, by protocol
sluice_peer_sent_messages_total{host="node1",pid="7",peer="pid 8",rail="shm",protocol="eager"} 30
sluice_peer_sent_messages_total{host="node1",pid="7",peer="pid 8",rail="shm",protocol="get"} 14
sluice_peer_sent_messages_total{host="node1",pid="7",peer="pid 8",rail="shm",protocol="put"} 3
sluice_peer_sent_messages_total{host="node1",pid="7",peer="pid 8",rail="shm",protocol="cooperative"} 2
sluice_peer_sent_messages_total{host="node1",pid="7",peer="pid 8",rail="shm",protocol="speculative"} 1
# TYPE sluice_peer_received_messages counter
# HELP sluice_peer_received_messages Messages that came from a peer
sluice_peer_received_messages_total{host="node1",pid="7",peer="pid 8",rail="shm"} 52
# TYPE sluice_peer_bytes counter
# HELP sluice_peer_bytes Bytes of messages exchanged with a peer
sluice_peer_bytes_total{host="node1",pid="7",peer="pid 8",rail="shm",direction="out"} 51
sluice_peer_bytes_total{host="node1",pid="7",peer="pid 8",rail="shm",direction="in"} 53
# EOF
"#;
    assert_eq!(one.to_openmetrics(), expected);
}
