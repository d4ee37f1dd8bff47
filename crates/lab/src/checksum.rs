//! Completes the checksum of a TCP or UDP packet in a VXLAN packet.
//!
//! Between virtual devices the kernel leaves this sum to a device that never comes. A
//! process that reads such a packet from a tunnel, and sends it again as bytes, has to
//! complete it: the receiver would else drop the packet.

/// Bytes of VXLAN's header, and of Ethernet's behind it.
const OUTER_BYTES: usize = 8 + 14;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Completes the checksum in place. Leaves alone what is neither TCP nor UDP, a fragment,
/// or cut off.
pub fn complete(packet: &mut [u8]) {
    // None is as short as that: then it is no packet of these.
    let _ = try_complete(packet);
}

fn try_complete(packet: &mut [u8]) -> Option<()> {
    let kind = [*packet.get(OUTER_BYTES - 2)?, *packet.get(OUTER_BYTES - 1)?];
    let ip = packet.get_mut(OUTER_BYTES..)?;
    let (protocol, addresses, header, total) = match kind {
        [0x08, 0x00] => {
            let word = |at: usize| Some(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?]));
            // More fragments, or an offset.
            if word(6)? & 0x3fff != 0 {
                return None;
            }
            let header = usize::from(*ip.first()? & 15) * 4;
            (*ip.get(9)?, 12..20, header, usize::from(word(2)?))
        }
        [0x86, 0xdd] => {
            let len = u16::from_be_bytes([*ip.get(4)?, *ip.get(5)?]);
            (*ip.get(6)?, 8..40, 40, 40 + usize::from(len))
        }
        _ => return None,
    };
    let field = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let len = total.checked_sub(header)?;
    let pseudo = sum(ip.get(addresses)?) + u64::from(protocol) + len as u64;
    let segment = ip.get_mut(header..total)?;
    let old: &mut [u8] = segment.get_mut(field..field + 2)?;
    if protocol == UDP && old == [0, 0] {
        // Its sender wants none.
        return None;
    }
    old.fill(0);
    let new = match !fold(pseudo + sum(segment)) {
        0 if protocol == UDP => u16::MAX,
        new => new,
    };
    segment.get_mut(field..field + 2)?.copy_from_slice(&new.to_be_bytes());
    Some(())
}

/// The sum of the words of 16 bits, the last one filled up with zero.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>() + last
}

fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wrapped(kind: [u8; 2], ip: &[u8]) -> Vec<u8> {
        [&[0; OUTER_BYTES - 2][..], &kind, ip].concat()
    }

    /// UDP from 10.42.0.1:1000 to 10.42.0.2:2000 with three bytes.
    fn udp(check: [u8; 2]) -> Vec<u8> {
        let ip = [0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 42, 0, 1, 10, 42, 0, 2];
        let udp = [0x03, 0xe8, 0x07, 0xd0, 0, 11, check[0], check[1], b'a', b'b', b'c'];
        wrapped([8, 0], &[&ip[..], &udp].concat())
    }

    #[test]
    fn the_sum_of_a_packet_with_its_checksum_is_all_ones() {
        let mut packet = udp([0x12, 0x34]);
        complete(&mut packet);
        let ip = &packet[OUTER_BYTES..];
        // 0x0a2a + 1 + 0x0a2a + 2 + 17 + 11 + 0x03e8 + 0x07d0 + 11 + "ab" + "c\0" = 0xe498
        assert_eq!(ip[26..28], [0x1b, 0x67]);
        assert_eq!(fold(sum(&ip[12..]) + 17 + 11), 0xffff);
    }

    #[test]
    fn what_has_no_checksum_or_is_a_fragment_stays() {
        let none = udp([0, 0]);
        let mut fragment = udp([0x12, 0x34]);
        fragment[OUTER_BYTES + 6] = 0x20;
        let arp = wrapped([8, 6], &[7; 28]);
        for packet in [none, fragment, arp] {
            let mut same = packet.clone();
            complete(&mut same);
            assert_eq!(same, packet);
        }
    }

    #[test]
    fn tcp_over_ipv6_is_completed_as_well() {
        let mut ip = [0; 60];
        ip[5] = 20;
        ip[6] = TCP;
        ip[8] = 0xfd;
        let mut packet = wrapped([0x86, 0xdd], &ip);
        complete(&mut packet);
        let ip = &packet[OUTER_BYTES..];
        assert_eq!(fold(sum(&ip[8..]) + 6 + 20), 0xffff);
        assert_ne!(ip[56..58], [0, 0]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut packet: Vec<u8>, kind in 0_usize..3) {
            if let Some(place) = packet.get_mut(OUTER_BYTES - 2..OUTER_BYTES) {
                place.copy_from_slice(&[[8, 0], [0x86, 0xdd], [1, 2]][kind]);
            }
            complete(&mut packet);
        }
    }
}
