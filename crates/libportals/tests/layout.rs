//! What Rust takes the header's types and constants for is what a C compiler
//! makes of them, and the headers compile wherever programs include them.

use portals::types::*;
use portals::{codes, consts};
use std::collections::BTreeMap;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const HEADERS: [&str; 2] = ["portals4.h", "sluice_job.h"];

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// A directory of this test's own.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Runs it, and gives what it prints; nothing if there is no such program.
fn run(command: &mut Command) -> Option<String> {
    let out = match command.output() {
        Ok(out) => out,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{command:?}: {error}"),
    };
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}:\n{said}");
    Some(String::from_utf8(out.stdout).unwrap())
}

/// The constants that the headers define: every macro with a value and no
/// arguments.
fn constants() -> Vec<String> {
    let mut names = Vec::new();
    for header in HEADERS {
        let text = fs::read_to_string(include().join(header)).unwrap();
        for line in text.lines() {
            let mut words = line.strip_prefix("#define ").unwrap_or("").split_whitespace();
            if let (Some(name), Some(_)) = (words.next(), words.next())
                && !name.contains('(')
            {
                names.push(name.to_owned());
            }
        }
    }
    assert!(names.len() > 150, "{names:?}");
    names
}

/// What the C program prints. It is compiled once, for all tests here.
static C_SAYS: LazyLock<BTreeMap<String, u64>> = LazyLock::new(c_says);

