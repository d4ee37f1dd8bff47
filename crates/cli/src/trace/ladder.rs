//! Messages between the processes of a host, found in what these have kept: a list of them,
//! and ladders.

use super::file::{Event, Traced, What};
use sluice_text::{Column, Columns, Table, nanoseconds};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;

/// A message that a process has sent.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    from: usize,
    /// The receiver, if it has kept a trace, and its name.
    to: Option<usize>,
    name: String,
    len: u64,
    tag: u64,
    /// How it travels.
    how: String,
    /// When the program gave it, if that was kept; when its first packet went, was read, and
    /// when its receive ended.
    sent_ns: Option<u64>,
    out_ns: u64,
    read_ns: Option<u64>,
    received_ns: Option<u64>,
}

impl Message {
    fn begin_ns(&self) -> u64 {
        self.sent_ns.unwrap_or(self.out_ns)
    }
}

/// A rung of a ladder.
struct Rung<'a> {
    who: usize,
    event: &'a Event,
}

/// How many messages there are.
pub fn count(host: &[Traced]) -> usize {
    messages(host).len()
}

/// All of them, the first with a number above `numbered`.
pub fn list(host: &[Traced], numbered: usize) -> String {
    let messages = messages(host);
    let first = messages.iter().map(Message::begin_ns).min().unwrap_or(0);
    let rows: Vec<(usize, &Message)> = messages.iter().enumerate().collect();
    let after = |message: &Message, at: Option<u64>| {
        at.map_or("-".into(), |at| nanoseconds(at.saturating_sub(message.begin_ns())))
    };
    let columns: [Column<(usize, &Message)>; 8] = [
        ("message", &|(nth, _)| (numbered + nth + 1).to_string()),
        ("time", &|(_, message)| nanoseconds(message.begin_ns() - first)),
        ("from", &|(_, message)| label(&host[message.from])),
        ("to", &|(_, message)| message.to.map_or(message.name.clone(), |to| label(&host[to]))),
        ("tag", &|(_, message)| format!("{:#x}", message.tag)),
        ("how", &|(_, message)| message.how.clone()),
        ("read after", &|(_, message)| after(message, message.read_ns)),
        ("received after", &|(_, message)| after(message, message.received_ns)),
    ];
    let mut text = Table::of(&rows, &columns).to_string();
    for traced in host.iter().filter(|traced| traced.lost > 0) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {} earlier events were not kept", label(traced), traced.lost);
    }
    text
}

/// The ladder of the message with this number, counted from `numbered`.
pub fn of_message(host: &[Traced], number: usize, numbered: usize) -> Option<String> {
    let messages = messages(host);
    let message = messages.get(number.checked_sub(1)?)?;
    let Message { from, to, name, len, tag, .. } = message;
    let own = &host[*from].name;
    // Without the end of its receive, until the next one goes the same way.
    let is_next = |other: &&Message| (other.from, other.to) == (*from, *to);
    let next = messages[number..]
        .iter()
        .find(is_next)
        .map(|other| other.out_ns.saturating_sub(1).max(message.out_ns));
    let end_ns = message.received_ns.or(next).unwrap_or(u64::MAX);
    let is_within = |event: &Event| (message.begin_ns()..=end_ns).contains(&event.at_ns);
    let of_sender = host[*from].events.iter().filter(|event| event.peer.as_ref() == Some(name));
    let mut rungs: Vec<Rung> = of_sender
        .filter(|event| is_within(event))
        .map(|event| Rung { who: *from, event })
        .collect();
    if let Some(to) = to.filter(|to| to != from) {
        let of_sender = |event: &&Event| event.peer.as_ref() == Some(own) && is_within(event);
        rungs.extend(host[to].events.iter().filter(of_sender).map(|event| Rung { who: to, event }));
        let posted = posted_for(&host[to], own, *tag, end_ns).filter(|post| {
            // One that names the sender is there already, unless it was posted before.
            post.peer.is_none() || !is_within(post)
        });
        rungs.extend(posted.map(|event| Rung { who: to, event }));
    }
    let number = numbered + number;
    let title = format!("message {number}: {len} bytes, tag {tag:#x}");
    Some(format!("{title}\n{}", draw(host, rungs)))
}

