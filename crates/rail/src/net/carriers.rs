//! Which of the own devices carry nothing, as the system's news of links say.
//!
//! A device without a carrier drops what it is given. What its rails owe comes sooner over
//! others if that is known at once, and not by their silence. What is begun there meanwhile
//! does harm: the system asks who has the peer's address, nobody hears it, and it asks again
//! only once a second, also after the link is there again. So nothing is begun there until
//! the link has returned.
//!
//! The system holds back news of a link that has changed a moment ago, for a second and
//! more. It answers at once whoever asks, so a device is asked for when a rail falls silent.
//!
//! Whoever hears nothing of a device takes it for one that carries something: the news may be
//! forbidden, some may be lost, and a device may go away and come back under another number.

use super::OwnDevice;

const HEAD_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const GET_LINK: u16 = libc::RTM_GETLINK;
const NEW_LINK: u16 = libc::RTM_NEWLINK;
const DEL_LINK: u16 = libc::RTM_DELLINK;
/// It is up, and has a carrier.
const CARRIES: u32 = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;

/// The number of what is asked for, which its answer has too. News have none.
const ASKED: u32 = 1;

/// What is known of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Carrier {
    /// Nothing else is known.
    #[default]
    There,
    /// It carries nothing. Its rails have been closed if that was told.
    Lost { is_told: bool },
    /// It carried nothing, and its rails have not been told that it does again.
    Back,
}

/// See the module. Devices are named by their place in the process's list.
#[derive(Clone, Debug, Default)]
pub(super) struct Carriers(Vec<Carrier>);

impl Carriers {
    pub(super) fn of(devices: usize) -> Carriers {
        Carriers(vec![Carrier::There; devices])
    }

    /// The system has said something. Says whether that is news: an answer may not be.
    pub(super) fn note(&mut self, devices: &[OwnDevice], said: &[u8]) -> bool {
        let mut is_news = u32_at(said, 8) != Some(ASKED);
        for (index, carries) in links(said) {
            let own = devices.iter().zip(&mut self.0).filter(|(device, _)| device.index == index);
            for (_, known) in own {
                let before = *known;
                *known = match (before, carries) {
                    (Carrier::There | Carrier::Back, false) => Carrier::Lost { is_told: false },
                    (Carrier::Lost { .. }, true) => Carrier::Back,
                    (known, _) => known,
                };
                is_news |= *known != before;
            }
        }
        is_news
    }

    /// Some news are lost.
    pub(super) fn forget(&mut self) {
        for known in &mut self.0 {
            if *known != Carrier::There {
                *known = Carrier::Back;
            }
        }
    }

    /// Whether a device carries nothing.
    pub(super) fn is_lost(&self, device: u8) -> bool {
        matches!(self.0.get(usize::from(device)), Some(Carrier::Lost { .. }))
    }

    /// A device that has lost its carrier, each once.
    pub(super) fn next_lost(&mut self) -> Option<u8> {
        let at = self.0.iter().position(|&known| known == Carrier::Lost { is_told: false })?;
        self.0[at] = Carrier::Lost { is_told: true };
        Some(at as u8)
    }

    /// A device that carries something again, each once.
    pub(super) fn next_back(&mut self) -> Option<u8> {
        let at = self.0.iter().position(|&known| known == Carrier::Back)?;
        self.0[at] = Carrier::There;
        Some(at as u8)
    }
}

