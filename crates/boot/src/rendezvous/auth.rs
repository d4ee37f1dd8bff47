//! Who may join: a Noise handshake with the job's secret as pre-shared key.
//!
//! The rank's first words are sealed with the secret, so rank 0 answers only those who have it:
//! a stranger learns nothing that he could try secrets on. The answer proves that rank 0 has it
//! too. What the rank sends next, sealed by keys that nobody else can make, proves that its first
//! words were not somebody's recording; only then does rank 0 heed them. Everything from then on is
//! sealed, for exchanges carry the secrets of addresses.

use snow::params::HashChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState, TransportState};

/// Nobody has a key of his own, both have the secret, and it is mixed in first.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// What is hashed before the secret, so that nothing else that is made of it is the same.
const PSK_LABEL: &[u8] = b"Sluice job key 2";
/// What the first words begin with; the last byte is the version.
const MAGIC: &[u8; 8] = b"SluiceJ2";
/// What a sealed text is longer than what it says.
pub(super) const TAG_LEN: usize = 16;
const EPHEMERAL_LEN: usize = 32;
const CLAIM_LEN: usize = 4 + 4;
const HELLO_LEN: usize = MAGIC.len() + EPHEMERAL_LEN + CLAIM_LEN + TAG_LEN;
const CHALLENGE_LEN: usize = EPHEMERAL_LEN + TAG_LEN;
/// The longest body of a frame before both sides are proven.
pub(super) const BODY_MAX: usize = HELLO_LEN;
const _: () = assert!(CHALLENGE_LEN <= BODY_MAX);

/// Why rank 0 turns a rank away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Version = 1,
    WrongKey = 2,
    WrongSize = 3,
    UnknownRank = 4,
    DuplicateRank = 5,
}

impl Reason {
    pub fn parse(code: u8) -> Option<Reason> {
        [
            Reason::Version,
            Reason::WrongKey,
            Reason::WrongSize,
            Reason::UnknownRank,
            Reason::DuplicateRank,
        ]
        .into_iter()
        .find(|&reason| reason as u8 == code)
    }
}

/// Who a rank says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub rank: u32,
    pub size: u32,
}

