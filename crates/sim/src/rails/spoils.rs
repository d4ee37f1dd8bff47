//! Frames that do not arrive as they were sent: a check or a number shows it, and whoever
//! receives ends the connection. What was lost goes over the next one.

use super::Rails;
use super::connection::Spoil;
use super::frame::{Body, Cx, Frame};

impl Rails {
    /// A frame has come, perhaps not as it was sent.
    pub(super) fn take_as_it_comes(
        &mut self,
        cx: &mut Cx<'_>,
        connection: usize,
        from: usize,
        frame: Frame,
    ) {
        let spoil = &mut self.connections[connection].ways[from].spoil;
        match spoil.take() {
            None => self.take(cx, connection, from, frame),
            Some(Spoil::Lost | Spoil::Swapped) => *spoil = Some(Spoil::Gap),
            Some(Spoil::Altered | Spoil::Gap) => self.end_spoilt(cx, connection, from),
            Some(Spoil::Twice) => {
                self.take(cx, connection, from, frame);
                self.end_spoilt(cx, connection, from);
            }
        }
    }

    /// Who has received ends the connection, and the other learns it.
    fn end_spoilt(&mut self, cx: &mut Cx<'_>, connection: usize, from: usize) {
        self.lose_end(cx, connection, 1 - from);
        self.put(cx, connection, 1 - from, Body::Reset);
    }
}
