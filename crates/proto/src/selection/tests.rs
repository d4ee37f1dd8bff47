//! The choice at the sizes around each threshold, on rails of every ability.

use super::*;
use sluice_link::{Costs, Direct};

const KIB: u64 = 1 << 10;
const ALL: Able = Able { reads: true, writes: true, chunk_claims: true };

fn facts(len: u64, first: First, able: Able) -> Facts {
    Facts { len, recv_len: len, first, source_known: true, fits: true, looks: false, able }
}

fn protocols(table: &Table, first: First, able: Able, lens: &[u64]) -> Vec<Protocol> {
    lens.iter().map(|&len| table.choose(&facts(len, first, able)).protocol).collect()
}

fn reason(choice: &Choice, protocol: Protocol) -> Reason {
    let found = choice.rejected.iter().find(|(other, _)| *other == protocol);
    found.expect("rejected").1
}

#[test]
fn either_side_first_around_each_threshold() {
    use Protocol::{Cooperative, Eager, Get, Speculative};
    let table = Table::default();
    let lens = [0, 48 * KIB, 48 * KIB + 1, 64 * KIB - 1, 64 * KIB, 1 << 40];
    let found = protocols(&table, First::Sender, ALL, &lens);
    assert_eq!(found, [Eager, Eager, Get, Get, Cooperative, Cooperative]);
    let found = protocols(&table, First::Receiver, ALL, &lens);
    assert_eq!(found, [Eager, Eager, Speculative, Speculative, Speculative, Speculative]);
    // Between the two lengths, if announcing begins later.
    let later = Table { eager_bytes_max: 16 << 10, ..table };
    let lens = [16 * KIB, 16 * KIB + 1, 32 * KIB - 1, 32 * KIB];
    let found = protocols(&later, First::Receiver, ALL, &lens);
    assert_eq!(found, [Eager, Get, Get, Speculative]);
}

#[test]
fn a_receiver_that_looks_gets_longer_ones_eagerly() {
    use Protocol::{Cooperative, Eager, Speculative};
    let table = Table::default();
    let looks = |len, first| Facts { looks: true, ..facts(len, first, ALL) };
    for (first, beyond) in [(First::Sender, Cooperative), (First::Receiver, Speculative)] {
        for (len, protocol) in [(48 * KIB + 1, Eager), (256 * KIB, Eager), (256 * KIB + 1, beyond)]
        {
            assert_eq!(table.choose(&looks(len, first)).protocol, protocol, "{len}");
        }
    }
    let expected = [(0, Eager), (256 * KIB + 1, Cooperative)];
    assert_eq!(table.ranges(&looks(0, First::Sender)), expected);
    // Less than to one that does not look is as if it did not matter.
    let odd = Table { looking_bytes_max: 100, ..table };
    assert_eq!(odd.choose(&looks(48 * KIB, First::Sender)).protocol, Eager);
    let full = Facts { fits: false, ..looks(64 * KIB, First::Sender) };
    assert_eq!(reason(&table.choose(&full), Eager), Reason::NoRoom);
}

#[test]
fn rails_that_can_less() {
    use Protocol::{Cooperative, Eager, Get, Pull, Put};
    let lens = [8, 49 * KIB, 60 * KIB, 1 << 20];
    let table = Table::default();
    let rows = [
        (Able { chunk_claims: false, ..ALL }, [Eager, Get, Get, Get]),
        (Able { reads: false, ..ALL }, [Eager, Put, Put, Put]),
        (Able { reads: false, chunk_claims: false, ..ALL }, [Eager, Put, Put, Put]),
        (Able { writes: false, ..ALL }, [Eager, Get, Get, Cooperative]),
        (Able { reads: false, writes: false, chunk_claims: true }, [Eager, Pull, Pull, Pull]),
        (Able { reads: false, writes: false, chunk_claims: false }, [Eager, Pull, Pull, Pull]),
    ];
    for (able, expected) in rows {
        assert_eq!(protocols(&table, First::Sender, able, &lens), expected, "{able:?}");
        // Without reads and chunk claims nothing is announced.
        if !able.reads || !able.chunk_claims {
            assert_eq!(protocols(&table, First::Receiver, able, &lens), expected, "{able:?}");
        }
    }
}

#[test]
fn rails_of_stated_performance() {
    use Protocol::{Cooperative, Eager, Get, Pull};
    // The call is dear, so 48 KiB travel with the message.
    let slow_call = Some(Direct { start_ns: 5000, byte_ps: 75 });
    let slow_call = Table::of(&Costs { read: slow_call, ..Costs::default() });
    let lens = [48 * KIB, 48 * KIB + 1, 64 * KIB - 1, 64 * KIB];
    let found = protocols(&slow_call, First::Sender, ALL, &lens);
    assert_eq!(found, [Eager, Get, Get, Cooperative]);
    // Reads fly and packets are dear, so what needs more packets begins later.
    let fast = Some(Direct { start_ns: 100, byte_ps: 20 });
    let fast = Table::of(&Costs { read: fast, packet_ns: 400, ..Costs::default() });
    let lens = [4 * KIB + 1, 128 * KIB - 1, 128 * KIB];
    assert_eq!(protocols(&fast, First::Sender, ALL, &lens), [Get, Get, Cooperative]);
    let lens = [64 * KIB - 1, 64 * KIB];
    let found = protocols(&fast, First::Receiver, ALL, &lens);
    assert_eq!(found, [Get, Protocol::Speculative]);
    // Nothing but packets.
    let packets = Costs { read: None, write: None, claim_ns: None, ..Costs::default() };
    let packets = Table::of(&packets);
    let able = Able { reads: false, writes: false, chunk_claims: false };
    let found = protocols(&packets, First::Receiver, able, &[48 * KIB, 48 * KIB + 1, NEVER]);
    assert_eq!(found, [Eager, Pull, Pull]);
}

