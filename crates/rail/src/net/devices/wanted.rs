//! Which devices a user wants: the setting `FI_SLUICE_DEVICES`.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The longest name of a device.
const NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;

/// Which devices a user wants. The default says nothing.
///
/// Words with commas between: names (`eth0`), patterns of names (`eth*`, `ib?`), networks
/// (`10.1.0.0/16`, `fd00::/8`) and addresses. A word with `^` in front excludes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// In the order given.
    pub(super) included: Vec<Word>,
    pub(super) excluded: Vec<Word>,
}

/// One word, without `^`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Name(String),
    Pattern(String),
    Network(IpNet),
}

/// Why a text does not say which devices are wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WantedError {
    /// Nothing between two commas, or after `^`.
    #[error("a word is empty")]
    Empty,
    /// Looks like a network or an address and is none.
    #[error("{0:?} is no network and no address")]
    Network(String),
    /// No device can have this name.
    #[error("{0:?} cannot be the name of a device")]
    Name(String),
}

impl FromStr for Wanted {
    type Err = WantedError;

    /// A text of no words is as if nothing was said.
    fn from_str(text: &str) -> Result<Wanted, WantedError> {
        let mut wanted = Wanted::default();
        if text.trim().is_empty() {
            return Ok(wanted);
        }
        for word in text.split(',') {
            let word = word.trim();
            match word.strip_prefix('^') {
                Some(word) => wanted.excluded.push(word.trim_start().parse()?),
                None => wanted.included.push(word.parse()?),
            }
        }
        Ok(wanted)
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let included = self.included.iter().map(Word::to_string);
        let excluded = self.excluded.iter().map(|word| format!("^{word}"));
        f.write_str(&included.chain(excluded).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Word {
    type Err = WantedError;

    fn from_str(word: &str) -> Result<Word, WantedError> {
        if word.is_empty() {
            return Err(WantedError::Empty);
        }
        if let Ok(address) = word.parse::<IpAddr>() {
            return Ok(Word::Network(IpNet::from(address)));
        }
        // Names have neither of the two.
        if word.contains(['/', ':']) {
            let network = word.parse::<IpNet>();
            return network
                .map(|network| Word::Network(network.trunc()))
                .map_err(|_| WantedError::Network(word.to_owned()));
        }
        let is_pattern = word.contains(['*', '?']);
        if word.contains(|c: char| c.is_whitespace() || c.is_control() || c == '^')
            || (!is_pattern && word.len() > NAME_BYTES_MAX)
        {
            return Err(WantedError::Name(word.to_owned()));
        }
        let word = word.to_owned();
        Ok(if is_pattern { Word::Pattern(word) } else { Word::Name(word) })
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Name(word) | Word::Pattern(word) => f.write_str(word),
            Word::Network(network) => network.fmt(f),
        }
    }
}

/// Whether a name is of a pattern, in which `*` stands for any text and `?` for any
/// character.
pub(super) fn is_of_pattern(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    // Of each beginning of the name: whether the pattern so far is that.
    let mut fits = vec![false; name.len() + 1];
    fits[0] = true;
    for wanted in pattern {
        if wanted == '*' {
            let first = fits.iter().position(|fit| *fit).unwrap_or(fits.len());
            fits[first..].fill(true);
        } else {
            for len in (1..fits.len()).rev() {
                fits[len] = fits[len - 1] && (wanted == '?' || wanted == name[len - 1]);
            }
            fits[0] = false;
        }
    }
    fits[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wanted(text: &str) -> Result<Wanted, WantedError> {
        text.parse()
    }

    #[test]
    fn words_are_names_patterns_and_networks() {
        let read = wanted(" eth0, ib*,10.1.2.3/16 ,fd00::/8,192.0.2.7,^docker0,^172.16.0.0/12");
        let read = read.expect("all words are allowed");
        let network = |text: &str| Word::Network(text.parse().expect("a network"));
        assert_eq!(
            read.included,
            [
                Word::Name("eth0".into()),
                Word::Pattern("ib*".into()),
                network("10.1.0.0/16"),
                network("fd00::/8"),
                network("192.0.2.7/32"),
            ]
        );
        assert_eq!(read.excluded, [Word::Name("docker0".into()), network("172.16.0.0/12")]);
        assert_eq!(wanted(&read.to_string()), Ok(read));
        assert_eq!(wanted(" "), Ok(Wanted::default()));
    }

    #[test]
    fn words_that_say_nothing_are_refused() {
        for text in [",", "eth0,", "^", "eth0,^ ,eth1"] {
            assert_eq!(wanted(text), Err(WantedError::Empty), "{text:?}");
        }
        for text in ["10.1.0.0/33", "eth0:1", "fd00::/129", "/16", "fe80::1%eth0"] {
            assert_eq!(wanted(text), Err(WantedError::Network(text.into())));
        }
        for text in ["a name", "sixteen-letters0", "^^eth0", "a\0"] {
            let word = text.strip_prefix('^').unwrap_or(text);
            assert_eq!(wanted(text), Err(WantedError::Name(word.into())));
        }
    }

    #[test]
    fn patterns() {
        for (name, pattern) in
            [("eth0", "eth*"), ("eth0", "*"), ("", "*"), ("eth0", "e?h?"), ("enp3s0", "e*s?")]
        {
            assert!(is_of_pattern(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in [("eth0", "eth"), ("eth0", "?"), ("veth0", "eth*"), ("e", "e?")] {
            assert!(!is_of_pattern(name, pattern), "{name} {pattern}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_back_as_it_is_written(text in "[a-z0-9*?:/.,^ ]{0,24}|.*") {
            if let Ok(read) = wanted(&text) {
                prop_assert_eq!(wanted(&read.to_string()), Ok(read));
            }
        }

        /// Against the definition, by recursion.
        #[test]
        fn patterns_are_as_defined(name in "[ab]{0,8}", pattern in "[ab*?]{0,8}") {
            fn defined(name: &[u8], pattern: &[u8]) -> bool {
                match (name, pattern) {
                    (_, [b'*', rest @ ..]) => (0..=name.len()).any(|skip| defined(&name[skip..], rest)),
                    ([first, name @ ..], [wanted, rest @ ..]) => {
                        (first == wanted || *wanted == b'?') && defined(name, rest)
                    }
                    (_, []) => name.is_empty(),
                    ([], _) => false,
                }
            }
            let expected = defined(name.as_bytes(), pattern.as_bytes());
            prop_assert_eq!(is_of_pattern(&name, &pattern), expected);
        }
    }
}
