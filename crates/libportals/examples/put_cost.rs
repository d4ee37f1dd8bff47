//! Puts of this process to itself, to be counted by `valgrind --tool=callgrind`: what a put
//! costs with recovery and without (`docs/recovery.md`).
//!
//! `put_cost KIND COUNT`: `acked` puts wait for their acknowledgements, `plain` ones for
//! their arrival, one after the other. The difference of two counts is what that many puts
//! take. `PTL_RECOVERY=1` turns recovery on; `PTL_PROGRESS=poll` leaves the thread out.

use portals::program::{Error, Interface, Op, Target};

const PORTAL: u32 = 3;
const BYTES: u64 = 8;

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let (kind, count) = (args.next(), args.next().and_then(|count| count.parse().ok()));
    let (Some(kind @ ("acked" | "plain")), Some(count)) = (kind.as_deref(), count) else {
        eprintln!("usage: put_cost acked|plain COUNT");
        std::process::exit(2);
    };
    put_one_by_one(kind == "acked", count)
}

fn put_one_by_one(acked: bool, count: u64) -> Result<(), Error> {
    let ni = Interface::open(true)?;
    let memory = ni.memory(BYTES as usize);
    let (answers, arrivals) = (ni.counter()?, ni.counter()?);
    ni.expose(&memory, Op::Put, PORTAL, 1, Some(arrivals))?;
    let from = ni.bind(&memory, Op::Put, answers)?;
    let target = Target { process: ni.identity()?, portal: PORTAL, match_bits: 1 };
    for nth in 1..=count {
        ni.put(from, BYTES, acked, &target)?;
        ni.wait(if acked { answers } else { arrivals }, nth)?;
    }
    Ok(())
}
