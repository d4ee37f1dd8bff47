//! Requests that have ended, counted. Completions are read where the endpoint keeps them: a copy of one that
//! was just written would wait until that is out of the core.

use super::requests::NUMBERED;
use super::{CHANNELS, Channel, Numbered};
use sluice_proto::{Completion, Endpoint, Kind};
use std::collections::VecDeque;

/// Requests of a process that have ended.
#[derive(Debug, Default)]
pub(super) struct Ends {
    received: [u64; CHANNELS],
    /// Sends, of those that report.
    pub(super) sent: u64,
    /// Operations on the other process's memory.
    pub(super) remote: u64,
    /// Numbered messages received and not yet asked for; no more than are posted.
    pub(super) numbered: VecDeque<Numbered>,
    /// What went wrong.
    pub(super) failure: Option<String>,
}

impl Ends {
    /// Receives of a channel.
    #[inline]
    pub(super) fn received(&self, channel: Channel) -> u64 {
        self.received[channel as usize]
    }

    /// Takes all that an endpoint has. Whether that is anything.
    #[inline]
    pub(super) fn take(&mut self, endpoint: &mut Endpoint) -> bool {
        let mut any = false;
        while let Some(completion) = endpoint.first() {
            any = true;
            self.note(completion);
            endpoint.remove_first();
        }
        any
    }

    #[inline]
    fn note(&mut self, completion: &Completion) {
        if let Err(failure) = &completion.outcome {
            self.failure = Some(failure.to_string());
            return;
        }
        match completion.kind {
            Kind::Recv if completion.context >= NUMBERED => {
                let number = completion.context - NUMBERED;
                let Completion { len, data, .. } = *completion;
                self.numbered.push_back(Numbered { number, len, data });
            }
            Kind::Recv => {
                if let Some(count) = self.received.get_mut(completion.context as usize) {
                    *count += 1;
                }
            }
            Kind::Send => self.sent += 1,
            Kind::Write | Kind::Read | Kind::Combine | Kind::Fetch => self.remote += 1,
            Kind::Probe | Kind::Consumed => {}
            Kind::PeerWrite | Kind::PeerRead | Kind::RegionWrite | Kind::RegionRead => {}
        }
    }
}
