//! Tables for people: columns aligned to the right under their heads.

use std::fmt;

/// A table that is printed whole.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new(heads: &[&str]) -> Table {
        Table { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()] }
    }

    /// Adds a row, of as many cells as there are heads.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a row fills its table's columns");
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in &self.rows {
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if index == 0 { "" } else { "  " };
                write!(f, "{gap}{cell:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
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

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["size", "p50 µs"]);
        table.row(vec!["8 B".into(), "0.2".into()]);
        table.row(vec!["64 KiB".into(), "123.4".into()]);
        assert_eq!(table.to_string(), "  size  p50 µs\n   8 B     0.2\n64 KiB   123.4\n");
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
