//! The files of traces, as they are read: bytes that other processes wrote.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use sluice_rail::observer::{EVENTS_MAX, SUFFIX, VERSION};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Longest file that is read: more than so many events take.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most files.
const FILES_MAX: usize = 4096;
/// Longest that all files of a directory may be together.
const ALL_BYTES_MAX: u64 = 1 << 30;

/// Who has written a file.
#[derive(Debug, Deserialize)]
struct Head {
    host: String,
    boot: String,
    pid: u32,
    rank: Option<u32>,
    name: String,
    lost: u64,
}

/// One thing that happened.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Event {
    pub at_ns: u64,
    /// The name of the other process, if there is one.
    pub peer: Option<String>,
    #[serde(flatten)]
    pub what: What,
}

/// What it was.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum What {
    Send {
        len: u64,
        tag: u64,
    },
    Post {
        len: u64,
        tag: u64,
        ignore: u64,
    },
    Out {
        number: u32,
        text: String,
        slots: u32,
        len: Option<u64>,
        tag: Option<u64>,
        /// By which number the message is offered, while it waits.
        offer: Option<u64>,
    },
    In {
        number: u32,
        text: String,
        len: Option<u64>,
        tag: Option<u64>,
        /// The message of this number is offered, or is not wanted.
        offer: Option<u64>,
    },
    Read {
        len: u64,
    },
    Write {
        len: u64,
    },
    Sent {
        len: u64,
        tag: u64,
        is_good: bool,
    },
    Received {
        len: u64,
        tag: u64,
        is_good: bool,
    },
}

/// What happened to a process.
#[derive(Debug)]
pub struct Traced {
    pub host: String,
    boot: String,
    pub pid: u32,
    pub rank: Option<u32>,
    /// By which others know it.
    pub name: String,
    /// How many earlier events were not kept.
    pub lost: u64,
    pub events: Vec<Event>,
}

impl Traced {
    /// Whether its times can be compared with those of another one.
    pub fn is_of_host_of(&self, other: &Traced) -> bool {
        (&self.host, &self.boot) == (&other.host, &other.boot)
    }

    pub fn parse(text: &str) -> Result<Traced> {
        let mut lines = text.lines();
        let first = lines.next().context("it is empty")?;
        let value: serde_json::Value =
            serde_json::from_str(first).context("line 1 is not of a trace")?;
        let version = value["sluice_trace"].as_u64().context("line 1 is not of a trace")?;
        ensure!(version == u64::from(VERSION), "it is of version {version}, not {VERSION}");
        let head: Head = serde_json::from_value(value).context("line 1 is not of a trace")?;
        let mut events = Vec::new();
        for (index, line) in lines.enumerate() {
            ensure!(index < EVENTS_MAX, "it has more than {EVENTS_MAX} events");
            let event: Event = serde_json::from_str(line)
                .with_context(|| format!("line {} is no event of a trace", index + 2))?;
            events.push(event);
        }
        ensure!(
            is_plain(&head, &events),
            "it has characters in names that are not printable ASCII"
        );
        let Head { host, boot, pid, rank, name, lost } = head;
        Ok(Traced { host, boot, pid, rank, name, lost, events })
    }
}

/// Whether all text of a trace may go to a terminal.
fn is_plain(head: &Head, events: &[Event]) -> bool {
    let names = events.iter().filter_map(|event| event.peer.as_ref());
    let texts = events.iter().filter_map(|event| match &event.what {
        What::Out { text, .. } | What::In { text, .. } => Some(text),
        _ => None,
    });
    let mut words = names.chain(texts).chain([&head.host, &head.name]);
    words.all(|text| text.is_ascii() && !text.contains(|one: char| one.is_ascii_control()))
}

/// All traces of a directory, in the order of ranks.
pub fn read_dir(dir: &Path) -> Result<Vec<Traced>> {
    let named = || format!("{} cannot be read", dir.display());
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir).with_context(named)? {
        let path = entry.with_context(named)?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            paths.push(path);
        }
        ensure!(paths.len() <= FILES_MAX, "{} has more than {FILES_MAX} traces", dir.display());
    }
    if paths.is_empty() {
        bail!(
            "{} has no traces; processes write them when they close their endpoints, if \
             FI_SLUICE_TRACE names the directory",
            dir.display()
        );
    }
    let mut all = Vec::with_capacity(paths.len());
    let mut left = ALL_BYTES_MAX;
    for path in &paths {
        all.push(read(path, &mut left).with_context(|| path.display().to_string())?);
    }
    all.sort_by(|a, b| (&a.host, a.rank, a.pid, &a.name).cmp(&(&b.host, b.rank, b.pid, &b.name)));
    Ok(all)
}

