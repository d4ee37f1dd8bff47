//! How figures look: colours, marks, dashes, sizes.
//!
//! The colours are Okabe and Ito's, which people with any common colour blindness can
//! distinguish. Shapes and dashes repeat the distinction, for print.

use plotters::style::RGBColor;

/// Pixels across a figure as it is drawn; pages scale it.
pub const WIDTH: u32 = 640;
/// Pixels down, without its legend.
pub const HEIGHT: u32 = 400;
/// Pixels of a legend's line.
pub const LEGEND_LINE: u32 = 26;
/// Of all text, as plotters counts: it draws 16 pixels, of which 9 are left when a
/// figure is 360 pixels wide.
pub const FONT: u32 = 20;
/// What browsers and printers have.
pub const FAMILY: &str = "sans-serif";
/// Most lines of a drawing.
pub const LINES_MAX: usize = 7;

/// Text.
pub const INK: RGBColor = RGBColor(0x1a, 0x1a, 0x1a);
/// Lines of the grid.
pub const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

const COLOURS: [RGBColor; LINES_MAX] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];

/// Corners of each mark, around its middle. The circle is a polygon.
const MARKS: [&[(i32, i32)]; LINES_MAX] = [
    &[
        (5, 0),
        (4, 3),
        (3, 4),
        (0, 5),
        (-3, 4),
        (-4, 3),
        (-5, 0),
        (-4, -3),
        (-3, -4),
        (0, -5),
        (3, -4),
        (4, -3),
    ],
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -6), (6, 5), (-6, 5)],
    &[(0, -6), (6, 0), (0, 6), (-6, 0)],
    &[(0, 6), (6, -5), (-6, -5)],
    &[
        (-2, -6),
        (2, -6),
        (2, -2),
        (6, -2),
        (6, 2),
        (2, 2),
        (2, 6),
        (-2, 6),
        (-2, 2),
        (-6, 2),
        (-6, -2),
        (-2, -2),
    ],
    &[(-6, -3), (6, -3), (6, 3), (-6, 3)],
];

/// Pixels of a dash and of the gap after it; none: a whole line.
const DASHES: [Option<(i32, i32)>; LINES_MAX] =
    [None, Some((10, 5)), Some((3, 4)), Some((16, 5)), Some((6, 3)), Some((2, 7)), Some((12, 10))];

/// The looks of one line.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Of line, mark and bar.
    pub colour: RGBColor,
    /// Corners of the mark.
    pub mark: &'static [(i32, i32)],
    /// See `DASHES`.
    pub dash: Option<(i32, i32)>,
}

/// The looks of the line of this index; indices beyond the last begin again.
pub fn look(index: usize) -> Look {
    let index = index % LINES_MAX;
    Look { colour: COLOURS[index], mark: MARKS[index], dash: DASHES[index] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lines_look_alike_without_their_colour() {
        for a in 0..LINES_MAX {
            for b in 0..a {
                assert_ne!(look(a).mark, look(b).mark);
                assert_ne!(look(a).dash, look(b).dash);
                assert_ne!(look(a).colour, look(b).colour);
            }
        }
    }
}
