//! A relay that delays what passes a cable: for kernels without `netem`.
//!
//! The port of a switch that leads to a host is taken from its bridge. Two VXLAN devices
//! in the head take its place, one beside the port and one in the switch. Each sends what
//! it gets to this process, by UDP. The process keeps each packet for the delay and sends
//! it to the other device. It is a process of the head, with a network namespace of its
//! own (VXLAN sends nothing to its own namespace), and ends with the lab.

use crate::checksum;
use crate::directory::Lab;
use crate::enter::{Host, in_network};
use crate::network::relay_ip;
use crate::place::Place;
use crate::programs::batch;
use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Command, Stdio};
use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Most packets that one direction keeps. What comes beyond is lost, as in a router.
const KEPT_MAX: usize = 16_384;
/// What may arrive while the process does not run.
const SOCKET_BYTES: usize = 32 << 20;
/// How long an answer of a relay may take.
const ANSWER_SECONDS: u64 = 10;

/// What a relay is told, as text. A VXLAN packet begins with a byte 8, a text does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// How long is the delay?
    Ask,
    /// Delay from now on.
    Delay(Duration),
    /// End.
    End,
}

/// Relays, until it is told to end. The calling process has a network of its own.
pub fn relay(host: u32, rail: u32, delay: Duration) -> Result<()> {
    let place = Place::of(host, rail);
    batch("ip", &relay_ip(host, rail))?;
    let [near, far] = place.ports().map(|port| SocketAddrV4::new(place.relay(), port));
    let (near, far) = (listen(near)?, listen(far)?);
    let [to_near, to_far] = place.ports().map(|port| SocketAddrV4::new(place.devices(), port));
    let delay = Arc::new(AtomicU64::new(nanos(delay)));
    println!("ready");
    // Each sends from the socket that is the other end's.
    let back = Direction::new(near.try_clone()?, to_near, &delay);
    let there = Direction::new(far.try_clone()?, to_far, &delay);
    thread::spawn(move || back.carry(&far));
    // What is told comes to this one.
    there.carry(&near)?;
    // Its device is deleted from the other side, and must not go before that: only then is
    // there no way to this place any more.
    let other = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    while other.connect(to_near).is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The delay of each rail of a host; none where there is no relay.
pub fn delays(lab: &Lab, host: u32) -> Result<Vec<Duration>> {
    if lab.plan.is_pair() {
        return Ok(vec![Duration::ZERO; lab.plan.rates.len()]);
    }
    let ask = |rail| Ok(say(host, rail, Word::Ask)?.unwrap_or_default());
    in_network(lab, Host::Head, || (0..lab.plan.rails()).map(ask).collect())
}

/// Tells a relay something; gives its delay, or `None` if there is no relay.
pub fn tell(lab: &Lab, host: u32, rail: u32, word: Word) -> Result<Option<Duration>> {
    in_network(lab, Host::Head, || say(host, rail, word))
}

/// Starts a relay in the head, and waits until it listens.
pub fn start(lab: &Lab, host: u32, rail: u32, delay: Duration) -> Result<()> {
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let [host, rail] = [host, rail].map(|number| number.to_string());
    // The shell leaves it to the first process of the head.
    let script = "setsid unshare --net -- \"$0\" lab relay \"$@\" </dev/null 2>/dev/null &";
    let mut child = Command::new(&program)
        .args(["lab", "exec", "--name", &lab.plan.name, "head", "--", "sh", "-c", script])
        .arg(&program)
        .args([host, rail, nanos(delay).to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("no relay can be started")?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    child.wait()?;
    ensure!(line == "ready\n", "the relay did not start");
    Ok(())
}

/// One direction: what is kept goes out from a socket to an address.
struct Direction {
    delay: Arc<AtomicU64>,
    kept: SyncSender<(Instant, Vec<u8>)>,
}

impl Direction {
    fn new(from: UdpSocket, to: SocketAddrV4, delay: &Arc<AtomicU64>) -> Direction {
        let (kept, due) = sync_channel(KEPT_MAX);
        thread::spawn(move || send_when_due(&due, &from, to));
        Direction { delay: Arc::clone(delay), kept }
    }

    /// Takes what arrives, until it is told to end.
    fn carry(&self, socket: &UdpSocket) -> Result<()> {
        let mut packet = vec![0; 1 << 16];
        loop {
            let (len, sender) = socket.recv_from(&mut packet)?;
            let word = Word::read(&packet[..len]);
            match word {
                None => {
                    let due = Instant::now() + self.delay();
                    checksum::complete(&mut packet[..len]);
                    match self.kept.try_send((due, packet[..len].to_vec())) {
                        Ok(()) | Err(TrySendError::Full(_)) => continue,
                        Err(TrySendError::Disconnected(_)) => bail!("a thread has ended"),
                    }
                }
                Some(Word::Delay(delay)) => self.delay.store(nanos(delay), Ordering::Relaxed),
                Some(Word::Ask | Word::End) => {}
            }
            socket.send_to(Word::Delay(self.delay()).text().as_bytes(), sender)?;
            if word == Some(Word::End) {
                return Ok(());
            }
        }
    }

    fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay.load(Ordering::Relaxed))
    }
}

impl Word {
    fn text(self) -> String {
        match self {
            Word::Ask => "ask".to_owned(),
            Word::Delay(delay) => format!("delay {}", nanos(delay)),
            Word::End => "end".to_owned(),
        }
    }

    fn read(packet: &[u8]) -> Option<Word> {
        match packet {
            b"ask" => Some(Word::Ask),
            b"end" => Some(Word::End),
            _ => {
                let number = str::from_utf8(packet.strip_prefix(b"delay ")?).ok()?;
                Some(Word::Delay(Duration::from_nanos(number.parse().ok()?)))
            }
        }
    }
}

fn send_when_due(due: &Receiver<(Instant, Vec<u8>)>, from: &UdpSocket, to: SocketAddrV4) {
    for (when, packet) in due {
        thread::sleep(when.saturating_duration_since(Instant::now()));
        // The device may be gone: then the packet is lost.
        let _ = from.send_to(&packet, to);
    }
}

/// Tells a relay something, in the head's network.
fn say(host: u32, rail: u32, word: Word) -> Result<Option<Duration>> {
    let place = Place::of(host, rail);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    match socket.connect((place.relay(), place.ports()[0])) {
        Err(error) if error.kind() == ErrorKind::NetworkUnreachable => return Ok(None),
        connected => connected?,
    }
    socket.set_read_timeout(Some(Duration::from_secs(ANSWER_SECONDS)))?;
    socket.send(word.text().as_bytes())?;
    let mut answer = [0; 64];
    match socket.recv(&mut answer) {
        Ok(len) => match Word::read(&answer[..len]) {
            Some(Word::Delay(delay)) => Ok(Some(delay)),
            _ => bail!("a relay answers something else"),
        },
        Err(error) => Err(error).context("a relay does not answer"),
    }
}

fn listen(address: SocketAddrV4) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address).context("the relay cannot listen")?;
    set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)?;
    Ok(socket)
}

