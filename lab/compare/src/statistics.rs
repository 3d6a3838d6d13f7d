//! Median, spread and slope.

/// Returns the middle value, or the mean of the two middle values.
///
/// ```
/// use scratchbook_compare::statistics::median;
///
/// assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
/// assert_eq!(median(&[]), None);
/// ```
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => sorted.get(middle).copied(),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Returns the distance from the smallest to the largest value as a part of the median; 0 for a single value.
///
/// ```
/// use scratchbook_compare::statistics::spread;
///
/// assert_eq!(spread(&[90.0, 100.0, 130.0]), Some(0.4));
/// ```
#[must_use]
pub fn spread(values: &[f64]) -> Option<f64> {
    let median = median(values)?;
    let largest = values.iter().copied().max_by(f64::total_cmp)?;
    let smallest = values.iter().copied().min_by(f64::total_cmp)?;
    if median == 0.0 { None } else { Some((largest - smallest) / median) }
}

/// Returns the slope of the least-squares line through the logarithms of both coordinates of the points: 0 if the cost
/// does not depend on the size, 1 if it is proportional to the size. Returns `None` for fewer than two sizes, or if a
/// coordinate has no logarithm.
///
/// ```
/// use scratchbook_compare::statistics::slope;
///
/// let squares = [(1.0, 1.0), (10.0, 100.0), (100.0, 10_000.0), (1000.0, 1_000_000.0)];
/// assert!((slope(&squares).unwrap() - 2.0).abs() < 1e-9);
/// ```
#[must_use]
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 2 || points.iter().any(|(x, y)| *x <= 0.0 || *y <= 0.0) {
        return None;
    }
    let logs: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (x_mean, y_mean) =
        (logs.iter().map(|(x, _)| x).sum::<f64>() / count, logs.iter().map(|(_, y)| y).sum::<f64>() / count);
    let covariance: f64 = logs.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let variance: f64 = logs.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    if variance == 0.0 { None } else { Some(covariance / variance) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_between_the_two_in_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
    }

    #[test]
    fn the_spread_is_relative_to_the_median() {
        assert_eq!(spread(&[7.0]), Some(0.0));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_cost_that_does_not_grow_is_flat() {
        let flat: Vec<_> = [10.0, 100.0, 1e3, 1e4].map(|size| (size, 42.0)).to_vec();
        assert!(slope(&flat).unwrap().abs() < 1e-9);
        let linear: Vec<_> = flat.iter().map(|(size, cost)| (*size, size * cost)).collect();
        assert!((slope(&linear).unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_logarithm_or_one_size_has_no_slope() {
        assert_eq!(slope(&[(10.0, 1.0), (100.0, 0.0)]), None);
        assert_eq!(slope(&[(10.0, 1.0), (10.0, 2.0)]), None);
        assert_eq!(slope(&[(10.0, 1.0)]), None);
    }
}
