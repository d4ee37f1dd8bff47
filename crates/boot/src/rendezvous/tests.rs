//! Whole jobs whose ranks are threads, and those who try to disturb them.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);
/// Asleep.
fn waits(timeout: Duration) -> Waits {
    Waits { timeout, poll: None }
}

const KEY: &str = "open sesame";

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Of an address of its own, for a test that gives its port up: no other test gets it meanwhile.
fn listener_apart(last_byte: u8) -> TcpListener {
    TcpListener::bind((std::net::Ipv4Addr::new(127, 0, 0, last_byte), 0)).unwrap()
}

fn meeting(at: &TcpListener, rank: u32, size: u32) -> Meeting {
    let at = at.local_addr().unwrap().to_string();
    Meeting { at, key: KEY.into(), rank, size }
}

fn root(at: &TcpListener, size: u32, timeout: Duration) -> Result<Rendezvous, JobError> {
    let meeting = meeting(at, 0, size);
    Root::start_at(at.try_clone().unwrap(), &meeting, waits(timeout)).map(Rendezvous::Root)
}

fn member(at: &TcpListener, rank: u32, size: u32) -> Result<Rendezvous, JobError> {
    Rendezvous::start(&meeting(at, rank, size), waits(LONG))
}

/// Runs `body` as every rank, and returns what each made of it.
fn job<T: Send>(size: u32, body: impl Fn(u32, Result<Rendezvous, JobError>) -> T + Sync) -> Vec<T> {
    let at = listener();
    job_at(&at, size, body)
}

