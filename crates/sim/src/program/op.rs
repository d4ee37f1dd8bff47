//! What a program has a process do.

/// What a process does next. All of them end when the process may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Sends a message. Ends when its packets, or its announcement, have gone.
    Send { to: u32, bytes: u32 },
    /// Receives the next message of a rank.
    Recv { from: u32 },
    /// Both at once.
    Both { to: u32, bytes: u32, from: u32 },
    /// Begins both and ends at once. Between two [`Op::Settle`] there is at most
    /// one for each other rank.
    Post { to: u32, bytes: u32, from: u32 },
    /// Begins a send and ends at once.
    PostSend { to: u32, bytes: u32 },
    /// Begins a receive and ends at once.
    PostRecv { from: u32 },
    /// Receives so many messages of a rank, with so many receives begun at any time,
    /// and ends at once.
    Stream { from: u32, count: u32, window: u32 },
    /// Waits until so many receives from a rank have ended, counted from the start.
    Await { from: u32, number: u32 },
    /// Waits until all that was begun or announced has ended.
    Settle,
    /// Computes, or has not come yet: no call of the library until then.
    Away { until_ns: u64 },
    /// Waits in the library until then.
    Rest { until_ns: u64 },
}

/// What comes after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Do(Op),
    /// A repetition has ended, counted over all phases.
    Repeated(u32),
    /// The rank has done all.
    End,
}
