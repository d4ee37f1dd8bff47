//! What an ELF file and the dynamic linker say of a program or a library.

use goblin::elf::Elf;
use goblin::elf::header::{ET_DYN, ET_EXEC};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An executable or a library, as far as its own bytes tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The libraries that it names itself (DT_NEEDED).
    pub needed: Vec<String>,
}

impl Binary {
    /// Reads what `bytes` say. `None` if they are no program or library of this kind.
    pub fn read(bytes: &[u8]) -> Option<Binary> {
        let elf = Elf::parse(bytes).ok()?;
        let kind = elf.header.e_type;
        let needed = elf.libraries.iter().map(|&name| name.to_owned()).collect();
        (kind == ET_EXEC || kind == ET_DYN).then_some(Binary { needed })
    }

    /// Whether it names a library whose name begins so.
    pub fn needs(&self, prefix: &str) -> bool {
        self.needed.iter().any(|name| name.starts_with(prefix))
    }
}

/// Where the dynamic linker finds a library; nowhere if it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub path: Option<PathBuf>,
}

/// What `ldd` says of a file: its libraries, and theirs.
pub fn libraries(path: &Path) -> Option<Vec<Found>> {
    let output = Command::new("ldd").arg(path).env("LC_ALL", "C").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = parse_ldd(&text);
    (output.status.success() || !found.is_empty()).then_some(found)
}

fn parse_ldd(text: &str) -> Vec<Found> {
    let lines = text.lines().filter_map(|line| {
        let (name, place) = line.trim().split_once(" => ")?;
        let place = place.rsplit_once(" (0x").map_or(place, |(place, _)| place).trim();
        // A relative directory in LD_LIBRARY_PATH gives a relative path.
        let path = (place != "not found").then(|| PathBuf::from(place));
        Some(Found { name: name.to_owned(), path })
    });
    lines.collect()
}

/// Where `needle` first is in `bytes`.
pub fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, needle)
}

/// A dynamic ELF file that needs these libraries and holds this text.
#[cfg(test)]
pub fn fabricate(needed: &[&str], text: &[u8]) -> Vec<u8> {
    const HEAD: u64 = 64;
    const ENTRY: u64 = 56;
    let mut names = vec![0_u8];
    let mut dynamic: Vec<[u64; 2]> = Vec::new();
    for name in needed {
        dynamic.push([1, names.len() as u64]);
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    let start = HEAD + 2 * ENTRY;
    let names_at = start + 16 * (dynamic.len() as u64 + 3);
    dynamic.extend([[5, names_at], [10, names.len() as u64], [0, 0]]);
    let len = names_at + names.len() as u64 + text.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A shared object for x86-64, with two program headers and no section.
    for half in [3_u16, 62] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for word in [0, HEAD, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [HEAD as u16, ENTRY as u16, 2, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // All of it is loaded at 0, and a part is the dynamic table.
    for (kind, at, bytes) in [(1_u32, 0, len), (2, start, names_at - start)] {
        file.extend(kind.to_le_bytes());
        file.extend(4_u32.to_le_bytes());
        for word in [at, at, at, bytes, bytes, 8] {
            file.extend(word.to_le_bytes());
        }
    }
    file.extend(dynamic.iter().flatten().flat_map(|word| word.to_le_bytes()));
    file.extend(names);
    file.extend(text);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_damaged_file_is_read_or_refused(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = fabricate(&["libmpi.so.40", "libc.so.6"], b"text");
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Some(binary) = Binary::read(&bytes[..=cut.index(bytes.len())]) {
                // Each name is one that the file has room for.
                prop_assert!(binary.needed.iter().all(|name| name.len() <= bytes.len()));
            }
        }

        #[test]
        fn libraries_are_read_from_any_text_of_ldd(text in "(\\PC{0,20}|\t?lib => \\PC{0,9}\n){0,4}") {
            let found = parse_ldd(&text);
            prop_assert!(found.len() <= text.matches(" => ").count());
        }
    }

    #[test]
    fn an_elf_file_names_what_it_needs() {
        let bytes = fabricate(&["libmpi.so.40", "libc.so.6"], b"");
        let binary = Binary::read(&bytes).expect("an ELF file");
        assert_eq!(binary.needed, ["libmpi.so.40", "libc.so.6"]);
        assert!(binary.needs("libmpi.so") && !binary.needs("libfabric"));
        assert_eq!(Binary::read(&fabricate(&[], b"")), Some(Binary { needed: vec![] }));
    }

    #[test]
    fn what_is_no_elf_file_is_refused_and_a_cut_one_too() {
        assert_eq!(Binary::read(b"#!/bin/sh\n"), None);
        assert_eq!(Binary::read(b""), None);
        let whole = fabricate(&["libmpi.so.40"], b"");
        for len in 0..whole.len() {
            // Whatever it says of a part, it says it.
            let _ = Binary::read(&whole[..len]);
        }
    }

    #[test]
    fn ldd_says_where_libraries_are_and_which_are_not() {
        let found = parse_ldd(
            "\tlinux-vdso.so.1 (0x00007ffc2befb000)\n\
             \tlibmpi.so.40 => /opt/my mpi/lib/libmpi.so.40 (0x00007fc2bee5a000)\n\
             \tlibfabric.so.1 => not found\n\
             \t/lib64/ld-linux-x86-64.so.2 (0x00007fc2befb6000)\n",
        );
        let expected = [
            Found {
                name: "libmpi.so.40".into(),
                path: Some(PathBuf::from("/opt/my mpi/lib/libmpi.so.40")),
            },
            Found { name: "libfabric.so.1".into(), path: None },
        ];
        assert_eq!(found, expected);
        assert_eq!(parse_ldd("\tnot a dynamic executable\n"), []);
    }

    #[test]
    fn a_text_is_found_at_its_first_place() {
        assert_eq!(position(b"abcabc", b"ca"), Some(2));
        assert_eq!(position(b"ab", b"abc"), None);
    }
}