fn job_at<T: Send>(
    at: &TcpListener,
    size: u32,
    body: impl Fn(u32, Result<Rendezvous, JobError>) -> T + Sync,
) -> Vec<T> {
    let body = &body;
    thread::scope(|scope| {
        let ranks = (0..size).map(|rank| {
            scope.spawn(move || match rank {
                0 => body(0, root(at, size, LONG)),
                _ => body(rank, member(at, rank, size)),
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn bytes_of(rank: u32, round: u32) -> Vec<u8> {
    let len = [0, 1, 5000, BLOB_MAX][((rank + round) % 4) as usize];
    vec![(rank * 16 + round) as u8; len]
}

fn works(size: u32, met: Result<Rendezvous, JobError>, rank: u32) {
    let mut met = met.unwrap();
    for round in 0..4 {
        let all = met.exchange(&bytes_of(rank, round)).unwrap();
        assert!(all.len() == size as usize);
        for (rank, bytes) in (0..).zip(all) {
            assert!(bytes == bytes_of(rank, round), "rank {rank}, round {round}");
        }
        met.barrier().unwrap();
    }
    met.finish();
}

#[test]
fn ranks_meet_and_exchange() {
    for size in [1, 2, 5] {
        job(size, |rank, met| works(size, met, rank));
    }
}

#[test]
fn a_rank_may_come_before_rank_0_listens() {
    let spare = listener_apart(2);
    let at = spare.local_addr().unwrap();
    thread::scope(|scope| {
        let rank_1 = meeting(&spare, 1, 2);
        let rank_0 = meeting(&spare, 0, 2);
        // Hangs up on the first attempt, as if there were nobody.
        let early = scope.spawn(move || Rendezvous::start(&rank_1, waits(LONG)));
        drop(spare.accept().unwrap());
        drop(spare);
        let mut root =
            Rendezvous::start(&rank_0, waits(LONG)).unwrap_or_else(|e| panic!("{at}: {e}"));
        let mut early = early.join().unwrap().unwrap();
        scope.spawn(move || early.barrier().unwrap());
        root.barrier().unwrap();
    });
}

#[test]
fn a_wrong_key_is_refused_and_the_job_goes_on() {
    let at = listener();
    thread::scope(|scope| {
        let root = scope.spawn(|| works(2, root(&at, 2, LONG), 0));
        let wrong = Meeting { key: b"open barley".to_vec(), ..meeting(&at, 1, 2) };
        let text = Rendezvous::start(&wrong, waits(LONG)).err().expect("a refusal").to_string();
        assert!(text.contains("refused rank 1 of 2") && text.contains("SLUICE_JOB_KEY"), "{text}");
        works(2, member(&at, 1, 2), 1);
        root.join().unwrap();
    });
}

#[test]
fn wrong_sizes_and_unknown_ranks_are_refused_by_name() {
    let at = listener();
    thread::scope(|scope| {
        let root = scope.spawn(|| root(&at, 3, SHORT * 10).err().expect("nobody came").to_string());
        let text = member(&at, 1, 4).err().expect("a refusal").to_string();
        assert!(text.contains("rank 1 of 4") && text.contains("SLUICE_JOB_SIZE"), "{text}");
        // Only a faulty caller gets this far with it: the environment's reader refuses it.
        let text = member(&at, 3, 3).err().expect("a refusal").to_string();
        assert!(text.contains("no further rank 3"), "{text}");
        let text = root.join().unwrap();
        assert!(text.contains("ranks 1, 2 of 3 did not join"), "{text}");
        assert!(text.contains("rank 1 of a job of 4, unknown rank 3"), "{text}");
    });
}

#[test]
fn of_two_with_the_same_rank_one_is_refused() {
    let at = listener();
    let (refused, heard) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| works(3, root(&at, 3, LONG), 0));
        for _ in 0..2 {
            let (at, refused) = (&at, refused.clone());
            scope.spawn(move || match member(at, 1, 3) {
                Ok(met) => works(3, Ok(met), 1),
                Err(error) => refused.send(error.to_string()).unwrap(),
            });
        }
        let text = heard.recv_timeout(LONG).unwrap();
        assert!(text.contains("a rank 1 has joined already"), "{text}");
        works(3, member(&at, 2, 3), 2);
    });
}

#[test]
fn strangers_neither_stop_nor_stall_the_job() {
    let at = listener();
    let address = at.local_addr().unwrap();
    // More than may be pending: the oldest have to make room.
    let mut strangers: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (index, garbage) in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 4000],
        vec![0xff; 4000],
        frame(Tag::Welcome, &[0; 32]),
        frame(Tag::Proof, &[0; 32]),
        frame(Tag::Hello, b"SluiceJ"),
        frame(Tag::Hello, &[0; 64]),
        frame(Tag::Hello, b"SluiceJ3, which is to come"),
        b"\x05".to_vec(),
    ]
    .iter()
    .enumerate()
    {
        strangers[99 - index].write_all(garbage).unwrap();
    }
    job_at(&at, 5, |rank, met| works(5, met, rank));
    // A stranger is told nothing, but for one of another version.
    drop(at);
    for mut stranger in strangers {
        let mut said = Vec::new();
        let _ = stranger.read_to_end(&mut said);
        assert!(said.is_empty() || said == frame(Tag::Refused, &[1]), "{said:?}");
    }
}

/// Reads a frame of a rank that has not proved anything, or that nothing is known of.
fn first_frame(stream: TcpStream) -> (Conn, Frame) {
    let mut conn = Conn::new(stream, waits(LONG)).unwrap();
    let got = conn.recv(auth::BODY_MAX, Instant::now() + LONG).unwrap();
    (conn, got)
}

#[test]
fn who_listens_without_the_secret_gets_no_rank() {
    let at = listener();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut conn, hello) = first_frame(at.accept().unwrap().0);
            // Sends the rank's own words back.
            let until = Instant::now() + LONG;
            conn.send(&frame(Tag::Challenge, &hello.body[8..56]), until).unwrap();
        });
        let text = member(&at, 1, 2).err().expect("a refusal").to_string();
        assert!(text.contains("SLUICE_JOB_KEY"), "{text}");
    });
}

