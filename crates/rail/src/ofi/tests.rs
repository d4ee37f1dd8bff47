//! One device, and endpoints that keep to no rules.

use super::device::TELLS_MAX;
use super::link::WINDOW;
use super::message::Head;
use super::{Device, Token};
use crate::net::{Place, fabric_offers};
use sluice_fabric::ffi::fid;
use sluice_fabric::{Begun, Done, Endpoint, FabricError, Kind, Registered, Source, offers};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const AT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const OWN: Token = [1; 16];
const PEERS: Token = [2; 16];

/// A device; without libfabric it is said that there is none.
pub(super) fn device() -> Option<Device> {
    match fabric_offers("tcp", AT) {
        Ok(_) => Some(Device::open("tcp", AT, 0).unwrap()),
        Err(why) => {
            assert!(matches!(why, FabricError::Missing(_)), "{why}");
            // Beside what is kept of the output of tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {why}");
            None
        }
    }
}

fn endpoint() -> Endpoint {
    Endpoint::open(offers("tcp", Source::Ip(AT)).unwrap().remove(0), 8).unwrap()
}

/// A peer sends as if it heard what it is told, and takes none of that.
#[test]
fn what_was_read_is_told_by_few_messages() {
    let Some(mut device) = device() else { return };
    let (deaf, mut loud) = (endpoint(), endpoint());
    let stream = device.add(7, OWN, PEERS, deaf.name()).unwrap();
    let to = loud.insert(device.name()).unwrap();
    let begin = Instant::now();
    let mut number = 0;
    while number < 20 * WINDOW {
        let buffer = loud.take().unwrap();
        let head = Head { token: OWN, number, taken: 0, len: 1 }.emit();
        loud.bytes_mut(buffer)[..head.len()].copy_from_slice(&head);
        while loud.send(buffer, head.len() + 1, to).unwrap() == Begun::Later {
            device.progress();
            while let Some(done) = loud.poll().unwrap() {
                loud.give_back(done.buffer);
            }
            assert!(begin.elapsed() < PATIENCE, "it takes nothing");
        }
        loop {
            device.progress();
            let mut byte = [0u8];
            // SAFETY: the place is this function's own.
            if unsafe { device.receive(stream, &[Place::of_mut(&mut byte)]) }.is_ok() {
                break;
            }
            if let Some(done) = loud.poll().unwrap() {
                assert_eq!(done.kind, Kind::Sent);
                loud.give_back(done.buffer);
            }
            assert!(begin.elapsed() < PATIENCE, "message {number} does not come");
        }
        number += 1;
    }
    assert!(device.is_owing(), "nobody takes anything");
    assert!(device.owed(stream) as u64 <= TELLS_MAX, "{}", device.owed(stream));
}

/// The provider does not close this memory until what is returned is called.
pub(super) fn refuse_to_close(registered: &Registered) -> impl FnOnce() + use<> {
    extern "C" fn refuse(_: *mut fid) -> libc::c_int {
        -libc::EBUSY
    }
    let region: *mut fid = registered.as_ptr().cast();
    // SAFETY: the object is open; its table is the provider's, and the other one stays.
    let own = unsafe {
        let own = (*region).ops;
        let mut ops = Box::new(std::ptr::read(own));
        ops.close = refuse;
        (*region).ops = Box::leak(ops);
        own
    };
    // SAFETY: the object was not closed, for the table did not let it.
    move || unsafe { (*region).ops = own }
}

/// What tests do to a device.
#[cfg(test)]
impl Device {
    /// What comes is of no lane from now on.
    pub(crate) fn forget_tokens(&mut self) {
        self.tokens.clear();
    }

    /// The endpoint says that it has broken.
    pub(crate) fn break_down(&mut self) {
        self.break_all(&FabricError::Function("use any more"));
    }

    /// So many messages from somebody cannot be received.
    pub(crate) fn fail_receives(&mut self, count: u64) {
        for _ in 0..count {
            let buffer = self.endpoint.take().unwrap();
            let failed = Some(FabricError::Function("room for it"));
            self.on_done(&Done { kind: Kind::Received, buffer, len: 0, failed });
        }
    }

    /// How many messages of a lane the provider did not take.
    pub(crate) fn owed(&self, stream: usize) -> usize {
        self.streams[stream].owed.len()
    }

    /// Whether lanes wait for the provider.
    pub(crate) fn is_owing(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Chunks are read by this device, though it copies in this process.
    pub(crate) fn always_read(&mut self) {
        self.reads_memory = true;
    }

    /// How many pieces of memory peers may read.
    pub(crate) fn exposed(&self) -> usize {
        self.exposed.len()
    }
}