/// The ladder of all that has happened to a process and with it.
pub fn of_peer(host: &[Traced], peer: u32) -> Option<String> {
    let is_it = |traced: &&Traced| traced.rank.unwrap_or(traced.pid) == peer;
    let names: Vec<&String> = host.iter().filter(is_it).map(|traced| &traced.name).collect();
    if names.is_empty() {
        return None;
    }
    let mut rungs = Vec::new();
    for (who, traced) in host.iter().enumerate() {
        let is_own = names.contains(&&traced.name);
        let is_with =
            |event: &&Event| event.peer.as_ref().is_some_and(|peer| names.contains(&peer));
        let events = traced.events.iter().filter(|event| is_own || is_with(event));
        rungs.extend(events.map(|event| Rung { who, event }));
    }
    Some(draw(host, rungs))
}

/// What a process is called.
fn label(traced: &Traced) -> String {
    traced.rank.map_or_else(|| format!("p{}", traced.pid), |rank| format!("rank {rank}"))
}

/// The messages of all processes, in the order in which they were sent.
fn messages(host: &[Traced]) -> Vec<Message> {
    let by_name: BTreeMap<&str, usize> =
        host.iter().enumerate().map(|(who, traced)| (traced.name.as_str(), who)).collect();
    let reads = reads(host);
    let mut all = Vec::new();
    for (from, traced) in host.iter().enumerate() {
        for Sending { event, name, len, tag, text, number } in sendings(traced) {
            let to = by_name.get(name.as_str()).copied();
            let read_ns = to.and_then(|to| reads.get(&(to, &*traced.name, number)).copied());
            let how = text.split(';').next().unwrap_or_default().to_owned();
            let (name, sent_ns, received_ns) = (name.clone(), None, None);
            let out_ns = event.at_ns;
            all.push(Message {
                from,
                to,
                name,
                len,
                tag,
                how,
                sent_ns,
                out_ns,
                read_ns,
                received_ns,
            });
        }
    }
    all.sort_by_key(|message| (message.out_ns, message.from));
    find_requests(host, &mut all);
    all
}

/// A packet by which a message goes, or is told of.
struct Sending<'a> {
    event: &'a Event,
    name: &'a String,
    len: u64,
    tag: u64,
    text: &'a str,
    number: u32,
}

/// The messages that a process sent, in order. One that it offered while it waited, and that
/// was not wanted then, goes later, and counts then.
fn sendings(traced: &Traced) -> Vec<Sending<'_>> {
    let mut all: Vec<Option<Sending>> = Vec::new();
    let mut offered: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for event in &traced.events {
        let Some(name) = &event.peer else { continue };
        match &event.what {
            What::Out { number, text, len: Some(len), tag: Some(tag), offer, .. } => {
                let (number, len, tag) = (*number, *len, *tag);
                if let Some(offer) = offer {
                    offered.insert((name.as_str(), *offer), all.len());
                }
                all.push(Some(Sending { event, name, len, tag, text, number }));
            }
            What::In { offer: Some(offer), len: None, .. } => {
                if let Some(at) = offered.remove(&(name.as_str(), *offer)) {
                    all[at] = None;
                }
            }
            _ => {}
        }
    }
    all.into_iter().flatten().collect()
}

/// Finds the request of each message, and the end of its receive: those of one pair and tag
/// are in the order of their messages.
fn find_requests(host: &[Traced], messages: &mut [Message]) {
    let mut sends: BTreeMap<(usize, &str, u64, u64), VecDeque<u64>> = BTreeMap::new();
    let mut ends: BTreeMap<(usize, &str, u64), VecDeque<u64>> = BTreeMap::new();
    for (who, traced) in host.iter().enumerate() {
        for Event { at_ns, peer, what } in &traced.events {
            let Some(peer) = peer else { continue };
            match what {
                What::Send { len, tag } => {
                    sends.entry((who, peer, *len, *tag)).or_default().push_back(*at_ns);
                }
                What::Received { tag, .. } => {
                    ends.entry((who, peer, *tag)).or_default().push_back(*at_ns);
                }
                _ => {}
            }
        }
    }
    for message in messages {
        let key = (message.from, message.name.as_str(), message.len, message.tag);
        if let Some(of_pair) = sends.get_mut(&key) {
            message.sent_ns = of_pair
                .front()
                .is_some_and(|sent| *sent <= message.out_ns)
                .then(|| of_pair.pop_front())
                .flatten();
        }
        let (Some(to), Some(read_ns)) = (message.to, message.read_ns) else { continue };
        if let Some(of_pair) = ends.get_mut(&(to, &*host[message.from].name, message.tag)) {
            // Earlier ones are of messages that were not kept.
            while of_pair.front().is_some_and(|end| *end < read_ns) {
                of_pair.pop_front();
            }
            message.received_ns = of_pair.pop_front();
        }
    }
}

