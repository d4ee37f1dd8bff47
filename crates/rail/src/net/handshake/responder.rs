//! The end that listens: reads an ask, answers, waits for the proof.

use super::clear::{self, CHECK_BYTES};
use super::hello::Hello;
use super::noise::{self, ANSWER_OVERHEAD_BYTES, PROOF_BYTES};
use super::preface::{Incoming, Kind, PREFACE_BYTES, preface};
use super::{
    Cipher, Established, HandshakeError, Identity, OUTCOME_BYTES, Refusal, Security, WANTED_BYTES,
    ask_bytes, proof_bytes,
};
use crate::address::Address;
use snow::{HandshakeState, TransportState};

/// The end that listens, until it is asked.
#[derive(Debug)]
pub struct Responder {
    own: Identity,
    incoming: Incoming,
    is_over: bool,
}

/// An ask that is to be answered. Who asks has the address of this process; that it has
/// the key which it shows is not proved yet ([`Accepted`]).
#[derive(Debug)]
pub struct Asked {
    hello: Hello,
    own: Address,
    mode: Security,
    state: Option<Box<HandshakeState>>,
}

/// An ask that was answered, until the proof is there.
#[derive(Debug)]
pub struct Accepted {
    incoming: Incoming,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting { hello: Hello, noise: Option<Box<TransportState>>, cipher: Option<Box<Cipher>> },
    Over,
}

impl Responder {
    /// Waits for an ask.
    #[must_use]
    pub fn new(own: &Identity, mode: Security) -> Responder {
        let incoming = Incoming::new(mode, Kind::Ask, ask_bytes(mode));
        Responder { own: own.clone(), incoming, is_over: false }
    }

    /// Takes bytes that have come; `None` while they are not all of the ask. With it,
    /// how many of these bytes belong to it; those behind are for [`Accepted::take`].
    ///
    /// # Errors
    /// [`HandshakeError`]: the connection is to be closed, once
    /// [`Responder::parting`] is sent.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(Asked, usize)>, HandshakeError> {
        if self.is_over {
            return Err(HandshakeError::Over);
        }
        let Some(used) = self.incoming.take(bytes)? else { return Ok(None) };
        self.is_over = true;
        let (hello, state) = match self.incoming.mode() {
            Security::None => (self.ask_in_clear()?, None),
            Security::Auth | Security::Encrypt => {
                let (hello, state) = self.ask_sealed()?;
                (hello, Some(Box::new(state)))
            }
        };
        let (own, mode) = (self.own.address(), self.incoming.mode());
        Ok(Some((Asked { hello, own, mode, state }, used)))
    }

    /// What to send before the connection is closed because of `why`, so that the other
    /// end learns which version and mode this process has, or that it is not the one
    /// that was asked. Nothing for who does not speak this language.
    #[must_use]
    pub fn parting(&self, why: &HandshakeError) -> Option<[u8; PREFACE_BYTES]> {
        use HandshakeError::{Mode, Stranger, Version};
        matches!(why, Version { .. } | Mode { .. } | Stranger)
            .then(|| preface(self.incoming.mode(), Kind::Parting, 0))
    }

    /// Why nothing came of it, if the stream ends here.
    #[must_use]
    pub fn ended(&self) -> HandshakeError {
        self.incoming.ended()
    }

    fn ask_in_clear(&self) -> Result<Hello, HandshakeError> {
        let content = clear::content(&self.incoming)?;
        let (wanted, hello) = content
            .split_first_chunk::<WANTED_BYTES>()
            .ok_or(HandshakeError::Malformed("too short"))?;
        if wanted != self.own.address().key() {
            return Err(HandshakeError::Stranger);
        }
        Hello::from_bytes(hello)
    }

    fn ask_sealed(&self) -> Result<(Hello, HandshakeState), HandshakeError> {
        let mut state = noise::responder(&self.own, self.incoming.preface());
        let hello = noise::read(&mut state, self.incoming.body());
        let hello = Hello::from_bytes(&hello.ok_or(HandshakeError::Stranger)?)?;
        if state.get_remote_static() != Some(hello.address.key()) {
            return Err(HandshakeError::OtherAddress);
        }
        Ok((hello, state))
    }
}

impl Asked {
    /// What the peer tells.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Accepts: the bytes to send. The peer is connected only when its proof has come;
    /// until then nothing may be taken from it or sent to it, and no older connection
    /// given up for this one, because whoever has recorded the ask can send it again.
    ///
    /// # Errors
    /// [`HandshakeError::Random`].
    ///
    /// # Panics
    /// If `hello` is not of this process, or one that nobody accepts.
    pub fn accept(mut self, hello: &Hello) -> Result<(Accepted, Vec<u8>), HandshakeError> {
        assert_eq!(hello.address, self.own, "a process tells of itself");
        let answer = self.answer(0, &hello.to_bytes())?;
        let is_sealed = self.mode == Security::Encrypt;
        let cipher = self.state.as_mut().filter(|_| is_sealed);
        let cipher = cipher.map(|state| Box::new(noise::cipher(state)));
        let noise = self
            .state
            .map(|state| Box::new(state.into_transport_mode().expect("both messages are through")));
        let incoming = Incoming::new(self.mode, Kind::Proof, proof_bytes(self.mode));
        let state = State::Waiting { hello: self.hello, noise, cipher };
        Ok((Accepted { incoming, state }, answer))
    }

    /// Refuses: the bytes to send before the connection is closed.
    ///
    /// # Errors
    /// [`HandshakeError::Random`].
    pub fn refuse(mut self, why: Refusal) -> Result<Vec<u8>, HandshakeError> {
        self.answer(why.code(), &[])
    }

    fn answer(&mut self, outcome: u8, hello: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        let length = OUTCOME_BYTES + hello.len();
        let content = [&[outcome], hello].concat();
        let Some(state) = &mut self.state else {
            let mut answer = preface(self.mode, Kind::Answer, length + CHECK_BYTES).to_vec();
            answer.extend(content);
            clear::close(&mut answer);
            return Ok(answer);
        };
        let mut answer = preface(self.mode, Kind::Answer, length + ANSWER_OVERHEAD_BYTES).to_vec();
        noise::write(state, &content, ANSWER_OVERHEAD_BYTES, &mut answer)?;
        Ok(answer)
    }
}

impl Accepted {
    /// Takes bytes that have come; `None` while they are not all of the proof. With it,
    /// how many of these bytes belong to it; those behind are the peer's first frames.
    ///
    /// # Errors
    /// [`HandshakeError`]: the connection is to be closed.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<(Established, usize)>, HandshakeError> {
        if matches!(self.state, State::Over) {
            return Err(HandshakeError::Over);
        }
        let Some(used) = self.incoming.take(bytes)? else { return Ok(None) };
        let State::Waiting { hello, noise, cipher } =
            std::mem::replace(&mut self.state, State::Over)
        else {
            return Err(HandshakeError::Over);
        };
        if let Some(mut state) = noise {
            let mut nothing = [0; PROOF_BYTES];
            if state.read_message(self.incoming.body(), &mut nothing).is_err() {
                return Err(HandshakeError::Unproven);
            }
        }
        let cipher = cipher.map(|cipher| *cipher);
        Ok(Some((Established { peer: hello.address, hello, cipher }, used)))
    }

    /// Why nothing came of it, if the stream ends here.
    #[must_use]
    pub fn ended(&self) -> HandshakeError {
        self.incoming.ended()
    }
}