impl Claim {
    fn emit(self) -> [u8; CLAIM_LEN] {
        let mut bytes = [0; CLAIM_LEN];
        bytes[..4].copy_from_slice(&self.rank.to_le_bytes());
        bytes[4..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    fn parse(bytes: [u8; CLAIM_LEN]) -> Claim {
        let [a, b, c, d, e, f, g, h] = bytes;
        Claim { rank: u32::from_le_bytes([a, b, c, d]), size: u32::from_le_bytes([e, f, g, h]) }
    }
}

/// The system gives no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub(super) struct NoRandom;

/// A rank that has said HELLO.
pub(super) struct Asking(HandshakeState);

/// Says who this rank is: the body of HELLO, and what its answer is read with.
pub(super) fn ask(key: &[u8], claim: Claim) -> Result<(Asking, Vec<u8>), NoRandom> {
    let mut state = builder(&psk_of(key), |builder| builder.build_initiator());
    let mut body = MAGIC.to_vec();
    body.resize(HELLO_LEN, 0);
    write(&mut state, &claim.emit(), &mut body[MAGIC.len()..])?;
    Ok((Asking(state), body))
}

impl Asking {
    /// What seals all that follows, if `challenge` is from who has the secret.
    pub fn answered(mut self, challenge: &[u8]) -> Option<TransportState> {
        self.0.read_message(challenge, &mut []).ok()?;
        self.0.into_transport_mode().ok()
    }
}

/// What rank 0 makes of a first frame.
pub(super) enum Heard {
    /// From who has the secret, or has recorded somebody who has: the claim, the body of
    /// CHALLENGE, and what seals all that follows.
    Rank(Claim, Vec<u8>, Box<TransportState>),
    Refused(Reason),
    /// It is none of ours.
    Stranger,
}

/// Rank 0 hears the body of a HELLO.
pub(super) fn hear(key: &[u8], body: &[u8]) -> Result<Heard, NoRandom> {
    let Some((magic, sealed)) = body.split_first_chunk::<{ MAGIC.len() }>() else {
        return Ok(Heard::Stranger);
    };
    if magic != MAGIC {
        let is_other_version = magic[..MAGIC.len() - 1] == MAGIC[..MAGIC.len() - 1];
        let reason = Heard::Refused(Reason::Version);
        return Ok(if is_other_version { reason } else { Heard::Stranger });
    }
    if body.len() != HELLO_LEN {
        return Ok(Heard::Stranger);
    }
    let mut state = builder(&psk_of(key), |builder| builder.build_responder());
    let mut claim = [0; CLAIM_LEN];
    if !matches!(state.read_message(sealed, &mut claim), Ok(CLAIM_LEN)) {
        return Ok(Heard::Refused(Reason::WrongKey));
    }
    let mut challenge = vec![0; CHALLENGE_LEN];
    write(&mut state, &[], &mut challenge)?;
    let transport = state.into_transport_mode().expect("both messages of the pattern are through");
    Ok(Heard::Rank(Claim::parse(claim), challenge, Box::new(transport)))
}

/// What `hear` makes of a body, for `fuzzing`: the rank and the size of who has the secret.
pub(crate) fn claimed(key: &[u8], body: &[u8]) -> Option<(u32, u32)> {
    match hear(key, body) {
        Ok(Heard::Rank(claim, ..)) => Some((claim.rank, claim.size)),
        Ok(Heard::Refused(_) | Heard::Stranger) | Err(_) => None,
    }
}

/// Whether a rank with this secret takes an answer to its first words, for `fuzzing`.
pub(crate) fn takes(key: &[u8], answer: &[u8]) -> bool {
    let asked = ask(key, Claim { rank: 1, size: 2 });
    asked.is_ok_and(|(asking, _)| asking.answered(answer).is_some())
}

fn builder(
    psk: &[u8; 32],
    build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
) -> HandshakeState {
    let builder = Builder::new(PATTERN.parse().expect("a pattern of Noise"));
    builder
        .psk(0, psk)
        .and_then(|builder| builder.prologue(MAGIC))
        .and_then(build)
        .expect("all that the pattern needs, each once")
}

/// The next message, which fills `out`.
fn write(state: &mut HandshakeState, payload: &[u8], out: &mut [u8]) -> Result<(), NoRandom> {
    match state.write_message(payload, out) {
        Ok(len) => {
            assert_eq!(len, out.len(), "the lengths are those of the pattern");
            Ok(())
        }
        Err(snow::Error::Rng) => Err(NoRandom),
        Err(why) => panic!("a message in its turn that fits: {why}"),
    }
}

/// The pre-shared key, made of a secret of any length.
fn psk_of(key: &[u8]) -> [u8; 32] {
    let mut hash = DefaultResolver.resolve_hash(&HashChoice::Blake2s).expect("is built in");
    let mut psk = [0; 32];
    hash.reset();
    hash.input(PSK_LABEL);
    hash.input(key);
    hash.result(&mut psk);
    psk
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &[u8] = b"open sesame";
    const CLAIM: Claim = Claim { rank: 2, size: 5 };

    fn is(heard: &Heard) -> &'static str {
        match heard {
            Heard::Rank(..) => "rank",
            Heard::Refused(Reason::WrongKey) => "wrong key",
            Heard::Refused(Reason::Version) => "version",
            Heard::Refused(_) => "refused",
            Heard::Stranger => "stranger",
        }
    }

    #[test]
    fn who_has_the_secret_is_heard_and_understands_the_answer() {
        let (asking, hello) = ask(KEY, CLAIM).unwrap();
        assert_eq!((hello.len(), &hello[..8]), (64, &b"SluiceJ2"[..]));
        let Ok(Heard::Rank(claim, challenge, mut root)) = hear(KEY, &hello) else { panic!() };
        assert_eq!((claim, challenge.len()), (CLAIM, 48));
        let mut member = asking.answered(&challenge).unwrap();
        let (mut sealed, mut opened) = ([0; 64], [0; 64]);
        let len = member.write_message(b"it is me", &mut sealed).unwrap();
        assert_eq!(root.read_message(&sealed[..len], &mut opened).unwrap(), 8);
        assert_eq!(&opened[..8], b"it is me");
    }

    #[test]
    fn every_flipped_bit_of_both_messages_is_refused() {
        let (_, hello) = ask(KEY, CLAIM).unwrap();
        for bit in 0..hello.len() * 8 {
            let mut bad = hello.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let wanted = match bit / 8 {
                0..7 => "stranger",
                7 => "version",
                _ => "wrong key",
            };
            assert_eq!(is(&hear(KEY, &bad).unwrap()), wanted, "bit {bit}");
        }
        for bit in 0..48 * 8 {
            let (asking, hello) = ask(KEY, CLAIM).unwrap();
            let Ok(Heard::Rank(_, mut challenge, _)) = hear(KEY, &hello) else { panic!() };
            challenge[bit / 8] ^= 1 << (bit % 8);
            assert!(asking.answered(&challenge).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn another_secret_or_length_is_refused() {
        let (asking, hello) = ask(KEY, CLAIM).unwrap();
        assert_eq!(is(&hear(b"open sesamE", &hello).unwrap()), "wrong key");
        for len in 0..hello.len() {
            assert_eq!(is(&hear(KEY, &hello[..len]).unwrap()), "stranger", "{len}");
        }
        assert_eq!(is(&hear(KEY, &[&hello[..], &[0]].concat()).unwrap()), "stranger");
        assert!(asking.answered(&[]).is_none());
    }

    /// Somebody who sends again what he has heard has no keys for what follows.
    #[test]
    fn a_recording_is_answered_anew() {
        let (asking, hello) = ask(KEY, CLAIM).unwrap();
        let Ok(Heard::Rank(_, first, _)) = hear(KEY, &hello) else { panic!() };
        let Ok(Heard::Rank(_, second, mut root)) = hear(KEY, &hello) else { panic!() };
        assert_ne!(first, second);
        let mut member = asking.answered(&first).unwrap();
        let mut sealed = [0; 64];
        let len = member.write_message(b"proof", &mut sealed).unwrap();
        assert!(root.read_message(&sealed[..len], &mut [0; 64]).is_err());
    }

    proptest! {
        /// Whoever has the secret, of any length, is understood.
        #[test]
        fn a_claim_is_heard_as_it_was_made(
            key in prop::collection::vec(any::<u8>(), 0..100),
            rank: u32,
            size: u32,
        ) {
            let (_, hello) = ask(&key, Claim { rank, size }).unwrap();
            prop_assert_eq!(claimed(&key, &hello), Some((rank, size)));
        }

        #[test]
        fn nobody_guesses_the_secret(
            is_ours: bool,
            mut body in prop::collection::vec(any::<u8>(), 0..2 * HELLO_LEN),
        ) {
            if is_ours && body.len() >= MAGIC.len() {
                body[..MAGIC.len()].copy_from_slice(MAGIC);
            }
            prop_assert_eq!(claimed(KEY, &body), None);
            prop_assert!(!takes(KEY, &body));
        }
    }
}
