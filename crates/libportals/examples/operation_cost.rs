//! Operations of this process on itself, to be counted by `valgrind --tool=callgrind`: what one
//! costs with recovery and without (`docs/recovery.md`).
//!
//! `operation_cost KIND COUNT`, one after the other: `acked` puts wait for their acknowledgements, `plain`
//! ones for their arrival, `told` ones for both, the arrival by the event queue of an entry with flow
//! control; `got` are gets. The difference of two counts is what that many take. `PTL_RECOVERY=1`
//! turns recovery on; `PTL_PROGRESS=poll` leaves the thread out.

use portals::program::{Error, Interface, Op, Target};

const PORTAL: u32 = 3;
const BYTES: u64 = 8;
const MATCH_BITS: u64 = 1;
const QUEUE: u64 = 64;

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let (kind, count) = (args.next(), args.next().and_then(|count| count.parse().ok()));
    match (kind.as_deref(), count) {
        (Some("acked"), Some(count)) => put_one_by_one(true, count),
        (Some("plain"), Some(count)) => put_one_by_one(false, count),
        (Some("told"), Some(count)) => put_and_tell(count),
        (Some("got"), Some(count)) => get_one_by_one(count),
        _ => {
            eprintln!("usage: operation_cost acked|plain|told|got COUNT");
            std::process::exit(2);
        }
    }
}

fn itself(ni: &Interface) -> Result<Target, Error> {
    Ok(Target { process: ni.identity()?, portal: PORTAL, match_bits: MATCH_BITS })
}

fn put_one_by_one(acked: bool, count: u64) -> Result<(), Error> {
    let ni = Interface::open(true)?;
    let memory = ni.memory(BYTES as usize);
    let (answers, arrivals) = (ni.counter()?, ni.counter()?);
    ni.expose(&memory, Op::Put, PORTAL, MATCH_BITS, Some(arrivals))?;
    let (from, target) = (ni.bind(&memory, Op::Put, answers)?, itself(&ni)?);
    for nth in 1..=count {
        ni.put(from, BYTES, acked, &target)?;
        ni.wait(if acked { answers } else { arrivals }, nth)?;
    }
    Ok(())
}

fn put_and_tell(count: u64) -> Result<(), Error> {
    let ni = Interface::open(true)?;
    let memory = ni.memory(BYTES as usize);
    let (answers, queue) = (ni.counter()?, ni.queue(QUEUE)?);
    ni.expose_told(&memory, PORTAL, MATCH_BITS, queue, None)?;
    let (from, target) = (ni.bind(&memory, Op::Put, answers)?, itself(&ni)?);
    for nth in 1..=count {
        ni.put_with(from, BYTES, nth, &target)?;
        ni.wait(answers, nth)?;
        while ni.take(queue)?.is_none() {}
    }
    Ok(())
}

fn get_one_by_one(count: u64) -> Result<(), Error> {
    let ni = Interface::open(true)?;
    let memory = ni.memory(BYTES as usize);
    let answers = ni.counter()?;
    ni.expose(&memory, Op::Get, PORTAL, MATCH_BITS, None)?;
    let (into, target) = (ni.bind(&memory, Op::Get, answers)?, itself(&ni)?);
    for nth in 1..=count {
        ni.get(into, BYTES, &target)?;
        ni.wait(answers, nth)?;
    }
    Ok(())
}