/// A time in nanoseconds.
pub fn nanos(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HOSTS_MAX;
    use crate::plan::RAILS_MAX;
    use std::collections::BTreeSet;

    #[test]
    fn every_relay_has_a_place_of_its_own() {
        let hosts = 0..HOSTS_MAX;
        let all = hosts.flat_map(|host| (0..RAILS_MAX).map(move |rail| Place::of(host, rail)));
        let places: Vec<Place> = all.collect();
        let ports: BTreeSet<u16> = places.iter().flat_map(|place| place.ports()).collect();
        let networks = places.iter().map(|place| (place.devices(), place.relay()));
        assert_eq!(ports.len(), 2 * places.len());
        assert_eq!(networks.collect::<BTreeSet<_>>().len(), places.len());
        // Below those that the system gives to sockets by itself.
        assert!(ports.iter().all(|&port| port < 32_768));
        assert_eq!(Place::of(2, 1).relay(), Ipv4Addr::new(10, 43, 1, 6));
    }

    #[test]
    fn a_relay_reads_what_it_is_told_and_takes_no_packet_for_it() {
        for word in [Word::Ask, Word::End, Word::Delay(Duration::from_micros(250))] {
            assert_eq!(Word::read(word.text().as_bytes()), Some(word));
        }
        for packet in [&b"\x08\0\0\0\0\0\x01\0"[..], b"", b"delay x", b"asks"] {
            assert_eq!(Word::read(packet), None);
        }
    }
}
