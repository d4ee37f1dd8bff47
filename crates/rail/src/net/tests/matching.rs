//! Processes whose messages a provider of libfabric matches. Where libfabric is not
//! installed there is nothing to try, and the tests say so.

use super::fabric::{PROVIDERS, is_there, over};
use super::{Process, loopback, region, region_mut, until};
use crate::net::NetConfig;
use crate::net::handshake::Security;
use crate::observer::{Observed, Tally};
use crate::shm::Config;
use crate::world::World;
use sluice_fabric::{Begun, Endpoint, Source, tagged_offers};
use sluice_link::{
    Full, PeerError, Port, TagMatching, TaggedEnd, TaggedMessage, TaggedWanted, Token, Transport,
};
use sluice_wire::{MatchBits, PeerId, PtIndex, Region, RemoteKey, Rts};

fn config(provider: &str) -> NetConfig {
    let devices = vec![loopback(1), over(provider, 1)];
    NetConfig { matching: true, security: Security::None, ..NetConfig::with_devices(devices) }
}

/// Two whose messages a provider matches; they have not met.
fn two(provider: &str) -> (Process, PeerId, Process, PeerId) {
    let mut a = Process::with(config(provider));
    let mut b = Process::with(config(provider));
    let (to_b, to_a) = (a.knows(&b), b.knows(&a));
    (a, to_b, b, to_a)
}

fn matching(process: &mut Process) -> &mut dyn TagMatching {
    process.world.tag_matching().expect("a rail matches")
}

fn send(process: &mut Process, to: PeerId, tag: u64, bytes: &[u8], token: Option<Token>) {
    process.world.watch(to);
    let (list, match_bits, len) = (PtIndex(0), MatchBits(tag), bytes.len() as u64);
    let message = TaggedMessage { list, match_bits, hdr_data: tag + 1, user: 3, len, rts: None };
    matching(process).send(to, &message, region(bytes), token).unwrap();
}

fn wanted(source: Option<PeerId>, tag: Option<u64>) -> TaggedWanted {
    let ignore_bits = if tag.is_some() { 0 } else { u64::MAX };
    TaggedWanted { list: PtIndex(0), source, match_bits: MatchBits(tag.unwrap_or(0)), ignore_bits }
}

fn post(process: &mut Process, wanted: &TaggedWanted, into: Region, token: u64) {
    if let Some(source) = wanted.source {
        process.world.watch(source);
    }
    matching(process).post(wanted, into, Token(token)).unwrap();
}

/// Receives that have met a message, from whom, and its tag.
fn met(process: &Process) -> Vec<(u64, PeerId, u64)> {
    let ends = process.machine.ended.iter();
    let met = ends.filter_map(|(token, end)| match end {
        TaggedEnd::Met { from, message } => Some((token.0, *from, message.match_bits.0)),
        TaggedEnd::Sent => None,
    });
    met.collect()
}

/// Those that are sent, by whoever wants it; what has come is not counted there.
#[test]
fn messages_that_a_rail_matches_are_counted_by_peer() {
    for provider in PROVIDERS.into_iter().filter(|provider| is_there(provider)) {
        let observed = Observed { peers: true, trace_dir: None };
        let own = Config { observed: observed.clone(), ..Config::default() };
        let mut a = Process::with_both(own.clone(), config(provider));
        let mut b = Process::with_both(own, config(provider));
        let mut other = Process::with(config(provider));
        let (to_b, to_other, to_a) = (a.knows(&b), a.knows(&other), b.knows(&a));
        other.knows(&a);
        assert!(other.world.counted_since().is_none(), "nobody asked for it");
        let mut into = [[0u8; 4]; 2];
        let places = into.each_mut().map(|place| region_mut(place));
        post(&mut b, &wanted(None, Some(1)), places[0], 0);
        post(&mut b, &wanted(None, Some(2)), places[1], 1);
        send(&mut a, to_b, 1, b"1111", None);
        let (list, match_bits) = (PtIndex(0), MatchBits(2));
        let rts =
            Rts { total_len: 1 << 20, from: RemoteKey::NONE, key: MatchBits(9), claims: None };
        let len = rts.total_len;
        let announced =
            TaggedMessage { list, match_bits, hdr_data: 0, user: 0, len, rts: Some(rts) };
        matching(&mut a).send(to_b, &announced, Region::EMPTY, None).unwrap();
        until(&mut [&mut a, &mut b], "both", |all| met(all[1]).len() == 2);
        let sent = Tally {
            messages_out: 2,
            bytes_out: 4 + (1 << 20),
            announced_out: 1,
            ..Tally::default()
        };
        assert_eq!((a.world.tally(to_b), a.world.tally(to_other)), (sent, Tally::default()));
        assert_eq!((sent.eager_out(), sent.got_out()), (1, 1));
        assert_eq!(b.world.tally(to_a).messages_in, 0, "docs/configuration.md says so");
    }
}

