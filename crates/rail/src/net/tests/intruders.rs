//! Who connects without having the address of the process, and what it can do: nothing.

use super::{MODES, Process, loopback, until};
use crate::address::Secret;
use crate::net::allowance::BURST;
use crate::net::devices::IpNet;
use crate::net::handshake::{Device, Hello, Identity, Initiator, Responder, Security};
use crate::net::join::EXCUSED_MAX;
use crate::net::strangers::{STRANGERS_MAX, STRANGERS_NAMED};
use crate::net::{Entry, NetConfig};
use crate::shm::{Config, Warn};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use sluice_link::{Connect, Grant, Opened, PeerError, Transport};
use sluice_wire::PeerId;
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

thread_local! {
    static LINES: Cell<u64> = const { Cell::new(0) };
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Connects from an address of its own, so that each sort of stranger is another host.
fn stranger(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::new(IpAddr::V4(from.into()), 0)).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true).unwrap();
    stream
}

/// A process that is attacked, one that it speaks with meanwhile, and how far they got.
struct Scene {
    a: Process,
    b: Process,
    to_a: PeerId,
    to_b: PeerId,
    seq: u32,
    at: SocketAddr,
    /// What the attacked one has when nobody attacks: descriptors and peers.
    before: (usize, usize),
}

impl Scene {
    fn new() -> Scene {
        Scene::with(Security::Auth)
    }

    fn with(security: Security) -> Scene {
        Scene::with_room(security, Config::default().senders_max)
    }

    fn with_room(security: Security, senders_max: u16) -> Scene {
        let warn = Warn(|line| {
            LINES.set(LINES.get() + 1);
            SAID.with_borrow_mut(|said| said.push(line.to_owned()));
        });
        LINES.set(0);
        SAID.take();
        let slots_max = Config::default().slots_max.max(u32::from(senders_max) << 9);
        let config = Config { warn, senders_max, slots_max, ..Config::default() };
        let net = NetConfig { security, ..NetConfig::with_devices(vec![loopback(1)]) };
        let mut a = Process::with_both(config, net.clone());
        let mut b = Process::with(net);
        let (to_b, to_a) = (a.knows(&b), b.knows(&a));
        assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
        assert_eq!(b.world.connect(to_a), Ok(Connect::Pending));
        until(&mut [&mut a, &mut b], "the connection", |all| {
            all.iter().all(|process| !process.machine.connected.is_empty())
        });
        let at = a.world.address().host().unwrap();
        let mut scene = Scene { a, b, to_a, to_b, seq: 0, at, before: (0, 0) };
        scene.speak();
        // Of two attempts that have met one is left.
        scene.until("the other attempt's end", |scene| {
            let mut entries = scene.a.world.net().unwrap().entries.iter();
            entries.all(|(_, entry)| !matches!(entry, Entry::Joining(_)))
        });
        scene.before = scene.has();
        scene
    }

    fn has(&self) -> (usize, usize) {
        let net = self.a.world.net().unwrap();
        (net.entries.len(), net.remotes.iter().flatten().count())
    }

    fn strangers(&self) -> u64 {
        self.a.world.net().unwrap().stats().strangers
    }

    fn poll(&mut self) {
        self.a.poll();
        self.b.poll();
    }

    fn until(&mut self, what: &str, mut is_so: impl FnMut(&Scene) -> bool) {
        let begin = std::time::Instant::now();
        while !is_so(self) {
            self.poll();
            assert!(begin.elapsed() < super::PATIENCE, "waited in vain: {what}");
        }
    }

    /// One packet each way.
    fn speak(&mut self) {
        let (seq, bytes) = (self.seq, self.seq.to_le_bytes());
        self.seq += 1;
        self.a.send(self.to_b, seq, &bytes);
        self.b.send(self.to_a, seq, &bytes);
        self.until("the packets", |scene| {
            [&scene.a, &scene.b].iter().all(|process| !process.machine.packets.is_empty())
        });
        for (process, from) in [(&mut self.a, self.to_b), (&mut self.b, self.to_a)] {
            assert_eq!(process.machine.packets.drain(..).as_slice(), [(from, seq, bytes.to_vec())]);
        }
    }

