//! What is noted of packets, and what is written of a trace.

use super::trace::EVENTS_MAX;
use super::*;
use sluice_wire::{
    Credits, Cts, Decline, Found, MatchBits, PacketSeq, PtIndex, Put, RemoteKey, Waiting,
};
use std::num::NonZero;

const PEER: PeerId = PeerId(3);

fn packet(packet: Packet, payload_len: u32) -> Parsed {
    Parsed {
        seq: PacketSeq(5),
        credits: Credits::default(),
        packet,
        payload_offset: packet.header_bytes(),
        payload_len,
    }
}

fn put(tag: u64, rts: Option<Rts>) -> Packet {
    Packet::Put(Put {
        pt_index: PtIndex(0),
        match_bits: MatchBits(tag),
        hdr_data: 0,
        user: 0,
        remote_offset: 0,
        ack: None,
        rts,
        bulk: None,
        by_control: false,
    })
}

fn named(claims: Option<u32>) -> Option<NonZero<u32>> {
    claims.and_then(NonZero::new)
}

fn rts(total_len: u64, claims: Option<u32>) -> Option<Rts> {
    Some(Rts { total_len, from: RemoteKey::NONE, key: MatchBits(1), claims: named(claims) })
}

fn cts(claims: Option<u32>) -> Packet {
    Packet::Cts(Cts {
        key: MatchBits(1),
        op: 2,
        len: 1 << 20,
        into: RemoteKey::NONE,
        claims: named(claims),
    })
}

#[test]
fn messages_are_counted_by_protocol() {
    let mut observer = Observer::new(Nanos(1), None);
    for sent in [put(1, None), put(1, rts(1 << 20, None)), put(1, rts(1 << 20, Some(4)))] {
        let len = if sent == put(1, None) { 8 } else { 0 };
        observer.note_out(|| Nanos(2), PEER, &packet(sent, len));
    }
    for _ in 0..2 {
        observer.note_out(|| Nanos(2), PEER, &packet(put(1, rts(1 << 20, None)), 0));
    }
    observer.note_in(|| Nanos(3), PEER, &packet(cts(Some(9)), 0));
    observer.note_in(|| Nanos(3), PEER, &packet(cts(None), 0));
    observer.note_in(|| Nanos(3), PEER, &packet(put(1, rts(u64::MAX, None)), 0));
    observer.note_in(|| Nanos(3), PEER, &packet(put(1, None), 9));
    observer.note_in(|| Nanos(3), PEER, &packet(Packet::Credit, 0));
    let tally = observer.tally(PEER);
    let expected = Tally {
        messages_out: 5,
        bytes_out: 8 + (4 << 20),
        messages_in: 2,
        bytes_in: 8,
        announced_out: 4,
        announced_in: 1,
        speculative_out: 1,
        cooperative_out: 1,
        put_out: 1,
    };
    assert_eq!(tally, expected, "what a peer announces may be any length");
    assert_eq!((tally.eager_out(), tally.got_out()), (1, 1));
    assert_eq!(observer.tally(PeerId(9)), Tally::default());
}

fn keeper() -> Keeper<'static> {
    Keeper { host: "no\"de\n", boot: 0xab, pid: 7, rank: Some(2), name: "0f" }
}

#[test]
fn a_trace_to_the_letter() {
    let mut observer = Observer::new(Nanos(1), Some("/nowhere".into()));
    observer.note_request(|| Nanos(2), Some(PEER), Request::Send { len: 8, tag: 1 });
    observer.note_out(|| Nanos(3), PEER, &packet(put(1, None), 8));
    observer.note_in(|| Nanos(4), PEER, &packet(Packet::Credit, 0));
    observer.note_request(|| Nanos(5), None, Request::Post { len: 9, tag: 1, ignore: 2 });
    observer.note_move(|| Nanos(6), PEER, false, 10);
    let received = Request::Received { len: 9, tag: 1, is_good: true };
    observer.note_request(|| Nanos(7), Some(PEER), received);
    let text = observer.trace().unwrap().text(&keeper(), |peer| format!("peer {}", peer.0));
    let expected = r#"{"sluice_trace":1,"host":"node","boot":"00ab","pid":7,"rank":2,"name":"0f","events":6,"lost":0}
{"at_ns":2,"peer":"peer 3","event":"send","len":8,"tag":1}
{"at_ns":3,"peer":"peer 3","event":"out","number":5,"text":"eager: 8 bytes; number 5","len":8,"tag":1,"slots":1}
{"at_ns":4,"peer":"peer 3","event":"in","number":5,"text":"credits; number 5"}
{"at_ns":5,"peer":null,"event":"post","len":9,"tag":1,"ignore":2}
{"at_ns":6,"peer":"peer 3","event":"read","len":10}
{"at_ns":7,"peer":"peer 3","event":"received","len":9,"tag":1,"is_good":true}
"#;
    assert_eq!(text, expected);
}

#[test]
fn an_offer_says_of_which_message_it_is() {
    let mut observer = Observer::new(Nanos(1), Some("/nowhere".into()));
    let found = Found {
        pt_index: PtIndex(0),
        match_bits: MatchBits(7),
        hdr_data: 0,
        user: 0,
        total_len: 5000,
        from: RemoteKey::NONE,
    };
    for found in [Some(found), None] {
        let waiting = Packet::Waiting(Waiting { watched: false, number: 12, found });
        observer.note_out(|| Nanos(2), PEER, &packet(waiting, 0));
    }
    observer.note_in(|| Nanos(3), PEER, &packet(Packet::Decline(Decline { number: 12 }), 0));
    let text = observer.trace().unwrap().text(&keeper(), |_| "p".to_owned());
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert!(lines[0].contains(r#","len":5000,"tag":7,"offer":12,"slots":"#), "{}", lines[0]);
    assert!(!lines[1].contains("offer\":"), "it has none to offer: {}", lines[1]);
    assert!(lines[2].ends_with(r#","offer":12}"#), "{}", lines[2]);
}

#[test]
fn the_last_things_are_kept() {
    let mut observer = Observer::new(Nanos(0), Some("/nowhere".into()));
    for at in 0..EVENTS_MAX as u64 + 3 {
        observer.note_move(|| Nanos(at), PEER, true, 1);
    }
    let text = observer.trace().unwrap().text(&keeper(), |_| String::new());
    let first = text.lines().nth(1).unwrap();
    assert!(text.lines().next().unwrap().ends_with(r#""events":8192,"lost":3}"#));
    assert!(first.starts_with(r#"{"at_ns":3,"#), "{first}");
    assert_eq!(text.lines().count(), EVENTS_MAX + 1);
}

/// What happened meanwhile stays, and so do earlier requests.
#[test]
fn a_refused_request_is_not_kept() {
    let mut observer = Observer::new(Nanos(0), Some("/nowhere".into()));
    let send = |len| Request::Send { len, tag: 1 };
    observer.note_request(|| Nanos(1), Some(PEER), send(8));
    observer.note_request(|| Nanos(2), Some(PEER), send(9));
    observer.note_in(|| Nanos(3), PEER, &packet(Packet::Credit, 0));
    observer.withdraw_request();
    let text = observer.trace().unwrap().text(&keeper(), |_| String::new());
    let times: Vec<_> = text.lines().skip(1).map(|line| &line[..10]).collect();
    assert_eq!(times, [r#"{"at_ns":1"#, r#"{"at_ns":3"#]);
}