fn c_says() -> BTreeMap<String, u64> {
    let dir = scratch("layout");
    let lines: String = constants().iter().map(|name| format!("CONSTANT({name})\n")).collect();
    fs::write(dir.join("names.inc"), lines).unwrap();
    let program = dir.join("layout");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layout.c");
    run(Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(include())
        .arg("-I")
        .arg(&dir)
        .arg(source))
    .expect("a C compiler called cc");
    let printed = run(&mut Command::new(&program)).unwrap();
    printed
        .lines()
        .map(|line| {
            let (name, value) = line.rsplit_once('=').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// The structures, by the names that the C program prints.
fn rust_says() -> BTreeMap<String, u64> {
    let mut says = BTreeMap::new();
    let mut say = |name: &str, value: usize| says.insert(name.to_owned(), value as u64);
    macro_rules! layout {
        ($($name:ident { $($field:ident),* })*) => {$(
            say(concat!("sizeof ", stringify!($name)), size_of::<$name>());
            $(say(
                concat!(stringify!($name), ".", stringify!($field)),
                offset_of!($name, $field),
            );)*
        )*};
    }
    layout! {
        ptl_process_t { rank }
        ptl_iovec_t { iov_base, iov_len }
        ptl_ni_limits_t {
            max_entries, max_unexpected_headers, max_mds, max_cts, max_eqs, max_pt_index,
            max_iovecs, max_list_size, max_triggered_ops, max_msg_size, max_atomic_size,
            max_fetch_atomic_size, max_waw_ordered_size, max_war_ordered_size,
            max_volatile_size, features
        }
        ptl_md_t { start, length, options, eq_handle, ct_handle }
        ptl_le_t { start, length, ct_handle, uid, options }
        ptl_me_t {
            start, length, ct_handle, uid, options, match_id, match_bits, ignore_bits, min_free
        }
        ptl_ct_event_t { success, failure }
        ptl_event_t {
            start, user_ptr, hdr_data, match_bits, rlength, mlength, remote_offset, initiator,
            uid, pt_index, ptl_list, ni_fail_type, atomic_operation, atomic_type
        }
    }
    let phys = offset_of!(ptl_process_t, phys);
    say("ptl_process_t.phys.nid", phys + offset_of!(ptl_phys_t, nid));
    say("ptl_process_t.phys.pid", phys + offset_of!(ptl_phys_t, pid));
    // Its name is a word of Rust's.
    say("ptl_event_t.type", offset_of!(ptl_event_t, r#type));
    for (names, bytes) in [
        ("list search_op op datatype ack_req event_kind ni_fail", size_of::<u8>()),
        ("pt_index nid pid rank uid", size_of::<u32>()),
        ("time interface sr_index sr_value", size_of::<std::ffi::c_uint>()),
        ("size match_bits hdr_data", size_of::<u64>()),
    ] {
        for name in names.split(' ') {
            say(&format!("sizeof ptl_{name}_t"), bytes);
        }
    }
    say("sizeof ptl_handle_any_t", size_of::<ptl_handle_any_t>());
    says
}

#[test]
fn structures_are_laid_out_as_c_does() {
    let (c, rust) = (&*C_SAYS, rust_says());
    let mut layout = c.clone();
    layout.retain(|name, _| name.contains([' ', '.']));
    assert_eq!(layout, rust);
}

#[test]
fn constants_have_the_values_of_the_header() {
    let mut c = C_SAYS.clone();
    c.retain(|name, _| name.starts_with("PTL_"));
    let mut rust = BTreeMap::new();
    let rows = consts::ALL.iter().map(|(name, value)| (*name, *value));
    let returns = codes::RETURNS.iter().map(|(name, code, _)| (*name, *code as u64));
    let fails = codes::FAILS.iter().map(|(name, code, _)| (*name, u64::from(*code)));
    for (name, value) in rows.chain(returns).chain(fails) {
        assert_eq!(rust.insert(name.to_owned(), value), None, "{name} stands twice");
    }
    assert_eq!(c, rust);
}

#[test]
fn the_longest_blob_is_what_the_header_says() {
    assert_eq!(C_SAYS["SLUICE_JOB_BLOB_MAX"], 1 << 20);
}

#[test]
fn the_masks_of_the_header_are_made_of_its_options() {
    let c = &*C_SAYS;
    let of = |prefix: &str| {
        c.iter()
            .filter(|(name, _)| name.starts_with(prefix) && !name.ends_with("_MASK"))
            .fold(c["PTL_IOVEC"], |bits, (_, value)| bits | value)
    };
    assert_eq!(of("PTL_MD_"), c["PTL_MD_OPTIONS_MASK"]);
    assert_eq!(of("PTL_ME_"), c["PTL_ME_APPEND_OPTIONS_MASK"]);
    assert_eq!(of("PTL_LE_"), c["PTL_LE_APPEND_OPTIONS_MASK"]);
}

#[test]
fn options_of_one_kind_are_different_bits() {
    let c = &*C_SAYS;
    for prefix in ["PTL_MD_", "PTL_ME_", "PTL_LE_"] {
        let mut seen = c["PTL_IOVEC"];
        for (name, value) in c {
            if name.starts_with(prefix) && !name.ends_with("_MASK") {
                assert!(value.is_power_of_two() && seen & value == 0, "{name}");
                seen |= value;
            }
        }
    }
}

/// Every standard that programs are compiled by, with every warning an error.
#[test]
fn the_headers_compile_as_old_c_as_new_c_and_as_cpp() {
    let dir = scratch("headers");
    for (compiler, suffix, options) in [
        // Its pedantry goes no further than to what <stdint.h> itself needs.
        ("cc", "c", ["-std=c89", "-pedantic", "-Wno-long-long"]),
        ("cc", "c", ["-std=c99", "-pedantic", "-Wshadow"]),
        ("cc", "c", ["-std=c11", "-pedantic", "-Wstrict-prototypes"]),
        ("g++", "cc", ["-std=c++98", "-Wno-long-long", "-Wold-style-cast"]),
        ("g++", "cc", ["-std=c++17", "-pedantic", "-Wshadow"]),
    ] {
        for header in HEADERS {
            // Twice, for the guard.
            let source = dir.join(format!("only.{suffix}"));
            let text = format!("#include \"{header}\"\n#include \"{header}\"\nint unused;\n");
            fs::write(&source, text).unwrap();
            let mut command = Command::new(compiler);
            command.args(options).args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
            if run(command.arg(include()).arg(source)).is_none() {
                assert_eq!(compiler, "g++", "no C compiler called cc");
                eprintln!("no g++ here: C++ was not tried");
            }
        }
    }
}

/// Clients use handles and codes as initializers and as labels.
#[test]
fn constants_work_where_clients_use_them() {
    let dir = scratch("uses");
    let source = dir.join("uses.c");
    fs::write(
        &source,
        r#"
        #include "portals4.h"
        #if PTL_INTERRUPTED == PTL_ABORTED || PTL_NID_ANY != 0xffffffff
        # error "macros do not work"
        #endif
        ptl_handle_ni_t ni = PTL_INVALID_HANDLE;
        ptl_md_t all = { 0, PTL_SIZE_MAX, PTL_MD_VOLATILE, PTL_EQ_NONE, PTL_CT_NONE };
        ptl_sr_index_t reg = PTL_SR_DROP_COUNT;
        int name(int code);
        int name(int code)
        {
            switch (code) {
            case PTL_OK: case PTL_ARG_INVALID: case PTL_CT_NONE_REACHED: case PTL_EQ_DROPPED:
            case PTL_EQ_EMPTY: case PTL_FAIL: case PTL_IGNORED: case PTL_IN_USE:
            case PTL_LIST_TOO_LONG: case PTL_NO_INIT: case PTL_NO_SPACE: case PTL_PID_IN_USE:
            case PTL_PT_FULL: case PTL_PT_EQ_NEEDED: case PTL_PT_IN_USE: case PTL_ABORTED:
            case PTL_INTERRUPTED: return 1;
            case PTL_STATUS_LAST: return 2;
            default: return 0;
            }
        }
        "#,
    )
    .unwrap();
    let mut command = Command::new("cc");
    command.args(["-std=c89", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
    run(command.arg(include()).arg(source)).expect("a C compiler called cc");
}
