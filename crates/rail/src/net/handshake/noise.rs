//! The cryptography, as far as it is not `snow`'s.

use super::{Cipher, HandshakeError, Identity};
use crate::address::{Address, KEY_BYTES, Secret};
use snow::params::{DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState};

/// Both ends know each other's keys: the one that asks has that of the other's address,
/// and shows its own. First of all, both mix in what is made of the secret.
pub(super) const PATTERN: &str = "Noise_IKpsk0_25519_ChaChaPoly_BLAKE2s";
/// What is hashed before the secret, so that nothing else that is made of it is the same.
const PSK_LABEL: &[u8] = b"Sluice pre-shared key 2";
/// What is hashed before the preface of the ask.
const PROLOGUE_LABEL: &[u8] = b"Sluice handshake 2";
const TAG_BYTES: usize = 16;
/// What an ask is longer than its payload: an ephemeral key, a sealed key, a tag.
pub(super) const ASK_OVERHEAD_BYTES: usize = 2 * KEY_BYTES + 2 * TAG_BYTES;
/// What an answer is longer than its payload: an ephemeral key and a tag.
pub(super) const ANSWER_OVERHEAD_BYTES: usize = KEY_BYTES + TAG_BYTES;
/// Length of a proof: a sealed record of nothing.
pub(super) const PROOF_BYTES: usize = TAG_BYTES;

/// A key pair.
pub(super) struct Pair {
    pub(super) private: [u8; KEY_BYTES],
    pub(super) public: [u8; KEY_BYTES],
}

impl Pair {
    /// The pair of a private key.
    pub(super) fn of(private: [u8; KEY_BYTES]) -> Pair {
        let curve = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
        let mut curve = curve.expect("the curve of the pattern");
        curve.set(&private);
        Pair { private, public: curve.pubkey().try_into().expect("the length of a key") }
    }
}

/// A fresh key pair; `None` if the system gives no random numbers.
pub(super) fn generate() -> Option<Pair> {
    let pair = builder().generate_keypair().ok()?;
    Some(Pair { private: pair.private.try_into().ok()?, public: pair.public.try_into().ok()? })
}

/// Random bytes, not all zero; `None` if the system gives none.
pub(super) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut source = DefaultResolver.resolve_rng()?;
    let mut bytes = [0; N];
    while bytes == [0; N] {
        source.try_fill_bytes(&mut bytes).ok()?;
    }
    Some(bytes)
}

/// The end that asks `peer`.
pub(super) fn initiator(own: &Identity, peer: &Address, preface: &[u8]) -> HandshakeState {
    let (psk, prologue) = (psk_of(peer.secret()), prologue_of(preface));
    builder()
        .psk(0, &psk)
        .and_then(|builder| builder.local_private_key(own.private()))
        .and_then(|builder| builder.remote_public_key(peer.key()))
        .and_then(|builder| builder.prologue(&prologue))
        .and_then(Builder::build_initiator)
        .expect("all that the pattern needs, each once")
}

/// The end that is asked.
pub(super) fn responder(own: &Identity, preface: &[u8]) -> HandshakeState {
    let (psk, prologue) = (psk_of(own.address().secret()), prologue_of(preface));
    builder()
        .psk(0, &psk)
        .and_then(|builder| builder.local_private_key(own.private()))
        .and_then(|builder| builder.prologue(&prologue))
        .and_then(Builder::build_responder)
        .expect("all that the pattern needs, each once")
}

/// The next message of a handshake, with this payload, behind what is in `out`.
pub(super) fn write(
    state: &mut HandshakeState,
    payload: &[u8],
    overhead_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), HandshakeError> {
    let begin = out.len();
    out.resize(begin + overhead_bytes + payload.len(), 0);
    match state.write_message(payload, &mut out[begin..]) {
        Ok(written) => {
            assert_eq!(begin + written, out.len(), "the overhead is that of the pattern");
            Ok(())
        }
        Err(snow::Error::Rng) => Err(HandshakeError::Random),
        Err(why) => panic!("a message in its turn that fits: {why}"),
    }
}

/// The payload of the next message; `None` if it is not from who has the keys.
pub(super) fn read(state: &mut HandshakeState, message: &[u8]) -> Option<Vec<u8>> {
    let mut payload = vec![0; message.len()];
    let length = state.read_message(message, &mut payload).ok()?;
    payload.truncate(length);
    Some(payload)
}

/// What seals all that follows a handshake whose messages are through.
pub(super) fn cipher(state: &mut HandshakeState) -> Cipher {
    let (first, second) = state.dangerously_get_raw_split();
    Cipher::new(&[first, second], state.get_handshake_hash(), state.is_initiator())
}

/// The key that both mix in, made of a secret.
pub(super) fn psk_of(secret: Secret) -> [u8; KEY_BYTES] {
    let mut hash = DefaultResolver.resolve_hash(&HashChoice::Blake2s).expect("is built in");
    let mut psk = [0; KEY_BYTES];
    hash.reset();
    hash.input(PSK_LABEL);
    hash.input(&secret.0);
    hash.result(&mut psk);
    psk
}

/// What both must have seen alike, though it is in clear.
pub(super) fn prologue_of(preface: &[u8]) -> Vec<u8> {
    [PROLOGUE_LABEL, preface].concat()
}

fn builder<'a>() -> Builder<'a> {
    Builder::new(PATTERN.parse().expect("a pattern of Noise"))
}