/// One file; `left` says how long those may be together that are still to be read.
fn read(path: &Path, left: &mut u64) -> Result<Traced> {
    ensure!(path.is_file(), "it is no file");
    let mut text = String::new();
    let mut file = File::open(path)?.take(FILE_BYTES_MAX + 1);
    file.read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= FILE_BYTES_MAX, "it is longer than any trace");
    let rest = left.checked_sub(text.len() as u64);
    *left = rest.context("with it the traces of the directory are longer than 1 GiB together")?;
    Traced::parse(&text)
}

#[cfg(test)]
pub mod tests {
    use super::super::ladder;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Of rank 0, which sends a message of 8 bytes to `0b`.
    pub const SENDER: &str = concat!(
        r#"{"sluice_trace":1,"host":"node","boot":"00ab","pid":7,"rank":0,"name":"0a","events":4,"lost":0}"#,
        "\n",
        r#"{"at_ns":1000,"peer":"0b","event":"send","len":8,"tag":5}"#,
        "\n",
        r#"{"at_ns":1100,"peer":"0b","event":"out","number":3,"text":"eager: 8 bytes; number 3","len":8,"tag":5,"slots":1}"#,
        "\n",
        r#"{"at_ns":1150,"peer":"0b","event":"sent","len":8,"tag":5,"is_good":true}"#,
        "\n",
        r#"{"at_ns":9000,"peer":"0c","event":"in","number":1,"text":"credits; number 1"}"#,
        "\n",
    );
    /// Of rank 1, which receives it.
    pub const RECEIVER: &str = concat!(
        r#"{"sluice_trace":1,"host":"node","boot":"00ab","pid":8,"rank":1,"name":"0b","events":3,"lost":2}"#,
        "\n",
        r#"{"at_ns":900,"peer":null,"event":"post","len":16,"tag":5,"ignore":0}"#,
        "\n",
        r#"{"at_ns":1200,"peer":"0a","event":"in","number":3,"text":"eager: 8 bytes; number 3","len":8,"tag":5}"#,
        "\n",
        r#"{"at_ns":1300,"peer":"0a","event":"received","len":8,"tag":5,"is_good":true}"#,
        "\n",
    );

    pub fn traced() -> Vec<Traced> {
        of_texts([SENDER, RECEIVER])
    }

    pub fn of_texts(texts: [&str; 2]) -> Vec<Traced> {
        texts.map(|text| Traced::parse(text).unwrap()).into()
    }

    #[test]
    fn what_was_written_is_read() {
        let traced = traced();
        assert_eq!((traced[0].rank, traced[1].lost, traced[0].events.len()), (Some(0), 2, 4));
        assert_eq!(traced[0].events[0].what, What::Send { len: 8, tag: 5 });
        assert!(traced[0].is_of_host_of(&traced[1]));
        let other = Traced::parse(&SENDER.replace("00ab", "00ac")).unwrap();
        assert!(!traced[0].is_of_host_of(&other), "it was booted again");
    }

