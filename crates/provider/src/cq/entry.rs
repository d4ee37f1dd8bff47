//! Completions in libfabric's forms.

use crate::errno::{self, Code};
use crate::ffi::{
    self, fi_addr_t, fi_cq_data_entry, fi_cq_entry, fi_cq_err_entry, fi_cq_msg_entry,
    fi_cq_tagged_entry,
};
use libc::{c_int, c_void};
use sluice_proto::{Completion, Failure, Kind, Space};
use std::borrow::Cow;
use std::ffi::CStr;

/// Which members of a completion a queue gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Context,
    Msg,
    Data,
    Tagged,
}

impl Format {
    /// The format that `fi_cq_attr::format` names.
    pub fn new(format: u32) -> Option<Format> {
        match format {
            ffi::FI_CQ_FORMAT_UNSPEC | ffi::FI_CQ_FORMAT_CONTEXT => Some(Format::Context),
            ffi::FI_CQ_FORMAT_MSG => Some(Format::Msg),
            ffi::FI_CQ_FORMAT_DATA => Some(Format::Data),
            ffi::FI_CQ_FORMAT_TAGGED => Some(Format::Tagged),
            _ => None,
        }
    }
}

/// A completion as the program sees it, in the longest of the formats.
#[derive(Clone, Copy, Debug)]
pub struct Entry(fi_cq_tagged_entry);

// SAFETY: the pointers in it are the program's; nobody here follows them.
unsafe impl Send for Entry {}

impl Entry {
    /// The entry of a completion.
    #[inline]
    pub fn new(completion: &Completion) -> Entry {
        Entry(fi_cq_tagged_entry {
            op_context: match completion.kind {
                // The program has not asked for it.
                kind if kind.is_of_region() => std::ptr::null_mut(),
                _ => completion.context as *mut c_void,
            },
            flags: flags(completion),
            len: completion.len as usize,
            buf: completion.buf.0 as *mut c_void,
            data: completion.data.unwrap_or(0),
            tag: completion.tag,
        })
    }
}

/// What ended: direction and interface, and whether data came with it.
#[inline]
fn flags(completion: &Completion) -> u64 {
    let space = match completion.space {
        Space::Tagged => ffi::FI_TAGGED,
        Space::Untagged => ffi::FI_MSG,
    };
    match completion.kind {
        Kind::Write => ffi::FI_RMA | ffi::FI_WRITE,
        Kind::Read => ffi::FI_RMA | ffi::FI_READ,
        Kind::Combine => ffi::FI_ATOMIC | ffi::FI_WRITE,
        Kind::Fetch => ffi::FI_ATOMIC | ffi::FI_READ,
        Kind::PeerRead | Kind::RegionRead => ffi::FI_RMA | ffi::FI_REMOTE_READ,
        Kind::RegionWrite => ffi::FI_RMA | ffi::FI_REMOTE_WRITE,
        Kind::PeerWrite => ffi::FI_RMA | ffi::FI_REMOTE_WRITE | ffi::FI_REMOTE_CQ_DATA,
        Kind::Consumed => ffi::FI_MULTI_RECV,
        Kind::Send => ffi::FI_SEND | space,
        Kind::Recv | Kind::Probe if completion.data.is_some() => {
            ffi::FI_RECV | ffi::FI_REMOTE_CQ_DATA | space
        }
        Kind::Recv | Kind::Probe => ffi::FI_RECV | space,
    }
}

/// The program's array of entries, as far as it is filled.
#[derive(Debug)]
pub struct Sink {
    format: Format,
    at: *mut c_void,
    sources: *mut fi_addr_t,
    room: usize,
    count: usize,
}

impl Sink {
    /// # Safety
    /// For the life of the sink, `room` entries of this format can be written
    /// at `at`, and `room` sources at `sources` unless that is null.
    #[inline]
    pub unsafe fn new(
        format: Format,
        at: *mut c_void,
        room: usize,
        sources: *mut fi_addr_t,
    ) -> Sink {
        Sink { format, at, sources, room, count: 0 }
    }