/// Also those whose source was not known to the provider when they were posted.
#[test]
fn the_oldest_receive_gets_the_oldest_message() {
    for provider in PROVIDERS.into_iter().filter(|provider| is_there(provider)) {
        let (mut a, to_b, mut b, to_a) = two(provider);
        let mut into = [[0u8; 4]; 4];
        let places = into.each_mut().map(|place| region_mut(place));
        post(&mut b, &wanted(None, Some(5)), places[0], 0);
        post(&mut b, &wanted(Some(to_a), None), places[1], 1);
        post(&mut b, &wanted(None, None), places[2], 2);
        post(&mut b, &wanted(None, None), places[3], 3);
        for (tag, byte) in [(8, b"8888"), (9, b"9999"), (5, b"5555"), (7, b"7777")] {
            send(&mut a, to_b, tag, byte, Some(Token(tag)));
        }
        until(&mut [&mut a, &mut b], "all", |all| {
            met(all[1]).len() == 4 && all[0].machine.ended.len() == 4
        });
        let mut found = met(&b);
        found.sort_unstable_by_key(|one| one.0);
        assert_eq!(found, [(0, to_a, 5), (1, to_a, 8), (2, to_a, 9), (3, to_a, 7)]);
        assert_eq!(into, [*b"5555", *b"8888", *b"9999", *b"7777"]);
        assert!(a.machine.ended.iter().all(|(_, end)| *end == TaggedEnd::Sent));
    }
}

#[test]
fn what_no_receive_wants_yet_is_found_claimed_and_received_in_its_order() {
    for provider in PROVIDERS.into_iter().filter(|provider| is_there(provider)) {
        let (mut a, to_b, mut b, to_a) = two(provider);
        let mut into = [[0u8; 4]; 4];
        let places = into.each_mut().map(|place| region_mut(place));
        for (tag, byte) in [(1, b"1111"), (2, b"2222"), (3, b"3333")] {
            send(&mut a, to_b, tag, byte, None);
        }
        until(&mut [&mut a, &mut b], "the last", |all| {
            matching(all[1]).search(&wanted(Some(to_a), Some(3)), None).is_some()
        });
        let (from, found) = matching(&mut b).search(&wanted(None, None), None).unwrap();
        assert_eq!((from, found.match_bits.0, found.hdr_data, found.len), (to_a, 1, 2, 4));
        let claimed = matching(&mut b).search(&wanted(None, Some(2)), Some(Token(99)));
        assert!(
            claimed.is_some() && matching(&mut b).search(&wanted(None, Some(2)), None).is_none()
        );
        post(&mut b, &wanted(None, None), places[0], 0);
        post(&mut b, &wanted(Some(to_a), None), places[1], 1);
        matching(&mut b).take(Token(99), places[2]);
        until(&mut [&mut a, &mut b], "both", |all| met(all[1]).len() == 2);
        assert_eq!(met(&b), [(0, to_a, 1), (1, to_a, 3)]);
        // What is taken back gets nothing; the next one does.
        post(&mut b, &wanted(None, None), places[3], 2);
        assert!(matching(&mut b).cancel(Token(2)) && !matching(&mut b).cancel(Token(2)));
        send(&mut a, to_b, 4, b"4444", None);
        post(&mut b, &wanted(None, None), places[3], 3);
        until(&mut [&mut a, &mut b], "the last", |all| met(all[1]).len() == 3);
        assert!(!matching(&mut b).cancel(Token(3)), "it has met a message");
        assert_eq!(into, [*b"1111", *b"3333", *b"2222", *b"4444"]);
    }
}

