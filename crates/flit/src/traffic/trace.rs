//! Messages read from a text: a line for each, `cycle source destination
//! flits`, with comments after `#`.
//!
//! Each node's messages are kept by cycle; those of one cycle stay in the
//! order of the text.

use std::ops::Range;

/// A message of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it is ready to be sent.
    pub cycle: u64,
    /// To whom.
    pub destination: u32,
    /// How long it is.
    pub flits: u32,
}

/// The messages of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    sources: Vec<Vec<Message>>,
}

/// A line that is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {found}; expected {expected}")]
pub struct TraceError {
    /// Its number, from 1.
    pub line: usize,
    /// What it has.
    pub found: String,
    /// What it should have.
    pub expected: String,
}

const FIELDS: [&str; 4] = ["cycle", "source", "destination", "flits"];

impl Trace {
    /// Reads a trace for a network of `nodes` nodes.
    ///
    /// # Errors
    /// Names the first line that is not a message, and why.
    pub fn parse(text: &str, nodes: u32) -> Result<Trace, TraceError> {
        let mut sources = vec![Vec::new(); nodes as usize];
        for (index, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(before, _)| before);
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let (source, message) = message(&words, nodes)
                .map_err(|(found, expected)| TraceError { line: index + 1, found, expected })?;
            sources[source as usize].push(message);
        }
        for messages in &mut sources {
            messages.sort_by_key(|message: &Message| message.cycle);
        }
        Ok(Trace { sources })
    }

    /// The messages of a node, by cycle.
    pub fn messages(&self, source: u32) -> &[Message] {
        &self.sources[source as usize]
    }

    /// Nodes of the network that it is for.
    pub fn nodes(&self) -> u32 {
        self.sources.len() as u32
    }

    /// The cycle of the last message; none if there are no messages.
    pub fn last_cycle(&self) -> Option<u64> {
        self.sources
            .iter()
            .filter_map(|messages| messages.last())
            .map(|message| message.cycle)
            .max()
    }

    /// The flits of all messages.
    pub fn total_flits(&self) -> u64 {
        self.sources.iter().flatten().map(|message| u64::from(message.flits)).sum()
    }
}

/// A line's source and message, or what it has and what it should have.
fn message(words: &[&str], nodes: u32) -> Result<(u32, Message), (String, String)> {
    if words.len() != FIELDS.len() {
        return Err((
            format!("{} fields", words.len()),
            format!("{}: {}", FIELDS.len(), FIELDS.join(" ")),
        ));
    }
    let node = |field| number(words, field, 0..u64::from(nodes)).map(|node| node as u32);
    let cycle = number(words, 0, 0..u64::MAX)?;
    let (source, destination) = (node(1)?, node(2)?);
    let flits = number(words, 3, 1..1 << 32)? as u32;
    Ok((source, Message { cycle, destination, flits }))
}

fn number(words: &[&str], field: usize, range: Range<u64>) -> Result<u64, (String, String)> {
    let word = words[field];
    word.parse().ok().filter(|value| range.contains(value)).ok_or_else(|| {
        (
            format!("{} {word:?}", FIELDS[field]),
            format!("a number of at least {} and below {}", range.start, range.end),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NODES: u32 = 5;

    fn words() -> impl Strategy<Value = String> {
        let number = prop_oneof!["[0-9]", "[0-9]{1,21}", "[+-][0-9]", "\\PC{0,4}"];
        prop::collection::vec(number, 3..6).prop_map(|words| words.join(" "))
    }

    proptest! {
        /// In the order of the text where cycles are the same, comments or not.
        #[test]
        fn messages_are_read_as_they_were_written(
            messages in prop::collection::vec(
                (0..6_u64, 0..NODES, 0..NODES, 1..=u32::MAX, "( # \\PC{0,8})?\n{1,2}"),
                0..20,
            ),
        ) {
            let text: String = messages
                .iter()
                .map(|(cycle, source, to, flits, end)| format!("{cycle} {source}\t{to} {flits}{end}"))
                .collect();
            let trace = Trace::parse(&text, NODES).unwrap();
            for source in 0..NODES {
                let mut expected: Vec<Message> = messages
                    .iter()
                    .filter(|(_, from, ..)| *from == source)
                    .map(|&(cycle, _, destination, flits, _)| Message { cycle, destination, flits })
                    .collect();
                expected.sort_by_key(|message| message.cycle);
                prop_assert_eq!(trace.messages(source), expected);
            }
        }

        /// What is read is inside the network; else the first line that is not is named.
        #[test]
        fn any_text_is_a_trace_or_has_a_line_that_is_none(
            lines in prop::collection::vec(prop_oneof![words(), "\\PC{0,20}"], 0..6),
        ) {
            match Trace::parse(&lines.join("\n"), NODES) {
                Ok(trace) => {
                    let all = (0..NODES).flat_map(|source| trace.messages(source));
                    prop_assert!(all.clone().count() <= lines.len());
                    for message in all {
                        prop_assert!(message.destination < NODES && message.flits > 0);
                        prop_assert!(message.cycle <= trace.last_cycle().unwrap());
                    }
                }
                Err(error) => {
                    prop_assert!((1..=lines.len()).contains(&error.line), "{error}");
                    let before = lines[..error.line - 1].join("\n");
                    prop_assert!(Trace::parse(&before, NODES).is_ok(), "{error}");
                }
            }
        }
    }
}
