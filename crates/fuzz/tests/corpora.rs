//! What the fuzzer has kept (`fuzz/corpus`), and each beginning of it, once more.

use sluice_fuzz_targets::TARGETS;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Some targets use what there is once in a process: its descriptors, the interfaces of
/// `libportals`.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Of each target.
const NOISES: u32 = 60;

#[test]
fn what_the_fuzzer_has_kept_finds_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        let dir = corpora.join(target.name);
        let files = fs::read_dir(&dir).unwrap_or_else(|why| panic!("{}: {why}", dir.display()));
        let mut runs = 0;
        for file in files {
            let path = file.expect("a file").path();
            let bytes = fs::read(&path).expect("it can be read");
            for bytes in [&bytes[..], &bytes[..bytes.len() / 2]] {
                if catch_unwind(|| (target.run)(bytes)).is_err() {
                    panic!("{} with {} bytes of {}", target.name, bytes.len(), path.display());
                }
            }
            runs += 1;
        }
        assert!(runs > 0, "{} has no corpus", target.name);
    }
}

/// A long message that nobody disturbs: what the target of shared memory is to reach.
#[test]
fn chunks_are_handed_over() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Whether the other side is found in time is a matter of the machine's load.
    let is_handed = (0..20).any(|_| {
        sluice_fuzz_targets::run("shared_memory", &[2, 3]);
        sluice_fuzz_targets::chunks_handed() > 0
    });
    assert!(is_handed);
}

/// Bytes of which nobody has made anything yet: most of what a fuzzer begins with.
#[test]
fn noise_finds_nothing() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for target in TARGETS {
        for _ in 0..NOISES {
            let len = draw() % 600;
            let bytes: Vec<u8> = (0..len).map(|_| draw() as u8).collect();
            if catch_unwind(|| (target.run)(&bytes)).is_err() {
                panic!("{} with {bytes:?}", target.name);
            }
        }
    }
}