#[test]
fn a_process_sends_to_itself_by_the_same_way() {
    for provider in PROVIDERS.into_iter().filter(|provider| is_there(provider)) {
        let mut a = Process::with(config(provider));
        let own = a.world.peer(&a.world.address()).unwrap();
        let mut into = [0u8; 4];
        post(&mut a, &wanted(Some(own), Some(1)), region_mut(&mut into), 0);
        send(&mut a, own, 1, b"1111", Some(Token(7)));
        until(&mut [&mut a], "both ends", |all| all[0].machine.ended.len() == 2);
        assert_eq!((met(&a), into), (vec![(0, own, 1)], *b"1111"));
    }
}

/// The receive keeps on waiting for a peer.
#[test]
fn a_message_of_a_stranger_is_dropped() {
    for provider in PROVIDERS.into_iter().filter(|provider| is_there(provider)) {
        let (mut a, to_b, mut b, to_a) = two(provider);
        let mut into = [0u8; 4];
        post(&mut b, &wanted(None, Some(1)), region_mut(&mut into), 0);
        let mut offers =
            tagged_offers(provider, Source::Ip(loopback(1).addresses.first())).unwrap();
        let mut stranger = Endpoint::open(offers.remove(0), 1).unwrap();
        let name = b.world.net_mut().tags_name(1).unwrap().names[0].clone();
        let to = stranger.insert(&name).unwrap();
        let buffer = stranger.take().unwrap();
        let mut is_sent = false;
        until(&mut [&mut b], "the stranger's message", |all| {
            is_sent |= !is_sent && stranger.send_tagged(buffer, 100, to, 1) == Ok(Begun::Yes);
            stranger.poll().unwrap();
            all[0].world.net_mut().tagged_strays() == 1
        });
        send(&mut a, to_b, 1, b"1111", None);
        until(&mut [&mut a, &mut b], "the peer's", |all| met(all[1]).len() == 1);
        assert_eq!((met(&b), into), (vec![(0, to_a, 1)], *b"1111"));
    }
}

#[test]
fn a_peer_that_ends_is_told_behind_what_it_has_sent() {
    for provider in PROVIDERS.into_iter().filter(|provider| is_there(provider)) {
        let (mut a, to_b, mut b, to_a) = two(provider);
        let mut into = [0u8; 4];
        send(&mut a, to_b, 1, b"1111", Some(Token(7)));
        post(&mut b, &wanted(Some(to_a), Some(1)), region_mut(&mut into), 0);
        until(&mut [&mut a, &mut b], "the first", |all| !all[0].machine.ended.is_empty());
        send(&mut a, to_b, 2, b"2222", None);
        drop(a);
        post(&mut b, &wanted(Some(to_a), Some(2)), region_mut(&mut into), 1);
        until(&mut [&mut b], "its end", |all| !all[0].machine.gone.is_empty());
        assert_eq!((met(&b).len(), into), (2, *b"2222"));
        post(&mut b, &wanted(Some(to_a), Some(3)), region_mut(&mut into), 2);
        assert!(matching(&mut b).cancel(Token(2)), "nobody will ever fill it");
    }
}

#[test]
fn those_who_do_not_agree_are_no_peers() {
    let provider = PROVIDERS[0];
    if !is_there(provider) {
        return;
    }
    for is_asked in [false, true] {
        let mut a = Process::with(config(provider));
        let mut b = Process::with(NetConfig { matching: false, ..config(provider) });
        let (to_b, to_a) = (a.knows(&b), b.knows(&a));
        if is_asked {
            assert!(b.world.connect(to_a).is_ok());
        } else {
            assert!(a.world.connect(to_b).is_ok());
        }
        until(&mut [&mut a, &mut b], "the refusal", |all| {
            all.iter().any(|one| !one.machine.gone.is_empty())
        });
        let gone = [&a.machine.gone[..], &b.machine.gone[..]].concat();
        assert_eq!(gone.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [PeerError::Refused]);
    }
}

#[test]
fn where_it_may_not_be_the_process_matches_by_itself() {
    let provider = PROVIDERS[0];
    if !is_there(provider) {
        return;
    }
    let proving = NetConfig { security: Security::Auth, ..config(provider) };
    let tcp = NetConfig { devices: vec![loopback(1)], ..config(provider) };
    for net in [proving, tcp] {
        let mut process = Process::with(net);
        assert!(process.world.tag_matching().is_none());
    }
    let mut shares = World::open_with_net(Config::default(), config(provider), true).unwrap();
    assert!(shares.tag_matching().is_none());
}

