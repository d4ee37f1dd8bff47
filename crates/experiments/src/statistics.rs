//! Means and their confidence intervals.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The mean; none without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Half the width of the interval that holds the true mean with a probability
/// of 95 %, if the values are independent and about normal (Student's t). One
/// value says nothing about its spread: none.
pub fn half_width(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    Some(student.inverse_cdf(0.975) * deviation / count.sqrt())
}

/// Mean, extremes and interval of one figure over the seeds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Summary {
    /// Over the seeds.
    pub mean: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// See [`half_width`].
    pub half_width: Option<f64>,
}

impl Summary {
    /// The summary of these values; none without values.
    pub fn of(values: &[f64]) -> Option<Summary> {
        Some(Summary {
            mean: mean(values)?,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            half_width: half_width(values),
        })
    }
}

/// Rounds to six decimals, so that the value written is also the one judged and drawn.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_known_values() {
        // Table of Student's t: 2.776 for 4 degrees of freedom, 12.706 for 1.
        let half = half_width(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("five values");
        assert!((half - 2.7764 * 2.5f64.sqrt() / 5f64.sqrt()).abs() < 1e-3, "{half}");
        let half = half_width(&[0.0, 2.0]).expect("two values");
        assert!((half - 12.7062).abs() < 1e-3, "{half}");
        assert_eq!(half_width(&[3.0, 3.0, 3.0]), Some(0.0));
        assert_eq!(half_width(&[3.0]), None);
    }

    #[test]
    fn a_summary_of_nothing_is_none() {
        assert_eq!(Summary::of(&[]), None);
        let summary = Summary::of(&[2.0, 4.0, 3.0]).expect("three values");
        assert_eq!((summary.mean, summary.min, summary.max), (3.0, 2.0, 4.0));
    }
}
