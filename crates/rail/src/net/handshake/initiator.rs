//! The end that connects: asks, reads the answer, proves.

use super::clear::{self, CHECK_BYTES};
use super::hello::Hello;
use super::noise::{self, ASK_OVERHEAD_BYTES, PROOF_BYTES};
use super::preface::{Incoming, Kind, preface};
use super::{Established, HandshakeError, Identity, Refusal, Security, WANTED_BYTES, answer_bytes};
use crate::address::Address;
use snow::HandshakeState;

/// The end that connects, until it is answered.
#[derive(Debug)]
pub struct Initiator {
    peer: Address,
    incoming: Incoming,
    state: State,
}

#[derive(Debug)]
enum State {
    Clear,
    Noise(Box<HandshakeState>),
    Over,
}

/// An answer that was not a refusal.
#[derive(Debug)]
pub struct Answered {
    /// The peer. Frames may be sent to it, behind the proof.
    pub established: Established,
    /// What to send first of all.
    pub proof: Vec<u8>,
}

impl Initiator {
    /// Asks `peer` for a connection: the bytes to send to it.
    ///
    /// # Errors
    /// [`HandshakeError::NoNetwork`] if the address has no host, and
    /// [`HandshakeError::Random`].
    ///
    /// # Panics
    /// If `hello` is not of this process, or one that nobody accepts.
    pub fn new(
        own: &Identity,
        peer: &Address,
        mode: Security,
        hello: &Hello,
    ) -> Result<(Initiator, Vec<u8>), HandshakeError> {
        assert_eq!(hello.address, own.address(), "a process tells of itself");
        if peer.host().is_none() {
            return Err(HandshakeError::NoNetwork);
        }
        let hello = hello.to_bytes();
        let (state, ask) = match mode {
            Security::None => (State::Clear, ask_in_clear(peer, &hello)),
            Security::Auth | Security::Encrypt => {
                let length = ASK_OVERHEAD_BYTES + hello.len();
                let mut ask = preface(mode, Kind::Ask, length).to_vec();
                let mut state = noise::initiator(own, peer, &ask);
                noise::write(&mut state, &hello, ASK_OVERHEAD_BYTES, &mut ask)?;
                (State::Noise(Box::new(state)), ask)
            }
        };
        let incoming = Incoming::new(mode, Kind::Answer, answer_bytes(mode));
        Ok((Initiator { peer: *peer, incoming, state }, ask))
    }

    /// Takes bytes that have come from the peer; `None` while they are not all of the
    /// answer. With it, how many of these bytes belong to it; those behind are the peer's
    /// first frames.
    ///
    /// # Errors
    /// [`HandshakeError`]: the connection is to be closed.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(Answered, usize)>, HandshakeError> {
        if matches!(self.state, State::Over) {
            return Err(HandshakeError::Over);
        }
        let Some(used) = self.incoming.take(bytes)? else { return Ok(None) };
        let mode = self.incoming.mode();
        let (content, noise) = match std::mem::replace(&mut self.state, State::Over) {
            State::Over => return Err(HandshakeError::Over),
            State::Clear => (clear::content(&self.incoming)?.to_vec(), None),
            State::Noise(mut state) => {
                let content = noise::read(&mut state, self.incoming.body());
                (content.ok_or(HandshakeError::NotThePeer)?, Some(state))
            }
        };
        let hello = outcome(&content)?;
        if hello.address != self.peer {
            return Err(HandshakeError::OtherAddress);
        }
        let mut proof =
            preface(mode, Kind::Proof, if noise.is_some() { PROOF_BYTES } else { 0 }).to_vec();
        let mut cipher = None;
        if let Some(mut state) = noise {
            cipher = (mode == Security::Encrypt).then(|| noise::cipher(&mut state));
            let mut state = state.into_transport_mode().expect("both messages are through");
            let mut body = [0; PROOF_BYTES];
            let written = state.write_message(&[], &mut body);
            assert_eq!(written.ok(), Some(PROOF_BYTES), "the first record");
            proof.extend(body);
        }
        let established = Established { peer: self.peer, hello, cipher };
        Ok(Some((Answered { established, proof }, used)))
    }

    /// Why nothing came of it, if the stream ends here.
    #[must_use]
    pub fn ended(&self) -> HandshakeError {
        self.incoming.ended()
    }
}

fn ask_in_clear(peer: &Address, hello: &[u8]) -> Vec<u8> {
    let length = WANTED_BYTES + hello.len() + CHECK_BYTES;
    let mut ask = preface(Security::None, Kind::Ask, length).to_vec();
    ask.extend(peer.key());
    ask.extend(hello);
    clear::close(&mut ask);
    ask
}

/// What an answer says.
fn outcome(content: &[u8]) -> Result<Hello, HandshakeError> {
    match content.split_first() {
        None => Err(HandshakeError::Malformed("too short")),
        Some((0, hello)) => Hello::from_bytes(hello),
        Some((&code, [])) => {
            let why = Refusal::from_code(code);
            Err(why.map_or(HandshakeError::Malformed("unknown reason"), HandshakeError::Refused))
        }
        Some(_) => Err(HandshakeError::Malformed("a refusal with more behind")),
    }
}