    /// Nobody is there any more but those who were, and they go on.
    fn check(&mut self, strangers: u64) {
        self.until("the strangers' end", |scene| scene.has().0 == scene.before.0);
        self.speak();
        assert_eq!(self.strangers(), strangers);
        assert_eq!(self.has().0, self.before.0);
        let net = self.a.world.net().unwrap();
        assert!(net.strangers.is_empty() && net.entries.capacity() < 4 * STRANGERS_MAX);
        assert!([&self.a, &self.b].iter().all(|process| process.machine.gone.is_empty()));
        assert_eq!((net.stats().violations, net.stats().broken), (0, 0));
        let most = STRANGERS_NAMED + u64::from(u64::BITS);
        assert!(LINES.get() <= most, "{} lines", LINES.get());
    }
}

fn hello(own: &Identity) -> Hello {
    let host = own.address().host().unwrap();
    Hello {
        address: own.address(),
        attempt: 1,
        user: 0,
        label: 0,
        opened: Opened {
            grant: Grant { data_slots: 64, control_slots: 8, credit_slots: 8 },
            dynamic_slots: 0,
        },
        own_device: 0,
        peer_device: None,
        devices: vec![Device {
            index: 0,
            addresses: IpNet::new(host.ip(), 24).unwrap().into(),
            port: host.port(),
            mbit_per_s: 10_000,
        }],
        fabric: None,
    }
}

/// A process that is nowhere, at a port that nobody listens at.
fn nobody() -> Identity {
    let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 77));
    Identity::generate().unwrap().at(SocketAddr::new(ip, 9)).unwrap()
}