#[test]
fn each_rejection_has_its_reason() {
    let table = Table::default();
    let large = table.choose(&facts(1 << 20, First::Sender, ALL));
    assert_eq!(large.rejected.len(), Protocol::ALL.len() - 1);
    assert_eq!(reason(&large, Protocol::Eager), Reason::Long { max: 256 * KIB });
    let away = table.choose(&facts(49 * KIB, First::Sender, ALL));
    assert_eq!(reason(&away, Protocol::Eager), Reason::Away { max: 48 * KIB });
    assert_eq!(reason(&large, Protocol::Speculative), Reason::SenderFirst);
    assert_eq!(reason(&large, Protocol::Get), Reason::Behind(Protocol::Cooperative));
    assert_eq!(reason(&large, Protocol::Pull), Reason::Behind(Protocol::Cooperative));

    let short = table.choose(&facts(8, First::Receiver, ALL));
    assert_eq!(reason(&short, Protocol::Speculative), Reason::ShortReceive { min: 48 * KIB + 1 });
    assert_eq!(reason(&short, Protocol::Cooperative), Reason::Short { min: 64 * KIB });
    let full = table.choose(&Facts { fits: false, ..facts(2048, First::Sender, ALL) });
    assert_eq!((full.protocol, reason(&full, Protocol::Eager)), (Protocol::Get, Reason::NoRoom));

    let any = Facts { source_known: false, ..facts(1 << 20, First::Receiver, ALL) };
    assert_eq!(reason(&table.choose(&any), Protocol::Speculative), Reason::AnySource);
    let deaf = table.choose(&facts(1 << 20, First::Receiver, Able { reads: false, ..ALL }));
    for protocol in [Protocol::Speculative, Protocol::Cooperative, Protocol::Get] {
        assert_eq!(reason(&deaf, protocol), Reason::CannotRead, "{protocol}");
    }
    let packets = Able { reads: false, writes: false, chunk_claims: false };
    let packets = table.choose(&facts(1 << 20, First::Sender, packets));
    assert_eq!(reason(&packets, Protocol::Put), Reason::CannotWrite);
    let spent = table.choose(&facts(1 << 20, First::Receiver, Able { chunk_claims: false, ..ALL }));
    assert_eq!(reason(&spent, Protocol::Speculative), Reason::NoClaims);
    assert_eq!(reason(&spent, Protocol::Cooperative), Reason::NoClaims);
    let never = Table { announce_bytes_min: NEVER, share_bytes_min: NEVER, ..table };
    let never = never.choose(&facts(1 << 20, First::Receiver, ALL));
    assert_eq!(reason(&never, Protocol::Speculative), Reason::NeverPays);
    assert_eq!(reason(&never, Protocol::Cooperative), Reason::NeverPays);
}

#[test]
fn a_long_receive_of_a_short_message_is_announced_and_a_short_one_of_a_long_is_not() {
    let table = Table::default();
    let wide = Facts { recv_len: 1 << 20, ..facts(49 * KIB, First::Receiver, ALL) };
    assert_eq!(table.choose(&wide).protocol, Protocol::Speculative);
    // What does not fit never travels, so the length that counts is the buffer's.
    let narrow = Facts { recv_len: 48 * KIB, ..facts(1 << 20, First::Receiver, ALL) };
    assert_eq!(table.choose(&narrow).protocol, Protocol::Get);
}

#[test]
fn ranges_are_the_choices_by_length() {
    use Protocol::{Cooperative, Eager, Get, Pull, Speculative};
    let table = Table::default();
    let sender = facts(0, First::Sender, ALL);
    let expected = [(0, Eager), (48 * KIB + 1, Get), (64 * KIB, Cooperative)];
    assert_eq!(table.ranges(&sender), expected);
    let receiver = facts(0, First::Receiver, ALL);
    let expected = [(0, Eager), (48 * KIB + 1, Speculative)];
    assert_eq!(table.ranges(&receiver), expected);
    let never = Table { announce_bytes_min: NEVER, share_bytes_min: NEVER, ..table };
    let packets =
        facts(0, First::Receiver, Able { reads: false, writes: false, chunk_claims: true });
    assert_eq!(never.ranges(&packets), [(0, Eager), (48 * KIB + 1, Pull)]);
}
