//! The numbered stream over rails that break, stall and deliver late.

use proptest::prelude::*;
use sluice_multirail::{Arrival, Misnumbered, Number, Session};
use std::collections::VecDeque;

#[test]
fn numbers_are_given_and_acknowledged_in_order() {
    let mut session = Session::default();
    assert_eq!([session.number(), session.number(), session.number()], [0, 1, 2].map(Number));
    assert_eq!(session.kept(), 3);
    assert_eq!(session.acknowledge(Number(2)), Ok(2));
    assert_eq!(session.acknowledge(Number(1)), Ok(0), "an old one says nothing");
    assert_eq!((session.kept(), session.first_kept()), (1, Number(2)));
    let never = Misnumbered::NeverSent { got: 4, sent: 3 };
    assert_eq!(session.acknowledge(Number(4)), Err(never));
    assert_eq!(session.resume(Number(u64::MAX)).map_err(|_| ()), Err(()));
    assert_eq!(session.kept(), 1);
}

#[test]
fn what_comes_twice_is_known_and_what_skips_a_number_is_refused() {
    let mut session = Session::default();
    assert_eq!(session.receive(Number(0)), Ok(Arrival::New));
    assert_eq!(session.receive(Number(0)), Ok(Arrival::Duplicate));
    assert_eq!(session.receive(Number(2)), Err(Misnumbered::Gap { got: 2, wanted: 1 }));
    assert_eq!(session.receive(Number(1)), Ok(Arrival::New));
    assert_eq!((session.untold(), session.tell(), session.untold()), (2, Number(2), 0));
}

/// What was said of it broke off with the rail that it was said on.
#[test]
fn what_comes_again_is_to_be_acknowledged_again() {
    let mut session = Session::default();
    for number in 0..3 {
        assert_eq!(session.receive(Number(number)), Ok(Arrival::New));
    }
    assert_eq!((session.tell(), session.untold()), (Number(3), 0));
    assert_eq!(session.receive(Number(1)), Ok(Arrival::Duplicate));
    assert_eq!((session.untold(), session.tell(), session.untold()), (2, Number(3), 0));
}

/// What happens to a stream from one process to another over three rails.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    /// The oldest frame on a rail arrives.
    Arrive(usize),
    /// The receiver's acknowledgement gets back at once.
    Acknowledge,
    /// The stream goes on over this rail. What is on the others may still arrive.
    Move(usize),
    /// A rail breaks: what is on it is lost.
    Break(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Send),
        6 => (0..3_usize).prop_map(Step::Arrive),
        2 => Just(Step::Acknowledge),
        1 => (0..3_usize).prop_map(Step::Move),
        1 => (0..3_usize).prop_map(Step::Break),
    ]
}

/// A sender, a receiver, three rails.
#[derive(Default)]
struct World {
    sender: Session,
    receiver: Session,
    rails: [VecDeque<u64>; 3],
    current: usize,
    got: Vec<u64>,
}

impl World {
    /// The stream begins again where the receiver has got to, as it says by then.
    fn resume(&mut self, rail: usize, wanted: Number) {
        self.current = rail;
        self.sender.resume(wanted).unwrap();
        let first = self.sender.first_kept().0;
        self.rails[rail].extend(first..first + self.sender.kept());
    }

    fn arrive(&mut self, rail: usize) {
        if let Some(number) = self.rails[rail].pop_front() {
            match self.receiver.receive(Number(number)).expect("numbers follow one another") {
                Arrival::New => self.got.push(number),
                Arrival::Duplicate => {}
            }
        }
    }
}

proptest! {
    /// Every packet arrives once and in order, whatever rails do.
    #[test]
    fn every_packet_arrives_once_and_in_order(steps in prop::collection::vec(step(), 1..300)) {
        let mut world = World::default();
        let mut sent = 0;
        for step in steps {
            match step {
                Step::Send => {
                    let number = world.sender.number();
                    world.rails[world.current].push_back(number.0);
                    sent += 1;
                }
                Step::Arrive(rail) => world.arrive(rail),
                Step::Acknowledge => {
                    let told = world.receiver.tell();
                    world.sender.acknowledge(told).unwrap();
                }
                Step::Move(rail) => {
                    let wanted = world.receiver.tell();
                    world.resume(rail, wanted);
                }
                Step::Break(rail) => {
                    world.rails[rail].clear();
                    if rail == world.current {
                        let wanted = world.receiver.tell();
                        world.resume((rail + 1) % 3, wanted);
                    }
                }
            }
            let kept = world.sender.first_kept().0;
            prop_assert!(kept <= world.got.len() as u64, "what was not got is kept");
        }
        for rail in 0..3 {
            while !world.rails[rail].is_empty() {
                world.arrive(rail);
            }
        }
        prop_assert_eq!(world.got, (0..sent).collect::<Vec<u64>>());
    }
}