/// What a search may not hold stays with the provider, in its place, and nothing is lost.
#[test]
fn a_search_holds_no_more_than_its_bound() {
    const MESSAGES: u64 = 40;
    const BYTES: usize = 1000;
    const HELD_MAX: usize = 10 * BYTES;
    for provider in PROVIDERS.into_iter().filter(|provider| is_there(provider)) {
        let (mut a, to_b, mut b, to_a) = two(provider);
        b.world.net_mut().held().limit_held(HELD_MAX);
        let bytes: Vec<Vec<u8>> = (0..MESSAGES).map(|tag| vec![tag as u8; BYTES]).collect();
        for (tag, bytes) in (0..).zip(&bytes) {
            send(&mut a, to_b, tag, bytes, None);
        }
        // Behind all others, and found only when those are received.
        let last = wanted(Some(to_a), Some(MESSAGES - 1));
        until(&mut [&mut a, &mut b], "as much as may be held", |all| {
            assert_eq!(matching(all[1]).search(&last, None), None);
            all[1].world.net_mut().held().held_bytes() >= HELD_MAX
        });
        let held_bytes = b.world.net_mut().held().held_bytes();
        assert!(held_bytes < HELD_MAX + 2 * BYTES, "{held_bytes}");
        assert!(b.world.net_mut().held().take_full().is_some());
        assert!(b.world.net_mut().held().take_full().is_none(), "said once");
        let mut into = vec![[0u8; BYTES]; MESSAGES as usize];
        for (tag, into) in (0..MESSAGES - 1).zip(&mut into) {
            post(&mut b, &wanted(None, None), region_mut(into), tag);
        }
        until(&mut [&mut a, &mut b], "the others", |all| {
            met(all[1]).len() == MESSAGES as usize - 1
        });
        let tags: Vec<u64> = met(&b).iter().map(|met| met.2).collect();
        assert_eq!(tags, (0..MESSAGES - 1).collect::<Vec<_>>(), "in their order");
        until(&mut [&mut a, &mut b], "the last", |all| {
            matching(all[1]).search(&last, None).is_some()
        });
        post(&mut b, &last, region_mut(&mut into[MESSAGES as usize - 1]), MESSAGES - 1);
        until(&mut [&mut a, &mut b], "it", |all| met(all[1]).len() == MESSAGES as usize);
        assert!(into.iter().zip(&bytes).all(|(got, sent)| got[..] == sent[..]));
        assert_eq!(b.world.net_mut().held().held_bytes(), 0);
    }
}

/// What the provider has no room for is refused, and what has come for it is found behind what
/// the provider's receives take.
#[test]
fn receives_beyond_the_room_find_what_has_met_none_of_the_others() {
    for provider in PROVIDERS.into_iter().filter(|provider| is_there(provider)) {
        let (mut a, to_b, mut b, to_a) = two(provider);
        b.world.net_mut().held().limit_receives(2);
        let mut into = [[0u8; 4]; 3];
        let places = into.each_mut().map(|place| region_mut(place));
        post(&mut b, &wanted(Some(to_a), Some(1)), places[0], 0);
        post(&mut b, &wanted(Some(to_a), Some(2)), places[1], 1);
        let third = wanted(Some(to_a), Some(3));
        assert_eq!(matching(&mut b).post(&third, places[2], Token(2)), Err(Full));
        assert!(b.world.net_mut().held().is_crowded());
        for (tag, byte) in [(4, b"4444"), (3, b"3333"), (2, b"2222")] {
            send(&mut a, to_b, tag, byte, None);
        }
        let mut wants = |_, message: &TaggedMessage| message.match_bits.0 == 3;
        until(&mut [&mut a, &mut b], "the one without a place", |all| {
            matching(all[1]).claim_first(PtIndex(0), &mut wants, Token(9)).is_some()
        });
        matching(&mut b).take(Token(9), places[2]);
        until(&mut [&mut a, &mut b], "the one with a place", |all| met(all[1]).len() == 1);
        assert_eq!(met(&b), [(1, to_a, 2)]);
        matching(&mut b).nobody_waits(PtIndex(0));
        assert!(!b.world.net_mut().held().is_crowded(), "it was received in another way");
        post(&mut b, &third, places[2], 3);
        assert!(!b.world.net_mut().held().is_crowded());
        assert!(matching(&mut b).claim_first(PtIndex(0), &mut wants, Token(9)).is_none());
        assert_eq!(into, [[0; 4], *b"2222", *b"3333"]);
    }
}