    #[test]
    fn what_is_not_fit_is_named() {
        for (from, to, why) in [
            (r#""sluice_trace":1"#, r#""sluice_trace":2"#, "it is of version 2, not 1"),
            (r#"{"sluice_trace""#, r#"{"other""#, "line 1 is not of a trace"),
            (r#""event":"send""#, r#""event":"sing""#, "line 2 is no event of a trace"),
            (r#""slots":1}"#, r#""slots":-1}"#, "line 3 is no event of a trace"),
            ("eager", r"\u001b[2J", "it has characters in names that are not printable ASCII"),
        ] {
            let said = Traced::parse(&SENDER.replacen(from, to, 1)).unwrap_err();
            assert!(format!("{said:#}").starts_with(why), "{said:#}");
        }
        assert_eq!(Traced::parse("").unwrap_err().to_string(), "it is empty");
        let line = SENDER.lines().nth(1).unwrap();
        let long = format!("{SENDER}{}", format!("{line}\n").repeat(EVENTS_MAX));
        assert_eq!(Traced::parse(&long).unwrap_err().to_string(), "it has more than 8192 events");
    }

    #[test]
    fn a_directory_without_traces_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let said = read_dir(dir.path()).unwrap_err().to_string();
        assert!(said.contains("has no traces; processes write them when they close"), "{said}");
        fs::write(dir.path().join("a.trace"), "{").unwrap();
        let said = format!("{:#}", read_dir(dir.path()).unwrap_err());
        assert!(said.contains("a.trace: line 1 is not of a trace"), "{said}");
        fs::write(dir.path().join("a.trace"), SENDER).unwrap();
        fs::write(dir.path().join("other"), "{").unwrap();
        assert_eq!(read_dir(dir.path()).unwrap().len(), 1);
    }

    fn what() -> impl Strategy<Value = What> {
        let (len, tag, number) = (any::<u64>(), any::<u64>(), any::<u32>());
        let some = || prop::option::of(0..3_u64);
        let text = "[a-z]{0,8}; number [0-9]";
        prop_oneof![
            (len, 0..3_u64).prop_map(|(len, tag)| What::Send { len, tag }),
            (len, tag, tag).prop_map(|(len, tag, ignore)| What::Post { len, tag, ignore }),
            (number, text, number, some(), some(), some()).prop_map(
                |(number, text, slots, len, tag, offer)| What::Out {
                    number,
                    text,
                    slots,
                    len,
                    tag,
                    offer
                }
            ),
            (0..3_u32, text, some(), some(), some()).prop_map(|(number, text, len, tag, offer)| {
                What::In { number, text, len, tag, offer }
            }),
            len.prop_map(|len| What::Read { len }),
            len.prop_map(|len| What::Write { len }),
            (len, tag, any::<bool>()).prop_map(|(len, tag, is_good)| What::Sent {
                len,
                tag,
                is_good
            }),
            (len, 0..3_u64, any::<bool>()).prop_map(|(len, tag, is_good)| What::Received {
                len,
                tag,
                is_good
            }),
        ]
    }

    fn event() -> impl Strategy<Value = Event> {
        let peer = prop::option::of(prop::sample::select(vec!["0a", "0b", "0c"]));
        let at_ns = prop_oneof![0..10_u64, any::<u64>()];
        (at_ns, peer, what()).prop_map(|(at_ns, peer, what)| Event {
            at_ns,
            peer: peer.map(str::to_owned),
            what,
        })
    }

    /// As a process writes it.
    fn line(event: &Event) -> String {
        let mut line = match &event.what {
            What::Send { len, tag } => json!({"event": "send", "len": len, "tag": tag}),
            What::Post { len, tag, ignore } => {
                json!({"event": "post", "len": len, "tag": tag, "ignore": ignore})
            }
            What::Out { number, text, slots, len, tag, offer } => json!({
                "event": "out", "number": number, "text": text, "slots": slots, "len": len,
                "tag": tag, "offer": offer,
            }),
            What::In { number, text, len, tag, offer } => json!({
                "event": "in", "number": number, "text": text, "len": len, "tag": tag,
                "offer": offer,
            }),
            What::Read { len } => json!({"event": "read", "len": len}),
            What::Write { len } => json!({"event": "write", "len": len}),
            What::Sent { len, tag, is_good } => {
                json!({"event": "sent", "len": len, "tag": tag, "is_good": is_good})
            }
            What::Received { len, tag, is_good } => {
                json!({"event": "received", "len": len, "tag": tag, "is_good": is_good})
            }
        };
        line["at_ns"] = event.at_ns.into();
        line["peer"] = json!(event.peer);
        format!("{line}\n")
    }

    /// What is drawn of traces, whatever they say.
    fn draw(host: &[Traced]) -> Vec<String> {
        let count = ladder::count(host);
        let ladders =
            (1..=count).map(|nth| ladder::of_message(host, nth, 0).expect("it is listed"));
        let mut all: Vec<String> = ladders.collect();
        all.push(ladder::list(host, 0));
        all.extend([0, 1, 2].into_iter().filter_map(|peer| ladder::of_peer(host, peer)));
        all
    }

    proptest! {
        /// Also if the two processes say of each other what cannot be.
        #[test]
        fn any_events_are_read_as_they_were_written_and_drawn(
            of_both in prop::array::uniform2(prop::collection::vec(event(), 0..12)),
        ) {
            let heads = [SENDER, RECEIVER].map(|text| text.lines().next().unwrap());
            let mut host = Vec::new();
            for (head, events) in heads.into_iter().zip(of_both) {
                let text: String = events.iter().map(line).collect();
                let traced = Traced::parse(&format!("{head}\n{text}")).unwrap();
                prop_assert_eq!(&traced.events, &events);
                host.push(traced);
            }
            prop_assert!(draw(&host).len() >= 3);
        }

        /// Any text, and one that was changed in one place: what is read may go to a terminal.
        #[test]
        fn any_text_is_refused_or_drawn(
            any in "\\PC{0,200}",
            at in 0..SENDER.len(),
            len in 0..20_usize,
            put in prop_oneof!["[0-9a-z\"{}:,\\\\]{0,8}", "\\\\u00[0-9a-f]{2}"],
        ) {
            let mut changed = SENDER.to_owned();
            changed.replace_range(at..(at + len).min(SENDER.len()), &put);
            for text in [any, changed] {
                if let Ok(traced) = Traced::parse(&text) {
                    let drawn = draw(&[traced]).concat();
                    prop_assert!(!drawn.contains(|one: char| one.is_control() && one != '\n'));
                }
            }
        }
    }
}