    /// How many entries are written.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether no more fit.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count >= self.room
    }

    /// Whether the program wants to know the sources.
    #[inline]
    pub fn wants_sources(&self) -> bool {
        !self.sources.is_null()
    }

    /// Writes an entry. There must be room.
    #[inline]
    pub fn put(&mut self, entry: &Entry, source: fi_addr_t) {
        assert!(self.count < self.room);
        let Entry(e) = *entry;
        let index = self.count;
        // SAFETY: `index < room`, and `new` promises that room.
        unsafe {
            match self.format {
                Format::Context => self
                    .at
                    .cast::<fi_cq_entry>()
                    .add(index)
                    .write(fi_cq_entry { op_context: e.op_context }),
                Format::Msg => {
                    self.at.cast::<fi_cq_msg_entry>().add(index).write(fi_cq_msg_entry {
                        op_context: e.op_context,
                        flags: e.flags,
                        len: e.len,
                    })
                }
                Format::Data => {
                    self.at.cast::<fi_cq_data_entry>().add(index).write(fi_cq_data_entry {
                        op_context: e.op_context,
                        flags: e.flags,
                        len: e.len,
                        buf: e.buf,
                        data: e.data,
                    });
                }
                Format::Tagged => self.at.cast::<fi_cq_tagged_entry>().add(index).write(e),
            }
            if !self.sources.is_null() {
                self.sources.add(index).write(source);
            }
        }
        self.count += 1;
    }
}

/// A failed operation as the program sees it.
#[derive(Debug)]
pub struct Failed {
    entry: Entry,
    olen: usize,
    err: c_int,
    pub prov_errno: c_int,
    /// What happened, for a person, with the peer's name.
    pub text: Cow<'static, str>,
    /// How programs expect it to end now and then: nothing found, cancelled, cut off.
    ordinary: bool,
    source: fi_addr_t,
}

impl Failed {
    /// The error entry of a failed completion; `peer` is its peer's name.
    pub fn new(
        completion: &Completion,
        failure: &Failure,
        peer: Option<String>,
        source: fi_addr_t,
    ) -> Failed {
        let Code { err, prov_errno } = errno::code(failure);
        let olen = match failure {
            Failure::Truncated { excess } => *excess as usize,
            _ => 0,
        };
        Failed {
            entry: Entry::new(completion),
            olen,
            err,
            prov_errno,
            text: describe(failure, prov_errno, peer),
            ordinary: matches!(
                failure,
                Failure::NoMessage | Failure::Cancelled | Failure::Truncated { .. }
            ),
            source,
        }
    }

    /// Writes the entry, as far as the program's version of it goes. An ordinary end has no
    /// data: programs that expect it have been seen to leave the size of their buffer unset.
    ///
    /// # Safety
    /// `to` is a `fi_cq_err_entry` of `api_version`; its `err_data`, if
    /// `err_data_size` is not 0, is a buffer of that size.
    pub unsafe fn write(&self, to: *mut fi_cq_err_entry, api_version: u32, text: &CStr) {
        let Entry(e) = self.entry;
        // SAFETY: the caller's promise; members of later versions are touched
        // only for those.
        unsafe {
            (*to).op_context = e.op_context;
            (*to).flags = e.flags;
            (*to).len = e.len;
            (*to).buf = e.buf;
            (*to).data = e.data;
            (*to).tag = e.tag;
            (*to).olen = self.olen;
            (*to).err = self.err;
            (*to).prov_errno = self.prov_errno;
            let has_size = api_version >= ffi::version(1, 5);
            if self.ordinary {
                match has_size && (*to).err_data_size > 0 {
                    true => (*to).err_data_size = 0,
                    false => (*to).err_data = std::ptr::null_mut(),
                }
            } else if has_size && (*to).err_data_size > 0 {
                // The program's own buffer: fill it.
                let bytes = text.to_bytes_with_nul();
                let count = bytes.len().min((*to).err_data_size);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), (*to).err_data.cast(), count);
                (*to).err_data_size = count;
            } else {
                // The size stays 0: a program that uses the entry again must
                // not seem to lend us our own text.
                (*to).err_data = text.as_ptr().cast_mut().cast();
            }
            if api_version >= ffi::version(1, 20) {
                (*to).src_addr = self.source;
            }
        }
    }
}

