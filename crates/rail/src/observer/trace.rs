//! The last things that happened to a process, and the file that they go to when all is
//! closed. `sluice trace` reads it; what is in it is in `docs/configuration.md`.

use crate::snapshot::quoted;
use sluice_wire::{Decline, Found, Nanos, Packet, Parsed, PeerId, Waiting, slots_for};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// The version of the file.
pub const VERSION: u32 = 1;
/// What its name ends with.
pub const SUFFIX: &str = ".trace";
/// Most things that are kept: the last.
pub const EVENTS_MAX: usize = 8192;

/// Something about a request of the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A message is to be sent.
    Send {
        /// Its length.
        len: u64,
        /// Its tag.
        tag: u64,
    },
    /// A receive is posted.
    Post {
        /// The length of its buffer.
        len: u64,
        /// The tag that it accepts.
        tag: u64,
        /// Bits of the tag that do not matter.
        ignore: u64,
    },
    /// A send has ended, well or not.
    Sent {
        /// The length of the message.
        len: u64,
        /// Its tag.
        tag: u64,
        /// Whether it has gone.
        is_good: bool,
    },
    /// A receive has ended, well or not.
    Received {
        /// Bytes that were placed.
        len: u64,
        /// The tag of the message.
        tag: u64,
        /// Whether a message has come, whole.
        is_good: bool,
    },
}

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A packet is about to go.
    Out(Parsed),
    /// A packet has come.
    In(Parsed),
    Request(Request),
    /// Bytes are to be moved between the memories of two processes.
    Moves {
        writes: bool,
        len: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: Nanos,
    peer: Option<PeerId>,
    what: What,
}

/// Who has kept a trace.
#[derive(Debug)]
pub(crate) struct Keeper<'a> {
    pub host: &'a str,
    /// Tells boots of hosts apart.
    pub boot: u16,
    pub pid: u32,
    pub rank: Option<u32>,
    /// The name of its endpoint, by which others know it.
    pub name: &'a str,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Trace {
    dir: PathBuf,
    events: VecDeque<Event>,
    lost: u64,
}

impl Trace {
    pub fn new(dir: PathBuf) -> Trace {
        Trace { dir, events: VecDeque::new(), lost: 0 }
    }

    pub(super) fn add(&mut self, at: Nanos, peer: Option<PeerId>, what: What) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.lost += 1;
        }
        self.events.push_back(Event { at, peer, what });
    }

    /// The newest request to send or to receive was refused: it has not been one.
    pub(super) fn withdraw_request(&mut self) {
        let is_request = |event: &Event| {
            matches!(event.what, What::Request(Request::Send { .. } | Request::Post { .. }))
        };
        if let Some(at) = self.events.iter().rposition(is_request) {
            self.events.remove(at);
        }
    }

    /// Writes the file, whole, in a directory that is made if it is not there.
    ///
    /// # Errors
    /// Where, and why not.
    pub fn write(
        &self,
        keeper: &Keeper,
        name_of: impl Fn(PeerId) -> String,
    ) -> Result<(), (PathBuf, io::Error)> {
        let host: String = keeper.host.chars().filter(char::is_ascii_alphanumeric).collect();
        let file = format!("{host}-{}-{}{SUFFIX}", keeper.pid, keeper.name);
        let path = self.dir.join(file);
        let draft = path.with_extension("new");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        let written = made.and_then(|()| {
            let mut options = File::options();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(self.text(keeper, name_of).as_bytes())?;
            fs::rename(&draft, &path)
        });
        written.map_err(|error| {
            let _ = fs::remove_file(&draft);
            (path, error)
        })
    }

    /// A line of JSON of who it is, and one of each thing.
    pub(super) fn text(&self, keeper: &Keeper, name_of: impl Fn(PeerId) -> String) -> String {
        let Keeper { host, boot, pid, rank, name } = keeper;
        let rank = rank.map_or("null".to_owned(), |rank| rank.to_string());
        let mut text = format!(
            r#"{{"sluice_trace":{VERSION},"host":{},"boot":"{boot:04x}","pid":{pid},"rank":{rank},"name":{},"events":{},"lost":{}}}"#,
            quoted(host),
            quoted(name),
            self.events.len(),
            self.lost
        );
        text.push('\n');
        for Event { at, peer, what } in &self.events {
            let peer = peer.map_or("null".to_owned(), |peer| quoted(&name_of(peer)));
            // Writing to a string does not fail.
            let _ = writeln!(text, r#"{{"at_ns":{},"peer":{peer},{}}}"#, at.0, members(what));
        }
        text
    }
}

/// What it was, as members of an object of JSON.
fn members(what: &What) -> String {
    match what {
        What::Out(packet) => {
            let slots = slots_for(packet.payload_offset.into(), packet.payload_len.into());
            format!(r#""event":"out",{},"slots":{slots}"#, packet_members(packet))
        }
        What::In(packet) => format!(r#""event":"in",{}"#, packet_members(packet)),
        What::Moves { writes, len } => {
            let event = if *writes { "write" } else { "read" };
            format!(r#""event":"{event}","len":{len}"#)
        }
        What::Request(Request::Send { len, tag }) => {
            format!(r#""event":"send","len":{len},"tag":{tag}"#)
        }
        What::Request(Request::Post { len, tag, ignore }) => {
            format!(r#""event":"post","len":{len},"tag":{tag},"ignore":{ignore}"#)
        }
        What::Request(Request::Sent { len, tag, is_good }) => {
            format!(r#""event":"sent","len":{len},"tag":{tag},"is_good":{is_good}"#)
        }
        What::Request(Request::Received { len, tag, is_good }) => {
            format!(r#""event":"received","len":{len},"tag":{tag},"is_good":{is_good}"#)
        }
    }
}

/// Of a packet that carries, announces or offers a message, its length and tag too; of an offer
/// and the word that it is not wanted, by which number it is offered.
fn packet_members(packet: &Parsed) -> String {
    let message = match packet.packet {
        Packet::Put(put) => {
            let len = put.rts.map_or(packet.payload_len.into(), |rts| rts.total_len);
            format!(r#","len":{len},"tag":{}"#, put.match_bits.0)
        }
        Packet::Waiting(Waiting { number, found: Some(found), .. }) => {
            let Found { total_len, match_bits, .. } = found;
            format!(r#","len":{total_len},"tag":{},"offer":{number}"#, match_bits.0)
        }
        Packet::Decline(Decline { number }) => format!(r#","offer":{number}"#),
        _ => String::new(),
    };
    format!(r#""number":{},"text":{}{message}"#, packet.seq.0, quoted(&packet.to_string()))
}