/// When each packet was read: by whom, of whom, with which number. So few are kept that no
/// number of a pair is there twice.
fn reads(host: &[Traced]) -> HashMap<(usize, &str, u32), u64> {
    let all = host.iter().enumerate();
    all.flat_map(|(who, traced)| traced.events.iter().filter_map(move |event| read_of(who, event)))
        .collect()
}

fn read_of(who: usize, event: &Event) -> Option<((usize, &str, u32), u64)> {
    let What::In { number, .. } = event.what else { return None };
    Some(((who, event.peer.as_deref()?, number), event.at_ns))
}

/// The last receive that was posted before then and accepts a message.
fn posted_for<'a>(
    receiver: &'a Traced,
    from: &String,
    tag: u64,
    before_ns: u64,
) -> Option<&'a Event> {
    let accepts = |event: &&Event| {
        let What::Post { tag: wanted, ignore, .. } = event.what else { return false };
        (wanted ^ tag) & !ignore == 0
            && event.peer.as_ref().is_none_or(|peer| peer == from)
            && event.at_ns <= before_ns
    };
    receiver.events.iter().rev().find(accepts)
}

/// A column for each process that has a part in it, time from top to bottom.
fn draw(host: &[Traced], mut rungs: Vec<Rung>) -> String {
    rungs.sort_by_key(|rung| rung.event.at_ns);
    let mut names: Vec<&str> = Vec::new();
    for Rung { who, event } in &rungs {
        let peer = match event.what {
            What::Post { .. } => None,
            _ => event.peer.as_deref(),
        };
        for name in [Some(host[*who].name.as_str()), peer].into_iter().flatten() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let label_of = |name: &str| {
        let found = host.iter().find(|traced| traced.name == name);
        found.map_or_else(|| name.to_owned(), label)
    };
    // In the order of ranks; those without a trace are last.
    names.sort_by_key(|name| {
        host.iter().position(|traced| traced.name == *name).unwrap_or(host.len())
    });
    let columns = Columns(names.len());
    let column_of = |name: &str| names.iter().position(|known| *known == name).unwrap_or(0);
    let heads = columns.heads(names.iter().map(|name| label_of(name)));
    let mut text = format!("{:>14}  {heads}\n", "time");
    let first = rungs.first().map_or(0, |rung| rung.event.at_ns);
    for Rung { who, event } in &rungs {
        let own = column_of(&host[*who].name);
        let peer = event.peer.as_deref();
        let sign = match (&event.what, peer) {
            (What::Out { .. }, Some(peer)) => columns.arrow(own, column_of(peer)),
            (What::In { .. }, _) => columns.mark(own, '▶'),
            _ => columns.mark(own, '●'),
        };
        let words = words(&event.what, peer.map(label_of));
        let time = nanoseconds(event.at_ns - first);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{time:>14}  {sign}  {words}");
    }
    text
}

fn words(what: &What, peer: Option<String>) -> String {
    let peer = peer.unwrap_or_else(|| "any".to_owned());
    let ended = |is_good: &bool| if *is_good { "ends" } else { "ends with an error" };
    match what {
        What::Send { len, tag } => format!("send to {peer}: {len} bytes, tag {tag:#x}"),
        What::Post { len, tag, ignore } => {
            format!("posts a receive of {peer}: {len} bytes, tag {tag:#x}/{ignore:#x}")
        }
        What::Out { text, slots: 1, .. } => format!("{text} (1 slot)"),
        What::Out { text, slots, .. } => format!("{text} ({slots} slots)"),
        What::In { number, .. } => format!("reads number {number} of {peer}"),
        What::Read { len } => format!("begins to read {len} bytes of {peer}"),
        What::Write { len } => format!("begins to write {len} bytes to {peer}"),
        What::Sent { len, tag, is_good } => {
            format!("send {}: {len} bytes, tag {tag:#x}", ended(is_good))
        }
        What::Received { len, tag, is_good } => {
            format!("receive {}: {len} bytes of {peer}, tag {tag:#x}", ended(is_good))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::{RECEIVER, of_texts, traced};
    use super::*;

    #[test]
    fn messages_are_listed() {
        let expected = "\
message  time    from      to  tag             how  read after  received after
      5  0 ns  rank 0  rank 1  0x5  eager: 8 bytes      200 ns          300 ns
rank 1: 2 earlier events were not kept
";
        assert_eq!(list(&traced(), 4), expected);
        assert_eq!(count(&traced()), 1);
    }

    /// Three messages of one length and tag: the first is offered, declined and goes later, the
    /// second is offered and got.
    #[test]
    fn a_message_that_is_offered_is_one_and_one_that_is_declined_goes_later() {
        let sender = concat!(
            r#"{"sluice_trace":1,"host":"node","boot":"00ab","pid":7,"rank":0,"name":"0a","events":9,"lost":0}"#,
            "\n",
            r#"{"at_ns":1000,"peer":"0b","event":"send","len":8,"tag":5}"#,
            "\n",
            r#"{"at_ns":1001,"peer":"0b","event":"send","len":8,"tag":5}"#,
            "\n",
            r#"{"at_ns":1002,"peer":"0b","event":"send","len":8,"tag":5}"#,
            "\n",
            r#"{"at_ns":1010,"peer":"0b","event":"out","number":1,"text":"offers one that waits; number 1","len":8,"tag":5,"offer":1,"slots":1}"#,
            "\n",
            r#"{"at_ns":1020,"peer":"0b","event":"in","number":1,"text":"does not want it; number 1","offer":1}"#,
            "\n",
            r#"{"at_ns":1030,"peer":"0b","event":"out","number":2,"text":"eager: 8 bytes; number 2","len":8,"tag":5,"slots":1}"#,
            "\n",
            r#"{"at_ns":1040,"peer":"0b","event":"out","number":3,"text":"offers one that waits; number 3","len":8,"tag":5,"offer":2,"slots":1}"#,
            "\n",
            r#"{"at_ns":1050,"peer":"0b","event":"in","number":2,"text":"get done; number 2"}"#,
            "\n",
            r#"{"at_ns":1060,"peer":"0b","event":"out","number":4,"text":"eager: 8 bytes; number 4","len":8,"tag":5,"slots":1}"#,
            "\n",
        );
        let host = of_texts([sender, RECEIVER]);
        let found: Vec<_> = messages(&host)
            .into_iter()
            .map(|message| (message.sent_ns, message.out_ns, message.how))
            .collect();
        let (eager, offered) = ("eager: 8 bytes".to_owned(), "offers one that waits".to_owned());
        let expected = [
            (Some(1000), 1030, eager.clone()),
            (Some(1001), 1040, offered),
            (Some(1002), 1060, eager),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_ladder_of_a_message() {
        let expected = "\
message 5: 8 bytes, tag 0x5
          time   rank 0  rank 1 
          0 ns     │       ●      posts a receive of any: 16 bytes, tag 0x5/0x0
        100 ns     ●       │      send to rank 1: 8 bytes, tag 0x5
        200 ns     ├───────►      eager: 8 bytes; number 3 (1 slot)
        250 ns     ●       │      send ends: 8 bytes, tag 0x5
        300 ns     │       ▶      reads number 3 of rank 0
        400 ns     │       ●      receive ends: 8 bytes of rank 0, tag 0x5
";
        let drawn = of_message(&traced(), 1, 4).unwrap();
        assert_eq!(drawn, expected, "{drawn}");
        assert_eq!((of_message(&traced(), 2, 4), of_message(&traced(), 0, 4)), (None, None));
    }

    #[test]
    fn the_ladder_of_a_process() {
        let drawn = of_peer(&traced(), 0).unwrap();
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines.len(), 7, "not the receive, which is of any: {drawn}");
        assert!(lines[0].ends_with(" rank 0  rank 1    0c   "), "{drawn}");
        assert!(lines[6].ends_with("reads number 1 of 0c"), "{drawn}");
        assert_eq!(of_peer(&traced(), 7), None);
    }
}