fn describe(failure: &Failure, prov_errno: c_int, peer: Option<String>) -> Cow<'static, str> {
    let text = errno::text(prov_errno);
    match (failure, peer) {
        // The probe that finds nothing is ordinary: no allocation.
        (Failure::NoMessage | Failure::Cancelled | Failure::Fault, _) | (_, None) => text.into(),
        (Failure::NoRegion { .. }, Some(peer)) => {
            format!("peer {peer} exposes no memory under this key that has all the bytes").into()
        }
        (Failure::NoRight { .. }, Some(peer)) => {
            format!("peer {peer} does not allow this on its memory").into()
        }
        (Failure::Aborted, Some(peer)) => {
            format!("peer {peer} gave the message up while it fetched it").into()
        }
        (Failure::Truncated { excess }, Some(peer)) => {
            format!("message from peer {peer}: {excess} bytes did not fit").into()
        }
        (Failure::PeerGone { why, .. }, Some(peer)) => {
            use sluice_link::PeerError;
            match why {
                PeerError::Dead => format!("peer {peer} has ended"),
                PeerError::Unreachable => format!("peer {peer} cannot be reached"),
                PeerError::Full => format!(
                    "the mailbox of peer {peer} has no room for another sender; \
                     raise FI_SLUICE_PEERS_MAX there"
                ),
                PeerError::Protocol => format!("peer {peer} broke the protocol"),
                PeerError::Damaged => format!("memory shared with peer {peer} was overwritten"),
                PeerError::Refused => format!("peer {peer} takes nothing more from this process"),
            }
            .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_link::PeerError;
    use sluice_wire::{Addr, PeerId};

    fn completion() -> Completion {
        Completion {
            kind: Kind::Recv,
            space: Space::Tagged,
            context: 0x10,
            len: 3,
            buf: Addr(0x20),
            tag: 7,
            data: Some(9),
            quiet: false,
            peer: Some(PeerId(0)),
            outcome: Ok(()),
        }
    }

    #[test]
    fn entries_are_written_in_each_format() {
        for (format, words) in
            [(Format::Context, 1), (Format::Msg, 3), (Format::Data, 5), (Format::Tagged, 6)]
        {
            let mut array = [0u64; 12];
            let mut sources = [0u64; 2];
            // SAFETY: two entries of the longest format fit, and two sources.
            let mut sink =
                unsafe { Sink::new(format, array.as_mut_ptr().cast(), 2, sources.as_mut_ptr()) };
            sink.put(&Entry::new(&completion()), 5);
            sink.put(&Entry::new(&completion()), 6);
            assert!(sink.is_full());
            let flags = ffi::FI_RECV | ffi::FI_TAGGED | ffi::FI_REMOTE_CQ_DATA;
            let entry = [0x10, flags, 3, 0x20, 9, 7];
            assert_eq!(array[..words], entry[..words]);
            assert_eq!(array[words..2 * words], entry[..words]);
            assert!(array[2 * words..].iter().all(|word| *word == 0));
            assert_eq!(sources, [5, 6]);
        }
    }

    #[test]
    fn errors_name_the_peer() {
        let gone = Failure::PeerGone { peer: PeerId(0), why: PeerError::Dead };
        let failed = Failed::new(&completion(), &gone, Some("pid 1234".into()), 0);
        assert_eq!(failed.text, "peer pid 1234 has ended");
    }

    #[test]
    fn old_error_entries_are_not_written_beyond_their_end() {
        let failed = Failed::new(&completion(), &Failure::Truncated { excess: 4 }, None, 3);
        for (api_version, size_kept, source_kept) in [
            (ffi::version(1, 4), true, true),
            (ffi::version(1, 17), true, true),
            (ffi::version(1, 20), true, false),
        ] {
            // SAFETY: zeros are valid in this structure.
            let mut entry: fi_cq_err_entry = unsafe { std::mem::zeroed() };
            entry.src_addr = 77;
            // SAFETY: a whole entry without a buffer.
            unsafe { failed.write(&mut entry, api_version, c"text") };
            assert_eq!((entry.err, entry.olen, entry.len), (ffi::FI_ETRUNC, 4, 3));
            assert_eq!(entry.err_data_size == 0, size_kept);
            assert_eq!(entry.src_addr == 77, source_kept);
        }
    }
}
