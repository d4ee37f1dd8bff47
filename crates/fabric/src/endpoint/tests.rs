//! What anybody may send to an endpoint, and memory that is not let go of.

#[path = "../../tests/common/mod.rs"]
mod common;

use super::registered::REGISTERED_MAX;
use super::*;
use crate::offers;
use common::{PATIENCE, open};
use libc::c_int;
use std::time::Instant;

const STRANGERS_MESSAGES: usize = 100;

/// Sends more than a buffer, of a slab that has room for it.
fn send_long(endpoint: &mut Endpoint, len: usize, to: Peer) -> bool {
    let buffer = endpoint.take().unwrap();
    // SAFETY: buffers of a slab lie one behind the other; their bytes are only read, and by
    // a provider that has registered the slab as a whole.
    let returned = unsafe {
        let send = (*(*endpoint.ep).msg).send;
        let (at, descriptor) = (endpoint.memory.at(buffer), endpoint.memory.descriptor(buffer));
        send(endpoint.ep, at.cast(), len, descriptor, to.0, endpoint.memory.context(buffer))
    };
    let is_begun = endpoint.begun("fi_send", returned, buffer, State::Sending).unwrap();
    if is_begun == Begun::Later {
        endpoint.give_back(buffer);
    }
    is_begun == Begun::Yes
}

/// Messages that are longer than what receives them end one receive each, and no more.
#[test]
fn what_is_too_long_is_an_error_of_its_receive() {
    let (Some(mut stranger), Some(mut endpoint)) = (open("tcp", offers), open("tcp", offers))
    else {
        return;
    };
    // The first buffers of a slab are taken first, so that the others are behind.
    let to = stranger.insert(endpoint.name()).unwrap();
    let (mut sent, mut failed, mut received) = (0, 0, 0);
    let begin = Instant::now();
    while received == 0 {
        if sent <= STRANGERS_MESSAGES {
            let len = if sent < STRANGERS_MESSAGES { BUFFER_BYTES + 8 } else { 8 };
            sent += usize::from(send_long(&mut stranger, len, to));
        }
        if let Some(done) = stranger.poll().unwrap() {
            stranger.give_back(done.buffer);
        }
        while let Some(done) = endpoint.poll().unwrap() {
            assert_eq!(done.kind, Kind::Received);
            if done.failed.is_some() {
                failed += 1
            } else {
                received += 1
            }
            endpoint.receive_into(done.buffer);
        }
        assert!(begin.elapsed() < PATIENCE, "{failed} of {sent} have come");
    }
    assert_eq!(failed, STRANGERS_MESSAGES);
}

extern "C" fn refuse(_: *mut ffi::fid) -> c_int {
    -libc::EBUSY
}

/// Memory that the provider keeps is closed later, and nothing is registered until then.
#[test]
fn what_cannot_be_closed_is_tried_again() {
    let Some(mut endpoint) = open("tcp", offers) else { return };
    let mut there = [7u8; 100];
    // SAFETY: the memory is there until the end of the test, and so of the endpoint.
    let mut register =
        |endpoint: &mut Endpoint| unsafe { endpoint.register(there.as_mut_ptr(), there.len(), 9) };
    let registered = register(&mut endpoint).unwrap();
    let region: *mut ffi::fid = registered.as_ptr().cast();
    // SAFETY: the object is open, and its table has these functions.
    let (own, mut ops) = unsafe { ((*region).ops, ptr::read((*region).ops)) };
    ops.close = refuse;
    // SAFETY: the table is there as long as the object has it.
    unsafe { (*region).ops = &raw const ops };
    assert!(endpoint.unregister(registered).is_err());
    assert_eq!((endpoint.unclosed(), endpoint.close_again()), (1, 1));
    assert!(register(&mut endpoint).is_err(), "it does not close what it has");
    // SAFETY: the object was not closed.
    unsafe { (*region).ops = own };
    assert_eq!((endpoint.close_again(), endpoint.unclosed()), (0, 0));
    let again = register(&mut endpoint).unwrap();
    endpoint.unregister(again).unwrap();
}

#[test]
fn no_more_is_registered_than_may_be() {
    let Some(mut endpoint) = open("tcp", offers) else { return };
    let mut there = [7u8; 100];
    // SAFETY: the memory is there until the end of the test, and so of the endpoint.
    let mut register = |endpoint: &mut Endpoint, key| unsafe {
        endpoint.register(there.as_mut_ptr(), there.len(), key)
    };
    let mut all: Vec<Registered> = (0..REGISTERED_MAX as u64)
        .map(|key| register(&mut endpoint, key).expect("there are not too many"))
        .collect();
    assert!(register(&mut endpoint, REGISTERED_MAX as u64).is_err());
    endpoint.unregister(all.pop().unwrap()).unwrap();
    all.push(register(&mut endpoint, REGISTERED_MAX as u64).unwrap());
    for registered in all {
        endpoint.unregister(registered).unwrap();
    }
}