/// What each sort of stranger says to a process of this mode.
fn sorts(scene: &Scene, mode: Security) -> Vec<(&'static str, Vec<u8>)> {
    let own = nobody();
    let right = scene.a.world.address();
    let other = Identity::generate().unwrap().at(scene.at).unwrap().address();
    let guessed = right.with_network(scene.at, Secret([7; 6])).unwrap();
    let ask = |to, mode| Initiator::new(&own, to, mode, &hello(&own)).unwrap().1;
    let good = ask(&right, mode);
    let [one, other_mode] = match mode {
        Security::None => [Security::Auth, Security::Encrypt],
        Security::Auth => [Security::None, Security::Encrypt],
        Security::Encrypt => [Security::None, Security::Auth],
    };
    let mut old = good.clone();
    old[4] = 0;
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let tls = [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[5; 506]].concat();
    let mut sorts = vec![
        ("a port scan", Vec::new()),
        ("garbage", (0..3000_u32).map(|at| ((at * at) >> 3) as u8).collect()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("TLS", tls),
        ("a wrong key", ask(&other, mode)),
        ("an old version", old),
        ("another mode", ask(&right, one)),
        ("yet another mode", ask(&right, other_mode)),
        ("damage", damaged),
        ("a wrong proof", [good, vec![9; 100]].concat()),
    ];
    if mode != Security::None {
        sorts.push(("a wrong secret", ask(&guessed, mode)));
    }
    sorts
}

/// Writes what the system takes; the other end may have closed the connection.
fn say(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write(bytes);
}

#[test]
fn strangers_of_all_sorts_are_counted_and_nothing_else_happens() {
    of_all_sorts(Security::Auth, 100);
}

#[test]
fn strangers_are_so_too_however_connections_are_protected() {
    of_all_sorts(Security::Encrypt, 10);
    of_all_sorts(Security::None, 10);
}

fn of_all_sorts(mode: Security, rounds: u8) {
    let mut scene = Scene::with(mode);
    let mut count = 0;
    for (sort, (what, bytes)) in (10..).zip(sorts(&scene, mode)) {
        for round in 0..rounds {
            // In tens, from several hosts.
            let mut there: Vec<TcpStream> =
                (0..10).map(|_| stranger([127, 1, sort, 1 + round / 50], scene.at)).collect();
            there.iter_mut().for_each(|stream| say(stream, &bytes));
            scene.poll();
            drop(there);
            count += 10;
            scene.until(what, |scene| scene.strangers() >= count);
        }
        scene.check(count);
    }
    // Who had asked rightly, and proved nothing, is known by its address.
    assert_eq!(scene.has().1, scene.before.1 + 1);
}

#[test]
fn half_a_handshake_is_none_however_much_of_it_comes() {
    MODES.into_iter().for_each(half_a_handshake);
}

fn half_a_handshake(mode: Security) {
    let mut scene = Scene::with(mode);
    let own = nobody();
    let (_, ask) = Initiator::new(&own, &scene.a.world.address(), mode, &hello(&own)).unwrap();
    let mut count = 0;
    for len in 0..ask.len() {
        let mut stream = stranger([127, 1, 2, 3], scene.at);
        say(&mut stream, &ask[..len]);
        drop(stream);
        count += 1;
        scene.until("its end", |scene| scene.strangers() == count);
    }
    scene.check(count);
}

/// What a peer has sent at its first contact is sent again, by others and a thousand times:
/// the ask alone, and with the proof behind it, which is none without protection.
#[test]
fn what_a_peer_was_heard_to_say_is_of_no_use() {
    for mode in MODES {
        what_was_recorded_is_of_no_use(mode, false);
    }
    what_was_recorded_is_of_no_use(Security::Auth, true);
    what_was_recorded_is_of_no_use(Security::Encrypt, true);
}

fn what_was_recorded_is_of_no_use(mode: Security, with_proof: bool) {
    let mut scene = Scene::with(mode);
    let peer = scene.b.world.net().unwrap().identity.clone();
    let to = scene.a.world.address();
    let (_, ask) = Initiator::new(&peer, &to, mode, &hello(&peer)).unwrap();
    let recorded = if with_proof { [ask, a_proof_of_before(&scene, mode)].concat() } else { ask };
    // The first asks that come to nothing may be a peer's that has lost to itself. A wrong proof
    // is nobody's.
    let excused = if with_proof { 0 } else { EXCUSED_MAX as u64 };
    for nth in 0..excused + 1000 {
        let mut stream = stranger([127, 1, 2, 20 + (nth / 300) as u8], scene.at);
        say(&mut stream, &recorded);
        let (mut answer, mut bytes) = (0, [0; 1024]);
        scene.until("the answer", |_| {
            // Non-blocking, so what is there is taken.
            answer += (&stream).read(&mut bytes).unwrap_or_default();
            answer > 0
        });
        drop(stream);
        let wanted = (nth + 1).saturating_sub(excused);
        scene.until("the count", |scene| scene.strangers() >= wanted);
    }
    scene.check(1000);
    assert_eq!(scene.has(), scene.before);
    let said = SAID.take();
    assert!(said.iter().all(|line| line.contains("prove")), "{said:?}");
}

/// The proof that ended an earlier handshake of the same two.
fn a_proof_of_before(scene: &Scene, mode: Security) -> Vec<u8> {
    let own = scene.b.world.net().unwrap().identity.clone();
    let other = scene.a.world.net().unwrap().identity.clone();
    let to = scene.a.world.address();
    let (mut initiator, ask) = Initiator::new(&own, &to, mode, &hello(&own)).unwrap();
    let mut responder = Responder::new(&other, mode);
    let (asked, _) = responder.take(&ask).unwrap().unwrap();
    let (_, answer) = asked.accept(&hello(&other)).unwrap();
    initiator.take(&answer).unwrap().unwrap().0.proof
}

#[test]
fn one_byte_at_a_time_gets_nobody_further() {
    let mut scene = Scene::new();
    let mut slow: Vec<TcpStream> =
        (0..STRANGERS_MAX).map(|_| stranger([127, 1, 2, 5], scene.at)).collect();
    scene.until("all to be taken", |scene| {
        scene.a.world.net().unwrap().strangers.len() == STRANGERS_MAX
    });
    let bytes = sorts(&scene, Security::Auth).remove(4).1;
    for byte in &bytes[..bytes.len() - 1] {
        slow.iter_mut().for_each(|stream| say(stream, &[*byte]));
        scene.poll();
    }
    assert_eq!(scene.strangers(), 0);
    scene.speak();
    // Their time is over.
    let now = scene.a.world.refresh_now();
    let late = sluice_wire::Nanos(now.0 + crate::net::strangers::STRANGER_NS + 1);
    scene.a.world.net_mut().poll(late, &mut |_| None);
    scene.until("their end", |scene| scene.strangers() == STRANGERS_MAX as u64);
    assert_eq!(scene.has(), scene.before);
}

#[test]
fn a_newcomer_gets_in_while_a_thousand_strangers_hang_around() {
    let mut scene = Scene::new();
    let mut there = std::collections::VecDeque::new();
    let mut c = Process::with(NetConfig::with_devices(vec![loopback(1)]));
    let mut newcomer = None;
    for at in 0..1000 {
        there.push_back(stranger([127, 1, 3, (at % 200) as u8 + 1], scene.at));
        if there.len() > 300 {
            there.pop_front();
        }
        if at == 500 {
            let to_a = c.knows(&scene.a);
            newcomer = Some(to_a);
            assert_eq!(c.world.connect(to_a), Ok(Connect::Pending));
        }
        scene.poll();
        c.poll();
        let net = scene.a.world.net().unwrap();
        assert!(net.strangers.len() <= STRANGERS_MAX);
        assert!(net.entries.len() <= STRANGERS_MAX + scene.before.0 + 2);
    }
    // They stay, and it gets in among them before their time is over.
    until(&mut [&mut scene.a, &mut scene.b, &mut c], "the newcomer", |all| {
        all[2].machine.connected == [newcomer.unwrap()]
    });
    drop(there);
    until(&mut [&mut scene.a, &mut scene.b, &mut c], "the strangers' end", |all| {
        all[0].world.net().unwrap().strangers.is_empty()
    });
    assert_eq!(scene.has().0, scene.before.0 + 1);
    scene.speak();
}

/// What it costs to find that an ask is no good is spent for so many of them only.
#[test]
fn a_host_that_asks_in_vain_all_the_time_is_not_listened_to_any_more() {
    let mut scene = Scene::new();
    let bad = sorts(&scene, Security::Auth).remove(4).1;
    let from = [127, 1, 2, 6];
    let ip = IpAddr::V4(from.into());
    let mut answered = 0;
    let begin = scene.a.world.refresh_now();
    for count in 1..=2 * u64::from(BURST) {
        let mut stream = stranger(from, scene.at);
        say(&mut stream, &bad);
        scene.until("its end", |scene| scene.strangers() == count);
        let mut bytes = [0; 100];
        answered += u64::from(matches!(stream.read(&mut bytes), Ok(got) if got > 0));
    }
    let now = scene.a.world.refresh_now();
    let refilled = now.since(begin).0 / crate::net::allowance::REFILL_NS + 1;
    assert!(answered <= u64::from(BURST) + refilled, "{answered} were looked at");
    let allowances = &mut scene.a.world.net_mut().allowances;
    let late = sluice_wire::Nanos(now.0 + 3_600_000_000_000);
    assert!(allowances.may_ask(late, ip), "not for ever");
    // Others are listened to.
    let mut c = Process::new(1);
    let to_a = c.knows(&scene.a);
    assert_eq!(c.world.connect(to_a), Ok(Connect::Pending));
    until(&mut [&mut scene.a, &mut c], "a newcomer", |all| !all[1].machine.connected.is_empty());
}

/// What an honest process does at its first contact, by a port of its own: asks, hears the
/// answer, proves. Its first ask may have lost to another one.
struct Honest {
    identity: Identity,
    stream: TcpStream,
    initiator: Initiator,
    has_proved: bool,
    is_losing: bool,
}

impl Honest {
    fn new(scene: &Scene, identity: &Identity, is_losing: bool) -> Honest {
        let to = scene.a.world.address();
        let (initiator, ask) =
            Initiator::new(identity, &to, Security::Auth, &hello(identity)).unwrap();
        let mut stream = stranger([127, 1, 2, 8], scene.at);
        say(&mut stream, &ask);
        let identity = identity.clone();
        Honest { identity, stream, initiator, has_proved: false, is_losing }
    }

    /// Takes what has come. Says whether its part is over.
    fn poll(&mut self) -> bool {
        let mut bytes = [0; 1024];
        let Ok(got) = self.stream.read(&mut bytes) else { return false };
        if let Some((answered, _)) = self.initiator.take(&bytes[..got]).unwrap() {
            if !self.is_losing {
                say(&mut self.stream, &answered.proof);
                self.has_proved = true;
            }
            return true;
        }
        false
    }
}

#[test]
fn a_thousand_honest_first_contacts_of_one_host_are_no_strangers() {
    const COUNT: usize = 1000;
    // With those that have lost, and are not yet known to have, no more than are waited for at
    // once: nobody has to make room on a busy machine.
    const AT_ONCE: usize = 25;
    let mut scene = Scene::with_room(Security::Auth, COUNT as u16 + 10);
    let mut met = Vec::new();
    for _ in 0..COUNT / AT_ONCE {
        let mut there: Vec<Honest> =
            (0..AT_ONCE).map(|_| Honest::new(&scene, &nobody(), true)).collect();
        let begin = std::time::Instant::now();
        while !there.is_empty() {
            scene.poll();
            for at in (0..there.len()).rev() {
                if !there[at].poll() {
                    continue;
                }
                let done = there.swap_remove(at);
                if done.has_proved {
                    met.push(done.stream);
                } else {
                    // Its ask has lost to another one, which follows.
                    drop(done.stream);
                    there.push(Honest::new(&scene, &done.identity, false));
                }
            }
            assert!(begin.elapsed() < super::PATIENCE);
        }
    }
    assert_eq!(met.len(), COUNT);
    let ip = IpAddr::V4([127, 1, 2, 8].into());
    let net = scene.a.world.net_mut();
    let now = net.now;
    assert!(net.allowances.has_all(now, ip), "honest contacts are free");
    assert_eq!((scene.strangers(), SAID.take()), (0, Vec::new()));
}

/// Who comes while as many as are waited for have just come waits for them.
#[test]
fn nobody_makes_room_before_having_had_time() {
    let mut scene = Scene::new();
    let there: Vec<TcpStream> =
        (0..STRANGERS_MAX + 1).map(|_| stranger([127, 1, 2, 9], scene.at)).collect();
    let net = scene.a.world.net_mut();
    let now = sluice_wire::Nanos(net.now.0 + 3_600_000_000_000);
    let begin = std::time::Instant::now();
    while net.accept_later.is_empty() {
        net.poll(now, &mut |_| None);
        assert!(begin.elapsed() < super::PATIENCE);
    }
    assert_eq!((net.strangers.len(), net.stats().strangers), (STRANGERS_MAX, 0));
    assert_eq!(net.accept_later.len(), 1, "one waits");
    let late = sluice_wire::Nanos(now.0 + crate::net::strangers::GRACE_NS + 1_000_000);
    net.poll(late, &mut |_| None);
    assert_eq!((net.strangers.len(), net.stats().strangers), (STRANGERS_MAX, 1));
    assert!(net.accept_later.is_empty());
    drop(there);
}

/// A peer with several rails that ends at once may have begun to open some of them.
#[test]
fn what_a_peer_had_begun_to_open_at_its_end_is_no_stranger() {
    LINES.set(0);
    let warn = Warn(|_| LINES.set(LINES.get() + 1));
    let config = Config { warn, ..Config::default() };
    let mut a = Process::with_both(config, NetConfig::with_devices(vec![loopback(1), loopback(2)]));
    let mut b = Process::new(2);
    let to_a = b.knows(&a);
    assert_eq!(b.world.connect(to_a), Ok(Connect::Pending));
    until(&mut [&mut a, &mut b], "the connection", |all| !all[1].machine.connected.is_empty());
    let at = a.world.address().host().unwrap();
    let begun = stranger([127, 0, 2, 1], at);
    drop(b);
    until(&mut [&mut a], "its end", |all| all[0].world.net().unwrap().active.is_empty());
    drop(begun);
    let later = stranger([127, 0, 2, 1], at);
    drop(later);
    for _ in 0..1000 {
        a.poll();
    }
    until(&mut [&mut a], "the end of what it began", |all| {
        all[0].world.net().unwrap().strangers.is_empty()
    });
    assert_eq!((a.world.net().unwrap().stats().strangers, LINES.get()), (0, 0));
}

#[test]
fn a_peer_that_says_nothing_and_goes_has_lost_to_its_own_other_attempt() {
    let mut scene = Scene::new();
    for _ in 0..STRANGERS_MAX / 2 {
        // The address of the other process's device.
        drop(stranger([127, 0, 1, 1], scene.at));
    }
    let taken = |scene: &Scene| scene.a.world.net().unwrap().strangers.len();
    for _ in 0..1000 {
        scene.poll();
    }
    scene.until("their end", |scene| taken(scene) == 0);
    scene.check(0);
    assert_eq!(LINES.get(), 0);
}

/// Both say what differs, where it is set, and neither tries for ever.
#[test]
fn peers_of_other_modes_refuse_each_other_at_once_and_say_why() {
    for (of_a, of_b) in [
        (Security::Auth, Security::Encrypt),
        (Security::Encrypt, Security::None),
        (Security::None, Security::Auth),
    ] {
        SAID.take();
        let warn = Warn(|line| SAID.with_borrow_mut(|said| said.push(line.to_owned())));
        let process = |security| {
            let net = NetConfig { security, ..NetConfig::with_devices(vec![loopback(1)]) };
            Process::with_both(Config { warn, ..Config::default() }, net)
        };
        let (mut a, mut b) = (process(of_a), process(of_b));
        let to_b = a.knows(&b);
        assert_eq!(a.world.connect(to_b), Ok(Connect::Pending));
        until(&mut [&mut a, &mut b], "the refusal", |all| !all[0].machine.gone.is_empty());
        assert_eq!(a.machine.gone, [(to_b, PeerError::Refused)]);
        assert_eq!((b.machine.gone.len(), b.machine.connected.len()), (0, 0));
        let said = SAID.take();
        assert_eq!(said.len(), 2, "{said:?}");
        for line in said {
            let named = line.contains(&of_a.to_string()) && line.contains(&of_b.to_string());
            assert!(named && line.contains("set FI_SLUICE_SECURITY to the same"), "{line}");
        }
    }
}

/// A process has as many peers as its mailbox has room for, and those that have ended
/// take none of it.
#[test]
fn peers_that_have_ended_make_room_for_others() {
    let config = Config { senders_max: 2, ..Config::default() };
    let mut a = Process::with_both(config, NetConfig::with_devices(vec![loopback(1)]));
    for _ in 0..6 {
        let mut b = Process::new(1);
        let to_a = b.knows(&a);
        assert_eq!(b.world.connect(to_a), Ok(Connect::Pending));
        until(&mut [&mut a, &mut b], "the connection", |all| {
            !all[1].machine.connected.is_empty() || !all[1].machine.gone.is_empty()
        });
        assert_eq!(b.machine.gone, []);
        let conns = |process: &Process| {
            let net = process.world.net().unwrap();
            net.entries.iter().filter(|(_, entry)| matches!(entry, Entry::Conn(_))).count()
        };
        until(&mut [&mut a], "it too", |all| conns(all[0]) == 1);
        drop(b);
        until(&mut [&mut a], "its end", |all| conns(all[0]) == 0);
        until(&mut [&mut a], "its end", |all| all[0].world.net().unwrap().active.is_empty());
    }
}

#[test]
fn a_socket_that_the_system_has_closed_is_no_surprise() {
    let mut scene = Scene::new();
    for _ in 0..50 {
        let stream = stranger([127, 1, 2, 7], scene.at);
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
        drop(stream);
    }
    scene.until("their end", |scene| scene.strangers() == 50);
    scene.check(50);
    let stream = stranger([127, 1, 2, 7], scene.at);
    let mut bytes = [0; 1];
    let got = (&stream).read(&mut bytes);
    assert!(got.is_err_and(|cause| cause.kind() == ErrorKind::WouldBlock));
}
