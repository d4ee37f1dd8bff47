//! Our mirrors of PMIx's structures beside those of its header, as a C compiler sees them.

use std::fmt::Write as _;
use std::process::Command;

use super::*;

/// What a C compiler makes of `expressions`, or `None` without a compiler or the header.
fn in_c(expressions: &[&str]) -> Option<Vec<i64>> {
    let flags = Command::new("pkg-config").args(["--cflags", "pmix"]).output().ok()?;
    if !flags.status.success() {
        return None;
    }
    let mut source = String::from(
        "#include <pmix.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n\
         int main(void) {\n",
    );
    for expression in expressions {
        writeln!(source, "printf(\"%lld\\n\", (long long)({expression}));").unwrap();
    }
    source.push_str("return 0; }\n");
    let folder = std::env::temp_dir().join(format!("sluice-pmix-abi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, program) = (folder.join("abi.c"), folder.join("abi"));
    std::fs::write(&file, source).unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    let mut cc = Command::new("cc");
    let built =
        cc.arg(&file).args(flags.split_whitespace()).arg("-o").arg(&program).output().ok()?;
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.parse().unwrap()).collect())
}

#[test]
fn layouts_and_constants_are_those_of_the_header() {
    let all: &[(&str, i64)] = &[
        ("sizeof(pmix_proc_t)", size_of::<Proc>() as i64),
        ("offsetof(pmix_proc_t, nspace)", offset_of!(Proc, nspace) as i64),
        ("offsetof(pmix_proc_t, rank)", offset_of!(Proc, rank) as i64),
        ("sizeof(pmix_byte_object_t)", size_of::<ByteObject>() as i64),
        ("offsetof(pmix_byte_object_t, bytes)", offset_of!(ByteObject, bytes) as i64),
        ("offsetof(pmix_byte_object_t, size)", offset_of!(ByteObject, size) as i64),
        ("sizeof(pmix_value_t)", size_of::<Value>() as i64),
        ("offsetof(pmix_value_t, type)", offset_of!(Value, kind) as i64),
        ("sizeof(((pmix_value_t *)0)->type)", 2),
        ("offsetof(pmix_value_t, data)", offset_of!(Value, data) as i64),
        ("offsetof(pmix_value_t, data.flag)", offset_of!(Value, data) as i64),
        ("offsetof(pmix_value_t, data.integer)", offset_of!(Value, data) as i64),
        ("offsetof(pmix_value_t, data.uint32)", offset_of!(Value, data) as i64),
        ("offsetof(pmix_value_t, data.bo)", offset_of!(Value, data) as i64),
        ("sizeof(pmix_info_t)", size_of::<Info>() as i64),
        ("offsetof(pmix_info_t, key)", offset_of!(Info, key) as i64),
        ("offsetof(pmix_info_t, flags)", offset_of!(Info, flags) as i64),
        ("sizeof(((pmix_info_t *)0)->flags)", 4),
        ("offsetof(pmix_info_t, value)", offset_of!(Info, value) as i64),
        ("sizeof(pmix_scope_t)", 1),
        ("sizeof(pmix_status_t)", size_of::<c_int>() as i64),
        ("PMIX_MAX_NSLEN + 1", NAME_LEN as i64),
        ("PMIX_MAX_KEYLEN + 1", KEY_LEN as i64),
        ("PMIX_SUCCESS", SUCCESS.into()),
        ("PMIX_ERR_TIMEOUT", ERR_TIMEOUT.into()),
        ("PMIX_ERR_PARTIAL_SUCCESS", ERR_PARTIAL.into()),
        ("(pmix_rank_t)(PMIX_RANK_WILDCARD)", WILDCARD.into()),
        ("PMIX_GLOBAL", GLOBAL.into()),
        ("PMIX_BOOL", BOOL.into()),
        ("PMIX_INT", INT.into()),
        ("PMIX_UINT32", UINT32.into()),
        ("PMIX_BYTE_OBJECT", BYTE_OBJECT.into()),
        ("strcmp(PMIX_JOB_SIZE, \"pmix.job.size\")", 0),
        ("strcmp(PMIX_COLLECT_DATA, \"pmix.collect\")", 0),
        ("strcmp(PMIX_TIMEOUT, \"pmix.timeout\")", 0),
    ];
    assert_eq!(JOB_SIZE, c"pmix.job.size");
    assert_eq!((COLLECT, TIMEOUT), (c"pmix.collect", c"pmix.timeout"));
    let expressions: Vec<&str> = all.iter().map(|pair| pair.0).collect();
    let Some(theirs) = in_c(&expressions) else {
        eprintln!("skipped: no C compiler, or no PMIx header");
        return;
    };
    assert_eq!(theirs.len(), all.len());
    for ((expression, ours), theirs) in all.iter().zip(theirs) {
        assert_eq!(*ours, theirs, "{expression}");
    }
}

#[test]
fn an_info_carries_its_name_with_a_zero_at_its_end() {
    let long = std::ffi::CString::new("x".repeat(KEY_LEN + 7)).unwrap();
    let info = Info::of(&long, Value { kind: INT, data: Data { integer: 1 } });
    assert_eq!((info.key[KEY_LEN - 2], info.key[KEY_LEN - 1]), (b'x' as c_char, 0));
}

#[test]
fn the_major_version_is_found_in_either_form() {
    assert_eq!(major("OpenPMIx 4.2.2 (PMIx Standard: 4.1)"), Some(4));
    assert_eq!(major("2.2.5"), Some(2));
    assert_eq!(major("unknown"), None);
}