/// What a rank has said is said again, a hundred times, before it gets through itself. None of
/// those takes its seat, whatever follows.
#[test]
fn a_recorded_hello_takes_no_seat() {
    let (at, door) = (listener(), listener());
    thread::scope(|scope| {
        let rank_1 = scope.spawn(|| works(2, member(&door, 1, 2), 1));
        let (conn, hello) = first_frame(door.accept().unwrap().0);
        scope.spawn(|| works(2, root(&at, 2, LONG), 0));
        let replays: Vec<Conn> = (0..100)
            .map(|index| {
                let stream = TcpStream::connect(at.local_addr().unwrap()).unwrap();
                let mut replay = Conn::new(stream, waits(LONG)).unwrap();
                let until = Instant::now() + LONG;
                replay.send(&frame(Tag::Hello, &hello.body), until).unwrap();
                // Most wait for what follows; the others guess at it.
                if index % 4 == 0 {
                    let _ = replay.send(&frame(Tag::Proof, &[]), until);
                    let _ = replay.send(&[0; 21], until);
                }
                replay
            })
            .collect();
        // The rank comes to where it is heard.
        drop(conn);
        let mut near = door.accept().unwrap().0;
        let mut far = TcpStream::connect(at.local_addr().unwrap()).unwrap();
        let (mut back, mut forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        scope.spawn(move || {
            std::io::copy(&mut far, &mut back).map(|_| back.shutdown(std::net::Shutdown::Both))
        });
        scope.spawn(move || {
            std::io::copy(&mut near, &mut forth).map(|_| forth.shutdown(std::net::Shutdown::Both))
        });
        rank_1.join().unwrap();
        drop(replays);
    });
}

/// Everything between ranks passes by somebody who listens: neither the secret nor what they
/// exchange is in it.
#[test]
fn what_ranks_exchange_cannot_be_read_on_the_way() {
    let (at, door) = (listener(), listener());
    let secret = b"the secret of an address";
    let heard = thread::scope(|scope| {
        scope.spawn(|| {
            let mut met = root(&at, 2, LONG).unwrap();
            met.exchange(secret).unwrap();
        });
        let rank_1 = scope.spawn(|| {
            let mut met = member(&door, 1, 2).unwrap();
            assert_eq!(met.exchange(secret).unwrap()[0], secret);
        });
        let mut near = door.accept().unwrap().0;
        let mut far = TcpStream::connect(at.local_addr().unwrap()).unwrap();
        let (mut back, mut forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let down = scope.spawn(move || tap(&mut far, &mut back));
        let up = scope.spawn(move || tap(&mut near, &mut forth));
        rank_1.join().unwrap();
        [up.join().unwrap(), down.join().unwrap()].concat()
    });
    assert!(heard.len() > 200, "{} bytes", heard.len());
    for word in [&secret[..], KEY.as_bytes()] {
        assert!(!heard.windows(word.len()).any(|window| window == word));
    }
}

/// Hands on what one says to the other, and keeps it.
fn tap(from: &mut TcpStream, to: &mut TcpStream) -> Vec<u8> {
    let (mut heard, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(len @ 1..) = from.read(&mut chunk) {
        heard.extend(&chunk[..len]);
        if to.write_all(&chunk[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    heard
}

#[test]
fn a_changed_byte_ends_the_job_with_the_reason() {
    let (at, door) = (listener(), listener());
    thread::scope(|scope| {
        let rank_0 = scope.spawn(|| root(&at, 2, LONG).unwrap().barrier().unwrap_err());
        let rank_1 = scope.spawn(|| member(&door, 1, 2).unwrap().barrier().map(drop));
        let mut near = door.accept().unwrap().0;
        let mut far = TcpStream::connect(at.local_addr().unwrap()).unwrap();
        let (mut back, mut forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        scope.spawn(move || tap(&mut far, &mut back));
        scope.spawn(move || {
            // HELLO, PROOF, BARRIER.
            let lens = [5 + auth::BODY_MAX, 2 + 5 + auth::TAG_LEN, 2 + 5 + auth::TAG_LEN];
            for (index, len) in lens.into_iter().enumerate() {
                let mut bytes = vec![0; len];
                near.read_exact(&mut bytes).unwrap();
                bytes[6] ^= u8::from(index == 2);
                forth.write_all(&bytes).unwrap();
            }
            tap(&mut near, &mut forth);
        });
        let error = rank_0.join().unwrap();
        assert!(error.to_string().contains("secret does not open"), "{error}");
        assert!(rank_1.join().unwrap().is_err());
    });
}

/// A length is not believed, nor is the other side waited for.
#[test]
fn strangers_whose_frames_cannot_be_are_dropped_at_once() {
    let at = listener();
    thread::scope(|scope| {
        let root = scope.spawn(|| works(2, root(&at, 2, LONG), 0));
        let mut strangers = Vec::new();
        for head in [[0xff, 0xff, 0xff, 0x7f, 1], [65, 0, 0, 0, 1], [64, 0, 0, 0, 77]] {
            let mut stranger = TcpStream::connect(at.local_addr().unwrap()).unwrap();
            stranger.write_all(&head).unwrap();
            // It is dropped at once, and told nothing.
            assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0);
            strangers.push(stranger);
        }
        works(2, member(&at, 1, 2), 1);
        root.join().unwrap();
    });
}

#[test]
fn nobody_to_join_is_an_error_that_says_where() {
    let at = listener_apart(3);
    let rank_1 = meeting(&at, 1, 2);
    drop(at);
    let error = Rendezvous::start(&rank_1, waits(SHORT)).err().expect("nobody listens");
    let text = error.to_string();
    assert!(matches!(error, JobError::Unreachable { rank: 1, .. }), "{text}");
    assert!(text.contains(&rank_1.at), "{text}");
}

#[test]
fn a_rank_that_does_not_come_is_named_to_all() {
    let at = listener();
    thread::scope(|scope| {
        let one = scope.spawn(|| member(&at, 1, 3).err().expect("rank 2 is missing"));
        let error = root(&at, 3, SHORT * 5).err().expect("rank 2 is missing");
        assert!(error.to_string().contains("rank 2 of 3 did not join"), "{error}");
        let error = one.join().unwrap();
        assert!(matches!(error, JobError::RankFailed { rank: 2, .. }), "{error}");
    });
}

#[test]
fn a_rank_that_dies_after_an_exchange_is_named_to_all() {
    for dying in [0, 3] {
        job(5, |rank, met| {
            let mut met = met.unwrap();
            met.exchange(&[rank as u8]).unwrap();
            if rank == dying {
                return;
            }
            let error = met.barrier().unwrap_err();
            assert!(matches!(error, JobError::RankFailed { rank, .. } if rank == dying), "{error}");
        });
    }
}

#[test]
fn a_rank_that_stays_away_is_named_to_all() {
    let at = listener();
    let done = std::sync::Barrier::new(3);
    thread::scope(|scope| {
        for rank in [1, 2] {
            let (at, done) = (&at, &done);
            scope.spawn(move || {
                let mut met = member(at, rank, 3).unwrap();
                if rank == 1 {
                    let error = met.barrier().unwrap_err();
                    assert!(matches!(error, JobError::RankFailed { rank: 2, .. }), "{error}");
                }
                done.wait();
            });
        }
        let mut met = root(&at, 3, SHORT * 5).unwrap();
        let error = met.barrier().unwrap_err();
        assert!(matches!(error, JobError::RankFailed { rank: 2, .. }), "{error}");
        done.wait();
    });
}

#[test]
fn an_abort_reaches_all_with_its_reason() {
    for aborting in [0, 2] {
        job(4, |rank, met| {
            let mut met = met.unwrap();
            if rank == aborting {
                return met.abort(17, "out of beans");
            }
            let text = met.barrier().unwrap_err().to_string();
            let expected = format!("rank {aborting} aborted the job with code 17: out of beans");
            assert_eq!(text, expected);
        });
    }
}

#[test]
fn different_calls_and_an_early_end_are_told_apart() {
    for (early, expected) in [(false, "it called a barrier instead"), (true, "it finished")] {
        job(3, |rank, met| {
            let mut met = met.unwrap();
            if rank == 1 && early {
                return met.finish();
            }
            let result = if rank == 1 { met.barrier() } else { met.exchange(b"x").map(drop) };
            let error = result.unwrap_err();
            assert!(matches!(error, JobError::RankFailed { rank: 1, .. }), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        });
    }
}
