//! Where a value stands along an x axis, and which values are written beside
//! it.

use crate::experiment::Scale;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use std::ops::Range;

/// Widest room, in factors of e, that a 0 stands left of the smallest value.
const ZERO_GAP: f64 = 1.0;

/// Most ticks of a linear axis.
const TICKS_MAX: usize = 7;

/// An x axis over known values.
#[derive(Clone, Debug)]
pub struct Axis {
    scale: Scale,
    /// Smallest value above 0; 1 if there is none.
    least: f64,
    ticks: Vec<f64>,
    range: Range<f64>,
}

impl Axis {
    /// An axis on which all of these have their place.
    pub fn over(scale: Scale, values: &[f64]) -> Axis {
        let mut sorted: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let is_log = scale == Scale::Log && sorted.first().is_none_or(|&first| first >= 0.0);
        let scale = if is_log { Scale::Log } else { Scale::Linear };
        let least = sorted.iter().copied().find(|&value| value > 0.0).unwrap_or(1.0);
        let mut axis = Axis { scale, least, ticks: Vec::new(), range: 0.0..1.0 };
        let (first, last) = match (sorted.first(), sorted.last()) {
            (Some(&first), Some(&last)) => (first, last),
            _ => (0.0, 1.0),
        };
        axis.ticks = match scale {
            Scale::Log => sorted,
            Scale::Linear => RangedCoordf64::from(first..last).key_points(TICKS_MAX),
        };
        let (left, right) = (axis.place(first), axis.place(last));
        let margin = ((right - left) * 0.03).max(1e-9);
        axis.range = left - margin..right + margin;
        axis
    }

    /// Where a value stands.
    pub fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log if value <= 0.0 => self.least.ln() - ZERO_GAP,
            Scale::Log => value.ln(),
        }
    }

    /// What is written at a place.
    fn label(&self, place: f64) -> String {
        let nearest = self.ticks.iter().min_by(|a, b| {
            (self.place(**a) - place).abs().total_cmp(&(self.place(**b) - place).abs())
        });
        nearest.map_or(String::new(), |&value| short(value))
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(place, limit)
    }

    /// Ticks that leave room for what is written beside them.
    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let room =
            (self.range.end - self.range.start) / (hint.max_num_points().max(2) as f64 * 1.2);
        let mut kept: Vec<f64> = Vec::new();
        for place in self.ticks.iter().map(|&tick| self.place(tick)) {
            if kept.last().is_none_or(|last| place - last >= room) {
                kept.push(place);
            }
        }
        kept
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        short(*value)
    }

    fn format_ext(&self, place: &f64) -> String {
        self.label(*place)
    }
}

/// A number with at most four decimals, and no trailing zeros among them.
pub fn short(value: f64) -> String {
    let text = if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.4}") };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_stands_left_of_the_smallest() {
        let axis = Axis::over(Scale::Log, &[0.0, 0.001, 0.01]);
        assert!(axis.place(0.0) < axis.place(0.001));
        let step = axis.place(0.01) - axis.place(0.001);
        assert!((step - 10f64.ln()).abs() < 1e-9);
        assert_eq!(axis.label(axis.place(0.001)), "0.001");
        assert_eq!(axis.label(axis.place(0.0)), "0");
    }

    #[test]
    fn steps_are_round() {
        let labels = |first, last| -> Vec<String> {
            let axis = Axis::over(Scale::Linear, &[first, last]);
            axis.key_points(9).iter().map(|&place| axis.label(place)).collect()
        };
        assert_eq!(labels(0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(0.0, 50_000.0), ["0", "10000", "20000", "30000", "40000", "50000"]);
    }

    #[test]
    fn one_value_is_an_axis_too() {
        for scale in [Scale::Log, Scale::Linear] {
            let axis = Axis::over(scale, &[5.0]);
            assert!(axis.range.end > axis.range.start);
            assert_eq!(axis.map(&axis.place(5.0), (0, 100)), 50);
        }
    }
}
