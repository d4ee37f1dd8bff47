//! Draws lines with marks and error bars, and their legend.

use super::axis::Axis;
use super::dashes::dashes;
use super::style::{self, FAMILY, FONT, GRID, HEIGHT, INK, LEGEND_LINE, Look, WIDTH};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// A point and its bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// Along the axis, as a value.
    pub x: f64,
    /// Its height.
    pub y: f64,
    /// From where to where: its 95 % interval, or the least and the most.
    pub bar: Option<(f64, f64)>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// In the legend.
    pub label: String,
    /// In the order in which they are joined.
    pub dots: Vec<Dot>,
    /// Whether it is a level across the whole figure; it has one dot then,
    /// whose x says nothing.
    pub is_level: bool,
    /// Whether each dot has a mark.
    pub has_marks: bool,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Beside the x axis.
    pub x_title: String,
    /// Beside the y axis.
    pub y_title: String,
    /// At most [`style::LINES_MAX`].
    pub curves: Vec<Curve>,
    /// How x runs.
    pub scale: crate::experiment::Scale,
}

/// Share of the height within which two lines are taken for one: about two pixels.
const NEAR: f64 = 0.006;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, RangedCoordf64>>;

impl Chart {
    /// The SVG document.
    pub fn draw(&self) -> Result<String> {
        let mut svg = String::new();
        let legend = self.curves.len() as u32 * LEGEND_LINE;
        {
            let size = (WIDTH, HEIGHT + legend + 8);
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            self.draw_on(&area).map_err(|error| anyhow!("a figure could not be drawn: {error}"))?;
        }
        Ok(svg)
    }

    fn draw_on(&self, area: &Area) -> Result<(), Box<dyn std::error::Error>> {
        area.fill(&WHITE)?;
        let (plot, legend) = area.split_vertically(HEIGHT);
        let axis = self.x_axis();
        let (bottom, top) = self.y_range();
        let text = (FAMILY, FONT).into_font().color(&INK);
        let mut chart = ChartBuilder::on(&plot)
            .margin(12)
            .margin_right(24)
            .x_label_area_size(56)
            .y_label_area_size(80)
            .build_cartesian_2d(axis, bottom..top)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(text.clone())
            .axis_desc_style(text)
            .x_labels(9)
            .y_labels(7)
            .y_label_formatter(&|value| super::axis::short(*value))
            .x_desc(&self.x_title)
            .y_desc(&self.y_title)
            .draw()?;
        for (index, curve) in self.curves.iter().enumerate() {
            self.draw_curve(&mut chart, curve, style::look(index))?;
        }
        for (index, curve) in self.curves.iter().enumerate() {
            let under = self.hidden_behind(index);
            if let Some(over) = under {
                self.draw_rings(&mut chart, curve, style::look(over))?;
            }
            draw_key(&legend, index, curve, under.map(|over| &*self.curves[over].label))?;
        }
        area.present()?;
        Ok(())
    }

    fn x_axis(&self) -> Axis {
        let values: Vec<f64> = self
            .curves
            .iter()
            .filter(|curve| !curve.is_level)
            .flat_map(|curve| curve.dots.iter().map(|dot| dot.x))
            .collect();
        Axis::over(self.scale, &values)
    }

    /// From 0 to a little above the highest bar.
    fn y_range(&self) -> (f64, f64) {
        let tops = self
            .curves
            .iter()
            .flat_map(|curve| &curve.dots)
            .map(|dot| dot.bar.map_or(dot.y, |(_, high)| high.max(dot.y)))
            .filter(|top| top.is_finite());
        let top = tops.fold(0.0, f64::max);
        (0.0, if top > 0.0 { top * 1.06 } else { 1.0 })
    }

    /// The first line that this one lies on, wherever both are drawn.
    fn hidden_behind(&self, index: usize) -> Option<usize> {
        let (bottom, top) = self.y_range();
        let near = (top - bottom) * NEAR;
        let curve = &self.curves[index];
        let lies_on = |other: &Curve| {
            let same = |dot: &Dot| {
                let at = other.dots.iter().find(|there| other.is_level || there.x == dot.x);
                at.is_some_and(|at| (at.y - dot.y).abs() <= near)
            };
            other.is_level == curve.is_level
                && other.dots.len() == curve.dots.len()
                && curve.dots.iter().all(same)
        };
        (0..index).find(|&other| lies_on(&self.curves[other]))
    }

    /// Outlines of another line's marks around those of a line that lies on it.
    fn draw_rings(
        &self,
        chart: &mut Context,
        curve: &Curve,
        look: Look,
    ) -> Result<(), Box<dyn std::error::Error>> {
        if curve.is_level || !curve.has_marks {
            return Ok(());
        }
        let axis = self.x_axis();
        let (bottom, top) = self.y_range();
        let mut outline: Vec<(i32, i32)> =
            look.mark.iter().map(|(dx, dy)| (2 * dx, 2 * dy)).collect();
        outline.extend(outline.first().copied());
        let ring = |dot: &Dot| {
            EmptyElement::at((axis.place(dot.x), dot.y.clamp(bottom, top)))
                + PathElement::new(outline.clone(), look.colour.stroke_width(2))
        };
        chart.draw_series(curve.dots.iter().map(ring))?;
        Ok(())
    }

