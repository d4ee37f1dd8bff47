//! What goes over the TCP connection that a lane was opened by: records of nine bytes, a
//! kind and a number.
//!
//! A lane is used when the peer has said that it knows the token (`Ready`). A peer that
//! answers here (`Answer`, with the number of what was asked) again and again and not on the
//! lane has a lane that is broken ([`super::answers`]); one that answers nowhere computes.
//! `End` is the last record, and says how many messages were sent.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::os::unix::net::UnixStream;

const RECORD_BYTES: usize = 9;
/// Records that are read at once.
const RECORDS: usize = 16;
/// Bytes of records that may wait for the socket: a peer that leaves so many lying is not
/// told more.
const WAITING_BYTES_MAX: usize = 64 * RECORD_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Ready,
    Ask(u64),
    Answer(u64),
    End(u64),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) socket: OwnedFd,
    partial: Vec<u8>,
    waiting: Vec<u8>,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Record(Record),
    Nothing,
    /// The connection has ended, or what came is no record.
    Ended,
}

impl Record {
    fn emit(self) -> [u8; RECORD_BYTES] {
        let (kind, number) = match self {
            Record::Ready => (1, 0),
            Record::Ask(number) => (2, number),
            Record::Answer(number) => (3, number),
            Record::End(count) => (4, count),
        };
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = kind;
        bytes[1..].copy_from_slice(&u64::to_le_bytes(number));
        bytes
    }

    fn parse(bytes: &[u8; RECORD_BYTES]) -> Option<Record> {
        let [kind, number @ ..] = *bytes;
        match (kind, u64::from_le_bytes(number)) {
            (1, 0) => Some(Record::Ready),
            (2, number) => Some(Record::Ask(number)),
            (3, number) => Some(Record::Answer(number)),
            (4, count) => Some(Record::End(count)),
            _ => None,
        }
    }
}

impl Control {
    /// `rest` has come on the connection already.
    pub(super) fn new(socket: OwnedFd, rest: &[u8]) -> Control {
        Control { socket, partial: rest.to_vec(), waiting: Vec::new() }
    }

    /// Says something, as far as the socket takes it.
    pub(super) fn say(&mut self, record: Record) {
        if self.waiting.len() < WAITING_BYTES_MAX {
            self.waiting.extend(record.emit());
        }
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        while !self.waiting.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.socket, &self.waiting, flags) {
                Ok(sent) => drop(self.waiting.drain(..sent)),
                Err(Errno::INTR) => {}
                // One that is broken says so when it is read.
                Err(_) => break,
            }
        }
    }

    /// Says that nothing more comes after so many messages.
    pub(super) fn end(&mut self, count: u64) {
        self.say(Record::End(count));
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// What comes next.
    pub(super) fn read(&mut self) -> Read {
        loop {
            if let Some((record, rest)) = self.partial.split_first_chunk::<RECORD_BYTES>() {
                let record = Record::parse(record);
                self.partial = rest.to_vec();
                return record.map_or(Read::Ended, Read::Record);
            }
            let mut bytes = [0; RECORDS * RECORD_BYTES];
            match rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Read::Ended,
                Ok((got, _)) => self.partial.extend(&bytes[..got]),
                Err(Errno::AGAIN) => return Read::Nothing,
                Err(Errno::INTR) => {}
                Err(_) => return Read::Ended,
            }
        }
    }
}

/// For `fuzzing`: the records that come with these bytes on a connection which then ends.
pub(crate) fn records_again(bytes: &[u8]) -> Vec<u8> {
    let Ok((ours, _)) = UnixStream::pair() else { return Vec::new() };
    let mut control = Control::new(ours.into(), bytes);
    let records = std::iter::from_fn(|| match control.read() {
        Read::Record(record) => Some(record.emit()),
        Read::Nothing | Read::Ended => None,
    });
    records.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn records_arrive_in_pieces_of_any_size_and_nonsense_ends_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ready = Record::Ready.emit();
        let mut control = Control::new(ours.into(), &ready[..4]);
        assert_eq!(control.read(), Read::Nothing);
        theirs.write_all(&ready[4..]).unwrap();
        assert_eq!(control.read(), Read::Record(Record::Ready));
        for record in [Record::Ask(7), Record::Answer(8), Record::End(77)] {
            theirs.write_all(&record.emit()).unwrap();
        }
        assert_eq!(control.read(), Read::Record(Record::Ask(7)));
        assert_eq!(control.read(), Read::Record(Record::Answer(8)));
        assert_eq!(control.read(), Read::Record(Record::End(77)));
        theirs.write_all(&[9; RECORD_BYTES]).unwrap();
        assert_eq!(control.read(), Read::Ended);
    }

    #[test]
    fn the_end_is_the_last_that_is_said() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut control, mut peer) =
            (Control::new(ours.into(), &[]), Control::new(theirs.into(), &[]));
        control.end(5);
        assert_eq!(peer.read(), Read::Record(Record::End(5)));
        assert_eq!(peer.read(), Read::Ended);
    }

    fn record() -> impl Strategy<Value = Record> {
        prop_oneof![
            Just(Record::Ready),
            any::<u64>().prop_map(Record::Ask),
            any::<u64>().prop_map(Record::Answer),
            any::<u64>().prop_map(Record::End),
        ]
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_were_said(
            said in prop::collection::vec(record(), 0..40),
            rest in prop::collection::vec(any::<u8>(), 0..RECORD_BYTES),
        ) {
            let bytes: Vec<u8> = said.iter().flat_map(|record| record.emit()).collect();
            prop_assert_eq!(records_again(&[&bytes[..], &rest].concat()), bytes);
        }

        /// Up to a record that is none, and nothing behind it.
        #[test]
        fn any_bytes_are_records_up_to_one_that_is_none(
            mut bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            // Else hardly any is one.
            for kind in bytes.iter_mut().step_by(RECORD_BYTES) {
                *kind %= 6;
            }
            let again = records_again(&bytes);
            prop_assert!(bytes.starts_with(&again) && again.len().is_multiple_of(RECORD_BYTES));
            if let Some((next, _)) = bytes[again.len()..].split_first_chunk() {
                prop_assert_eq!(Record::parse(next), None);
            }
        }
    }
}
