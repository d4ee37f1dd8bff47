//! Cuts a line into dashes.
//!
//! Plotters has dashed lines too. They take their lengths from `hypotf`, which has a new version
//! in glibc 2.35: it alone would keep the command from systems with an older one.

/// A place on a drawing, in pixels.
pub type Pixel = (i32, i32);

/// The dashes of a line through these places, in pixels. Both lengths are at least 1.
pub fn dashes(places: &[Pixel], dash: i32, gap: i32) -> Vec<Vec<Pixel>> {
    assert!(dash >= 1 && gap >= 1, "a line of dashes {dash} long with gaps of {gap} never ends");
    let mut done = Vec::new();
    let mut open: Vec<Pixel> = places.first().copied().into_iter().collect();
    let (mut draws, mut left) = (true, f64::from(dash));
    for pair in places.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = (dx * dx + dy * dy).sqrt();
        let mut at = 0.0;
        while length - at > left {
            at += left;
            let along = |start: i32, by: f64| (f64::from(start) + by * at / length).round() as i32;
            open.push((along(from.0, dx), along(from.1, dy)));
            if draws {
                done.push(std::mem::take(&mut open));
            }
            draws = !draws;
            left = f64::from(if draws { dash } else { gap });
        }
        left -= length - at;
        if draws {
            open.push(to);
        }
    }
    if open.len() > 1 {
        done.push(open);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_and_its_last_dash_is_short() {
        let cut = dashes(&[(0, 0), (25, 0)], 8, 4);
        assert_eq!(cut, [[(0, 0), (8, 0)], [(12, 0), (20, 0)], [(24, 0), (25, 0)]]);
        assert_eq!(dashes(&[(0, 0), (10, 0)], 8, 4), [[(0, 0), (8, 0)]]);
    }

    #[test]
    fn a_dash_goes_round_corners() {
        let cut = dashes(&[(0, 0), (3, 4), (3, 14)], 7, 2);
        assert_eq!(cut, [vec![(0, 0), (3, 4), (3, 6)], vec![(3, 8), (3, 14)]]);
    }

    #[test]
    fn places_that_coincide_and_none_at_all_are_no_dash() {
        assert!(dashes(&[], 8, 4).is_empty());
        assert!(dashes(&[(5, 5)], 8, 4).is_empty());
        assert_eq!(dashes(&[(5, 5), (5, 5)], 8, 4), [[(5, 5), (5, 5)]]);
    }
}