    fn draw_curve(
        &self,
        chart: &mut Context,
        curve: &Curve,
        look: Look,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let axis = self.x_axis();
        let (bottom, top) = self.y_range();
        let inside = |y: f64| y.clamp(bottom, top);
        let line = look.colour.stroke_width(2);
        let places: Vec<(f64, f64)> = match (curve.is_level, curve.dots.first()) {
            (true, Some(dot)) => {
                let ends = axis.range();
                vec![(ends.start, inside(dot.y)), (ends.end, inside(dot.y))]
            }
            _ => curve.dots.iter().map(|dot| (axis.place(dot.x), inside(dot.y))).collect(),
        };
        match look.dash {
            None => {
                chart.draw_series(LineSeries::new(places.clone(), line))?;
            }
            Some((dash, gap)) => {
                let area = chart.plotting_area();
                let (left, top) = area.get_base_pixel();
                let pixel = |place| {
                    let (x, y) = area.map_coordinate(place);
                    (x - left, y - top)
                };
                let pixels: Vec<(i32, i32)> = places.iter().map(pixel).collect();
                let area = area.strip_coord_spec();
                for dash in dashes(&pixels, dash, gap) {
                    area.draw(&PathElement::new(dash, line))?;
                }
            }
        }
        if curve.is_level {
            return Ok(());
        }
        let bars = curve.dots.iter().filter_map(|dot| {
            let (low, high) = dot.bar.filter(|(low, high)| low < high)?;
            let ends = [low, dot.y, high].map(inside);
            Some(ErrorBar::new_vertical(axis.place(dot.x), ends[0], ends[1], ends[2], line, 8))
        });
        chart.draw_series(bars)?;
        if curve.has_marks {
            let mark = |&at: &(f64, f64)| {
                EmptyElement::at(at) + Polygon::new(look.mark.to_vec(), look.colour.filled())
            };
            chart.draw_series(places.iter().map(mark))?;
        }
        Ok(())
    }
}

/// A line of the legend, with the line that it lies on, if it does.
fn draw_key(
    area: &Area,
    index: usize,
    curve: &Curve,
    under: Option<&str>,
) -> Result<(), Box<dyn std::error::Error>> {
    const LEFT: i32 = 92;
    const LONG: i32 = 44;
    let look = style::look(index);
    let y = index as i32 * LEGEND_LINE as i32 + LEGEND_LINE as i32 / 2;
    let line = look.colour.stroke_width(2);
    let mut x = LEFT;
    let (dash, gap) = look.dash.unwrap_or((LONG, 1));
    while x < LEFT + LONG {
        area.draw(&PathElement::new([(x, y), ((x + dash).min(LEFT + LONG), y)], line))?;
        x += dash + gap;
    }
    if curve.has_marks && !curve.is_level {
        let middle = (LEFT + LONG / 2, y);
        let corners: Vec<(i32, i32)> =
            look.mark.iter().map(|(dx, dy)| (middle.0 + dx, middle.1 + dy)).collect();
        area.draw(&Polygon::new(corners, look.colour.filled()))?;
    }
    let text = (FAMILY, FONT).into_font().color(&INK);
    let place = (LEFT + LONG + 12, y - FONT as i32 / 2);
    let same = under.map_or(String::new(), |other| format!(" (= {other})"));
    area.draw(&Text::new(format!("{}{same}", curve.label), place, text))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(label: &str, heights: &[f64]) -> Curve {
        let dots = heights.iter().zip(1u8..);
        let dots = dots.map(|(&y, x)| Dot { x: f64::from(x), y, bar: None }).collect();
        Curve { label: label.into(), dots, is_level: false, has_marks: true }
    }

    #[test]
    fn lines_that_coincide_are_told_apart() {
        let curves = vec![
            curve("one", &[1.0, 2.0, 3.0]),
            curve("near one", &[1.0, 2.001, 3.0]),
            curve("apart at the end", &[1.0, 2.0, 2.5]),
            curve("shorter", &[1.0, 2.0]),
        ];
        let chart = Chart {
            x_title: "x".into(),
            y_title: "y".into(),
            curves,
            scale: crate::experiment::Scale::Linear,
        };
        let hidden: Vec<_> = (0..4).map(|index| chart.hidden_behind(index)).collect();
        assert_eq!(hidden, [None, Some(0), None, None]);
        let svg = chart.draw().expect("drawn");
        assert!(svg.contains("near one (= one)"), "the legend says so");
        assert!(!svg.contains("end (="));
    }
}
