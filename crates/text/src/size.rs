//! Sizes and times as people write them.

/// Longest message that is measured.
pub const SIZE_MAX: u64 = 1 << 30;

/// A size in bytes: `8`, `64K`, `1MiB`, `1G`; the units are of 1,024. `1MB` is refused:
/// elsewhere it means a million.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "'{text}' is not a message size; give bytes from 0 to {SIZE_MAX}, \
             with K, M or G (or KiB, MiB, GiB) for units of 1024: 8, 64K, 1M"
        )
    };
    parse_bytes(text).filter(|&size| size <= SIZE_MAX).ok_or_else(wrong)
}

/// A number of bytes, written in the same way. `None` if it is not, or has more than 64 bits.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let shift = match unit.trim() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A span of time in seconds, fractions allowed.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.0..=3600.0).contains(seconds))
        .ok_or_else(|| format!("'{text}' is not a time; give seconds from 0 to 3600: 0.5, 10"))
}

/// A number of bytes as people write it: `64 KiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_size_within_the_limit_or_refused(text in "\\PC{0,12}|[0-9]{1,22} ?[kmgbiKMGB]{0,4}") {
            if let Ok(size) = parse_size(&text) {
                prop_assert!(size <= SIZE_MAX);
            }
            if let Ok(seconds) = parse_seconds(&text) {
                prop_assert!((0.0..=3600.0).contains(&seconds));
            }
        }

        #[test]
        fn what_is_written_is_read_again(size in prop_oneof![
            0..=SIZE_MAX,
            (0_u64..=1024, 0_u32..=2).prop_map(|(count, unit)| count << (10 * unit)),
        ]) {
            prop_assert_eq!(parse_size(&bytes(size)), Ok(size));
        }
    }

    #[test]
    fn sizes() {
        let rows = [("0", 0), ("8", 8), ("64K", 65536), ("1 MiB", 1 << 20), ("1g", SIZE_MAX)];
        for (text, size) in rows {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        for text in ["", "K", "-1", "8X", "1MB", "2G", "1.5K", "99999999999999999999"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        for text in ["", "-1", "x", "inf", "NaN", "4000"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_in_the_largest_whole_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(8), "8 B");
        assert_eq!(bytes(1 << 10), "1 KiB");
        assert_eq!(bytes(1500), "1500 B");
        assert_eq!(bytes(4 << 20), "4 MiB");
    }
}
