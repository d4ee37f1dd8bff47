//! The file that figures are kept in: a few lines of text, which a person may read
//! and write too.
//!
//! A file is whole or it is none: it is written under another name first and then
//! given its own. What is read is untrusted: it is bounded, and every line of it is
//! checked; a file that was cut off lacks its last line.

use sluice_link::{Costs, Direct};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The format, and what the figures mean. Raised when either changes.
pub(super) const VERSION: u32 = 4;
const MAGIC: &str = "sluice-tune";
const END: &str = "end";
/// What stands for a way that the rail does not have.
const NONE: &str = "none";
const BYTES_MAX: u64 = 4096;

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// There is none.
    #[error("there is none")]
    Missing,
    /// Something else has that name.
    #[error("it is not a file of figures")]
    Foreign,
    /// It was made by another version.
    #[error("it is of version {0}, this is version {VERSION}")]
    OtherVersion(String),
    /// It was made on another machine.
    #[error("its figures are those of another machine: {0}")]
    OtherMachine(String),
    /// A line is not what it should be.
    #[error("it is damaged at line {0}")]
    Damaged(usize),
    /// The system does not let it be read.
    #[error("{0}")]
    Unreadable(io::Error),
}

/// Reads figures. With `machine` only those of that one.
pub(super) fn read(path: &Path, machine: Option<&str>) -> Result<Costs, Unusable> {
    let unreadable = |cause: io::Error| match cause.kind() {
        io::ErrorKind::NotFound => Unusable::Missing,
        _ => Unusable::Unreadable(cause),
    };
    // Opening a pipe would wait for somebody to write into it.
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Unusable::Foreign);
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Unusable::Foreign);
    }
    let text = String::from_utf8(bytes).map_err(|_| Unusable::Foreign)?;
    parse(&text, machine)
}

