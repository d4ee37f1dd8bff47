//! Ladders: a column for each process, time from top to bottom, an arrow for each packet.

/// The width of a column.
const WIDTH: usize = 8;

/// So many columns.
#[derive(Clone, Copy, Debug)]
pub struct Columns(pub usize);

impl Columns {
    /// The names above the columns, each cut to its width.
    #[must_use]
    pub fn heads(self, names: impl Iterator<Item = String>) -> String {
        names
            .map(|name| {
                let cut: String = name.chars().take(WIDTH - 1).collect();
                format!("{cut:^WIDTH$}")
            })
            .collect()
    }

    /// A line across all columns.
    #[must_use]
    pub fn rule(self) -> String {
        "─".repeat(WIDTH * self.0)
    }

    /// A mark in one column, a line in the others.
    #[must_use]
    pub fn mark(self, column: usize, mark: char) -> String {
        let sign = |at| if at == column { mark } else { '│' };
        (0..self.0).map(|at| format!("{:^WIDTH$}", sign(at))).collect()
    }

    /// From one column to another.
    #[must_use]
    pub fn arrow(self, from: usize, to: usize) -> String {
        if from == to {
            return self.mark(from, '↺');
        }
        let middle = |at: usize| at * WIDTH + (WIDTH - 1) / 2;
        let (low, high) = (middle(from.min(to)), middle(from.max(to)));
        let mut line: Vec<char> = self.mark(self.0, ' ').chars().collect();
        line[low..high].fill('─');
        line[middle(from)] = if from < to { '├' } else { '┤' };
        line[middle(to)] = if from < to { '►' } else { '◄' };
        line.into_iter().collect()
    }
}

/// A time in nanoseconds, with a comma between thousands.
#[must_use]
pub fn nanoseconds(ns: u64) -> String {
    let digits = ns.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + " ns"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs() {
        let columns = Columns(3);
        let names = ["0", "1", "a long name"].map(str::to_owned);
        assert_eq!(columns.heads(names.into_iter()), "   0       1    a long  ");
        assert_eq!(columns.mark(1, '●'), "   │       ●       │    ");
        assert_eq!(columns.arrow(0, 2), "   ├───────────────►    ");
        assert_eq!(columns.arrow(2, 1), "   │       ◄───────┤    ");
        assert_eq!(columns.arrow(1, 1), "   │       ↺       │    ");
    }

    #[test]
    fn times() {
        let said = [0, 999, 1000, 1_234_567].map(nanoseconds);
        assert_eq!(said, ["0 ns", "999 ns", "1,000 ns", "1,234,567 ns"]);
    }
}