/// What asks the system for a link.
pub(super) fn question(index: u32) -> [u8; HEAD_BYTES + LINK_BYTES] {
    const BYTES: usize = HEAD_BYTES + LINK_BYTES;
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&(BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&GET_LINK.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes[8..12].copy_from_slice(&ASKED.to_ne_bytes());
    bytes[20..24].copy_from_slice(&index.to_ne_bytes());
    bytes
}

/// Of each link in a message of the system, its number and whether it carries something. One
/// that is no more may come back under another number: nothing is said against it.
fn links(mut news: &[u8]) -> impl Iterator<Item = (u32, bool)> {
    std::iter::from_fn(move || {
        loop {
            let len = u32_at(news, 0)? as usize;
            let kind = u16::from_ne_bytes(news.get(4..6)?.try_into().ok()?);
            let link = news.get(HEAD_BYTES..HEAD_BYTES + LINK_BYTES);
            // What follows is aligned. A length that is none ends the message.
            let next = len.max(HEAD_BYTES).next_multiple_of(4);
            news = news.get(next..).unwrap_or_default();
            let Some(link) = link.filter(|_| len >= HEAD_BYTES + LINK_BYTES) else { continue };
            let (index, flags) = (u32_at(link, 4)?, u32_at(link, 8)?);
            match kind {
                NEW_LINK => return Some((index, flags & CARRIES == CARRIES)),
                DEL_LINK => return Some((index, true)),
                _ => {}
            }
        }
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// What the system says of a link.
#[cfg(test)]
pub(super) fn told(index: u32, carries: bool) -> Vec<u8> {
    tests::message(NEW_LINK, index, if carries { CARRIES } else { libc::IFF_UP as u32 })
}

/// What the system answers to whoever asks for a link.
#[cfg(test)]
pub(super) fn answered(index: u32, carries: bool) -> Vec<u8> {
    let mut bytes = told(index, carries);
    bytes[8..12].copy_from_slice(&ASKED.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn message(kind: u16, index: u32, flags: u32) -> Vec<u8> {
        let attribute = [5, 0, 3, 0, 0, 0, 0, 0];
        let len = (HEAD_BYTES + LINK_BYTES + attribute.len()) as u32;
        let mut bytes = [len.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend([index, flags, u32::MAX].map(u32::to_ne_bytes).concat());
        bytes.extend(attribute);
        bytes
    }

    fn device(index: u32) -> OwnDevice {
        OwnDevice { index, ..crate::net::tests::loopback(1) }
    }

    #[test]
    fn links_are_found_in_what_the_system_says() {
        let up = libc::IFF_UP as u32;
        let said = [
            message(NEW_LINK, 3, CARRIES | 0x1000),
            message(libc::RTM_NEWADDR, 4, 0),
            message(NEW_LINK, 4, up),
            message(NEW_LINK, 5, CARRIES & !up),
            message(DEL_LINK, 6, 0),
        ]
        .concat();
        let all = [(3, true), (4, false), (5, false), (6, true)];
        assert_eq!(links(&said).collect::<Vec<_>>(), all);
        // Wherever it is cut off, and whatever is in it, it is read to its end.
        for end in 0..said.len() {
            let found: Vec<_> = links(&said[..end]).collect();
            assert!(all.starts_with(&found), "{end}: {found:?}");
        }
        for len in [0, 1, 15, 16, 31, 32, u32::MAX - 2, u32::MAX] {
            let mut said = said.clone();
            said[..4].copy_from_slice(&len.to_ne_bytes());
            assert!(links(&said).count() <= said.len() / HEAD_BYTES);
        }
    }

    #[test]
    fn an_answer_is_news_only_if_it_says_something_new() {
        let devices = [device(3)];
        let mut carriers = Carriers::of(1);
        let heard = [(false, true), (true, false), (true, true), (false, false), (true, false)];
        let is_news = heard.map(|(carries, is_answer)| {
            let said = if is_answer { answered(3, carries) } else { told(3, carries) };
            carriers.note(&devices, &said)
        });
        // Lost, back, still back, lost again, and back.
        assert_eq!(is_news, [true, true, false, true, true]);
        // Whatever the system tells unasked is news, also of others and of addresses.
        assert!(carriers.note(&devices, &told(7, true)));
        assert!(carriers.note(&devices, &message(libc::RTM_NEWADDR, 3, 0)));
        assert!(!carriers.note(&devices, &answered(7, false)));
    }

    #[test]
    fn the_system_is_asked_for_one_link() {
        let mut expected = [0; 32];
        expected[0] = 32;
        // RTM_GETLINK, NLM_F_REQUEST, the number of the question.
        (expected[4], expected[6], expected[8]) = (18, 1, 1);
        (expected[20], expected[21]) = (0x34, 0x12);
        if cfg!(target_endian = "little") {
            assert_eq!(question(0x1234), expected);
        }
    }

    #[test]
    fn a_device_is_lost_once_and_back_once() {
        let devices = [device(3), device(4), device(4)];
        let mut carriers = Carriers::of(3);
        for _ in 0..2 {
            carriers.note(&devices, &told(4, false));
            carriers.note(&devices, &told(7, false));
        }
        assert_eq!([carriers.next_lost(), carriers.next_lost()], [Some(1), Some(2)]);
        carriers.note(&devices, &told(4, false));
        assert_eq!((carriers.next_lost(), carriers.next_back()), (None, None));
        assert_eq!([0, 1, 2, 9].map(|at| carriers.is_lost(at)), [false, true, true, false]);
        carriers.note(&devices, &told(4, true));
        assert!(!carriers.is_lost(1));
        assert_eq!(carriers.next_back(), Some(1));
        // It goes away again before the other one's rails are told.
        carriers.note(&devices, &told(4, false));
        assert_eq!((carriers.next_back(), carriers.next_lost()), (None, Some(1)));
        // What has become of it nobody knows.
        carriers.forget();
        assert_eq!([(); 3].map(|()| carriers.next_back()), [Some(1), Some(2), None]);
    }
}
