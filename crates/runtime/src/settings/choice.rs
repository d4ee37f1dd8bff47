//! Settings that are one of a few words.

use sluice_rail::net::handshake::Security;
use sluice_rail::shm::{BulkKind, CreditKind, SegmentKind};

/// A setting that is one of a few words.
pub trait Choice: Copy + PartialEq + 'static {
    /// Each value, its word, and what it means.
    const ALL: &'static [(Self, &'static str, &'static str)];

    /// The word of this value.
    #[must_use]
    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(value, _, _)| *value == self).map_or("", |(_, word, _)| word)
    }

    /// What a word says, in capitals or not.
    #[must_use]
    fn parse(text: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, word, _)| text.eq_ignore_ascii_case(word));
        found.map(|(value, _, _)| *value)
    }
}

/// All words of a choice, as people read them.
#[must_use]
pub fn words<C: Choice>() -> String {
    let words: Vec<&str> = C::ALL.iter().map(|(_, word, _)| *word).collect();
    words.join(", ")
}

impl Choice for BulkKind {
    const ALL: &'static [(BulkKind, &'static str, &'static str)] = &[
        (BulkKind::Auto, "auto", "Directly where the system allows it, else through the mailboxes"),
        (BulkKind::Direct, "direct", "Directly, and this process declares that others may read it"),
        (BulkKind::Ring, "ring", "Through the mailboxes"),
    ];
}

impl Choice for CreditKind {
    const ALL: &'static [(CreditKind, &'static str, &'static str)] = &[
        (CreditKind::Dynamic, "dynamic", "Who spends it gets it"),
        (CreditKind::Static, "static", "Equal shares"),
    ];
}

impl Choice for SegmentKind {
    const ALL: &'static [(SegmentKind, &'static str, &'static str)] = &[
        (SegmentKind::Auto, "auto", "A memfd; a file where others cannot open that"),
        (SegmentKind::Memfd, "memfd", "A memfd"),
        (SegmentKind::File, "file", "A file in FI_SLUICE_SHM_DIR"),
    ];
}

impl Choice for Security {
    const ALL: &'static [(Security, &'static str, &'static str)] = &[
        (Security::Auth, "auth", "Both ends prove who they are; what they send is not encrypted"),
        (Security::Encrypt, "encrypt", "Both ends prove who they are; all they send is encrypted"),
        (Security::None, "none", "Nobody proves anything: for closed networks"),
    ];
}

/// Who makes progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Whom the program asks for (FI_PROGRESS_AUTO: a thread), or, if it asks for nobody, who fits what it does.
    #[default]
    Asked,
    /// The program's calls.
    Poll,
    /// A thread, also where the program asks for none.
    Thread,
}

impl Choice for Progress {
    const ALL: &'static [(Progress, &'static str, &'static str)] = &[
        (Progress::Asked, "auto", "Whom the program asks for"),
        (Progress::Poll, "poll", "The program's calls"),
        (Progress::Thread, "thread", "A thread as well"),
    ];
}

/// Who matches messages with receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// This process.
    #[default]
    Process,
    /// A rail over libfabric, where that can be.
    Rail,
}

impl Choice for Matching {
    const ALL: &'static [(Matching, &'static str, &'static str)] = &[
        (Matching::Process, "process", "The process itself"),
        (Matching::Rail, "rail", "The first provider of libfabric in FI_SLUICE_RAILS"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_word_is_its_value<C: Choice + std::fmt::Debug>() {
        for (value, word, _) in C::ALL {
            assert_eq!((value.word(), C::parse(word)), (*word, Some(*value)));
            assert_eq!(C::parse(&word.to_ascii_uppercase()), Some(*value));
            assert_eq!(C::parse(&format!("{word} ")), None);
        }
        assert!(words::<C>().split(", ").all(|word| C::parse(word).is_some()));
    }

    #[test]
    fn words_and_values_are_the_same_both_ways() {
        each_word_is_its_value::<BulkKind>();
        each_word_is_its_value::<CreditKind>();
        each_word_is_its_value::<SegmentKind>();
        each_word_is_its_value::<Progress>();
        each_word_is_its_value::<Matching>();
        each_word_is_its_value::<Security>();
        for (mode, word, _) in Security::ALL {
            assert_eq!(mode.to_string(), *word, "messages call it so too");
        }
    }
}