/// Writes figures, readable by this user only.
pub(super) fn write(path: &Path, costs: &Costs, machine: &str) -> io::Result<()> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let (pid, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let draft = path.with_file_name(format!(".{name}.{pid}-{next}"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
    let written =
        file.write_all(emit(costs, machine).as_bytes()).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // It may have got its name already; then there is nothing to remove.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn emit(costs: &Costs, machine: &str) -> String {
    let direct = |way: Option<Direct>| match way {
        Some(way) => format!("{} {}", way.start_ns, way.byte_ps),
        None => NONE.to_owned(),
    };
    let claims = costs.claim_ns.map_or(NONE.to_owned(), |ns| ns.to_string());
    format!(
        "{MAGIC} {VERSION}\n\
         machine {machine}\n\
         packet_ns {}\n\
         packet_byte_ps {}\n\
         read_start_ns_byte_ps {}\n\
         write_start_ns_byte_ps {}\n\
         claim_ns {claims}\n\
         {END}\n",
        costs.packet_ns,
        costs.packet_byte_ps,
        direct(costs.read),
        direct(costs.write),
    )
}

/// What a file says, fit for a log: short, and without a terminal's commands.
fn printable(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect()
}

fn parse(text: &str, machine: Option<&str>) -> Result<Costs, Unusable> {
    let mut lines = text.lines();
    let (magic, version) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
    if magic != MAGIC {
        return Err(Unusable::Foreign);
    }
    if version != VERSION.to_string() {
        return Err(Unusable::OtherVersion(printable(version)));
    }
    let mut at = 1;
    let mut value = |name: &str| {
        at += 1;
        let found = lines.next().and_then(|line| line.split_once(' '));
        found.filter(|(key, _)| *key == name).map(|(_, value)| value).ok_or(Unusable::Damaged(at))
    };
    let found = value("machine")?;
    if machine.is_some_and(|machine| machine != found) {
        return Err(Unusable::OtherMachine(printable(found)));
    }
    let costs = Costs {
        packet_ns: number(value("packet_ns")?).ok_or(Unusable::Damaged(3))?,
        packet_byte_ps: number(value("packet_byte_ps")?).ok_or(Unusable::Damaged(4))?,
        read: direct(value("read_start_ns_byte_ps")?).ok_or(Unusable::Damaged(5))?,
        write: direct(value("write_start_ns_byte_ps")?).ok_or(Unusable::Damaged(6))?,
        claim_ns: or_none(value("claim_ns")?, number).ok_or(Unusable::Damaged(7))?,
    };
    let is_whole = lines.next() == Some(END) && lines.next().is_none() && text.ends_with('\n');
    if !is_whole || !costs.are_plausible() {
        return Err(Unusable::Damaged(8));
    }
    Ok(costs)
}

/// The text of a file that is used, written anew.
pub(super) fn again(text: &str) -> Option<String> {
    let costs = parse(text, None).ok()?;
    let machine = text.lines().nth(1)?.strip_prefix("machine ")?;
    Some(emit(&costs, machine))
}

fn direct(text: &str) -> Option<Option<Direct>> {
    or_none(text, |text| {
        let (start, byte) = text.split_once(' ')?;
        Some(Direct { start_ns: number(start)?, byte_ps: number(byte)? })
    })
}

fn or_none<T>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text == NONE { Some(None) } else { parse(text).map(Some) }
}

/// Digits alone, so that what is read is written the same.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MACHINE: &str = "a processor; a kernel";

    #[test]
    fn what_is_written_is_read() {
        let stated = Costs::default();
        let rows = [
            stated,
            Costs { read: None, claim_ns: None, ..stated },
            Costs { write: None, packet_ns: 1, ..stated },
        ];
        for costs in rows {
            let text = emit(&costs, MACHINE);
            assert_eq!(parse(&text, Some(MACHINE)).ok(), Some(costs), "{text}");
            assert_eq!(parse(&text, None).ok(), Some(costs));
        }
    }

    #[test]
    fn the_file_is_these_lines() {
        let text = emit(&Costs { write: None, ..Costs::default() }, MACHINE);
        let expected = "sluice-tune 4\nmachine a processor; a kernel\npacket_ns 250\n\
                        packet_byte_ps 100\nread_start_ns_byte_ps 1200 75\n\
                        write_start_ns_byte_ps none\nclaim_ns 100\nend\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn every_file_that_was_cut_off_is_refused() {
        let text = emit(&Costs::default(), MACHINE);
        for len in 0..text.len() {
            assert!(parse(&text[..len], Some(MACHINE)).is_err(), "the first {len} bytes");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = emit(&Costs::default(), MACHINE);
        let said = |from: &str, to: &str| {
            assert!(text.contains(from));
            let error = parse(&text.replace(from, to), Some(MACHINE)).unwrap_err();
            error.to_string()
        };
        assert!(said("sluice-tune", "[settings]").contains("not a file of figures"));
        assert!(said("sluice-tune 4", "sluice-tune 0").contains("version 0"));
        assert!(said("a kernel", "b kernel").contains("another machine: a processor; b kernel"));
        assert!(said("packet_ns 250", "packet_ns -250").contains("line 3"));
        assert!(said("packet_ns 250", "packet_ns ").contains("line 3"));
        assert!(said("packet_ns 250", "packet_ns 0250").contains("line 3"));
        assert!(said("1200 75", "1200").contains("line 5"));
        assert!(said("claim_ns 100", "claim_ns 1e2").contains("line 7"));
        // No machine is like that.
        assert!(said("packet_ns 250", "packet_ns 0").contains("line 8"));
        assert!(said("packet_ns 250", "packet_ns 99999999").contains("line 8"));
        assert!(said("end\n", "end\nmore\n").contains("line 8"));
    }

    fn figures() -> impl Strategy<Value = Costs> {
        let way = (0..2_000_000_u64, 0..2_000_000_u64)
            .prop_map(|(start_ns, byte_ps)| Direct { start_ns, byte_ps });
        let ways = [prop::option::of(way.clone()), prop::option::of(way)];
        (0..2_000_000_u64, 0..2_000_000_u64, ways, prop::option::of(0..2_000_000_u64)).prop_map(
            |(packet_ns, packet_byte_ps, [read, write], claim_ns)| Costs {
                packet_ns,
                packet_byte_ps,
                read,
                write,
                claim_ns,
            },
        )
    }

    proptest! {
        /// Unless no machine is like that.
        #[test]
        fn any_figures_are_read_as_they_were_written(costs in figures(), machine in "[ -~]{0,80}") {
            let found = parse(&emit(&costs, &machine), Some(&machine)).ok();
            prop_assert_eq!(found, Some(costs).filter(Costs::are_plausible));
        }

        /// What is used is what is written, but for how its lines end.
        #[test]
        fn any_text_is_refused_or_is_what_is_written(
            costs in figures(),
            from in 0..200_usize,
            len in 0..8_usize,
            put in "[0-9a-z \\n+-]{0,6}",
            any in ".{0,200}",
        ) {
            let mut text = emit(&costs, MACHINE);
            let from = from.min(text.len());
            text.replace_range(from..(from + len).min(text.len()), &put);
            for text in [text, any] {
                if let Some(again) = again(&text) {
                    prop_assert_eq!(again, text.replace("\r\n", "\n"));
                }
            }
        }
    }
}
