//! What the first process tells the second one to do: a line of text each.
//! They go through a pipe, so that nothing but what is measured goes through
//! the interface.

use anyhow::{Context, Result, bail};

/// One thing to do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Puts each way and a get whose every byte is checked.
    Verify { size: u64, seed: u64 },
    /// So many puts, each answered by one of the same size.
    PingPong { size: u64, count: u64 },
    /// Wait in the library until so many more puts have arrived.
    Await { count: u64 },
    /// Nothing more.
    Stop,
}

impl Order {
    /// As it is sent.
    pub fn to_line(self) -> String {
        match self {
            Order::Verify { size, seed } => format!("verify {size} {seed}"),
            Order::PingPong { size, count } => format!("pingpong {size} {count}"),
            Order::Await { count } => format!("await {count}"),
            Order::Stop => "stop".to_owned(),
        }
    }

    /// As it was sent.
    pub fn from_line(line: &str) -> Result<Order> {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut number = || -> Result<u64> {
            let word = words.next().context("an order with a number too few")?;
            word.parse().with_context(|| format!("'{word}' in an order is not a number"))
        };
        Ok(match name {
            "verify" => Order::Verify { size: number()?, seed: number()? },
            "pingpong" => Order::PingPong { size: number()?, count: number()? },
            "await" => Order::Await { count: number()? },
            "stop" => Order::Stop,
            other => bail!("order '{other}' does not exist; are both processes the same build?"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_sent() {
        let orders = [
            Order::Verify { size: 2, seed: u64::MAX },
            Order::PingPong { size: 4, count: 5 },
            Order::Await { count: 6 },
            Order::Stop,
        ];
        for order in orders {
            assert_eq!(Order::from_line(&order.to_line()).expect("an order"), order);
        }
        for line in ["", "jump", "await", "pingpong 1", "verify 1 x"] {
            assert!(Order::from_line(line).is_err(), "{line}");
        }
    }
}
