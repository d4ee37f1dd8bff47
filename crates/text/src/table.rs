//! Tables for people: columns aligned to the right under their heads.

use std::fmt;

/// A table that is printed whole.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

/// A column: its head, and how its cell of a row is written.
pub type Column<'a, R> = (&'a str, &'a dyn Fn(&R) -> String);

impl Table {
    /// A table with a line for each row.
    pub fn of<R>(rows: &[R], columns: &[Column<'_, R>]) -> Table {
        let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
        let mut table = Table::new(&heads);
        for row in rows {
            table.row(columns.iter().map(|(_, cell)| cell(row)).collect());
        }
        table
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["size", "p50 µs"]);
        table.row(vec!["8 B".into(), "0.2".into()]);
        table.row(vec!["64 KiB".into(), "123.4".into()]);
        let text = "  size  p50 µs\n   8 B     0.2\n64 KiB   123.4\n";
        assert_eq!(table.to_string(), text);
        let rows = [("8 B", 0.2), ("64 KiB", 123.4)];
        let size = |row: &(&str, f64)| row.0.to_owned();
        let table = Table::of(&rows, &[("size", &size), ("p50 µs", &|row| row.1.to_string())]);
        assert_eq!(table.to_string(), text);
    }
}
