//! Panics that a library turns into an error code, which other things are too.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many there were in this process since this was asked first.
pub(crate) fn count() -> u64 {
    static COUNTS: Once = Once::new();
    COUNTS.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |what| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(what);
        }));
    });
    PANICS.load(Ordering::SeqCst)
}
