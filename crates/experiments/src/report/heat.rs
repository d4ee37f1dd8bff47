//! Heat maps of the links' loads: group by group for Dragonflies, routers by
//! ports otherwise.

use super::data::{Data, Load};
use super::drawing::{Drawing, Values, file_name};
use super::style::{FAMILY, FONT, INK, WIDTH};
use crate::experiment::Figure;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use sluice_flit::config::Topology;

/// Most rows of a map; more routers share rows.
const ROWS_MAX: u32 = 128;
/// Pixels down.
const HEIGHT: u32 = 520;

/// Mean loads, row by row; none where there is no link.
pub struct Map {
    x_title: &'static str,
    y_title: String,
    columns: u32,
    rows: u32,
    loads: Vec<Option<f64>>,
}

/// A drawing for each cell whose links are known.
pub fn draw(data: &Data, figure: &Figure, title: &str) -> Result<Vec<Drawing>> {
    let mut drawings = Vec::new();
    for cell in data.plan.select(&figure.only) {
        let loads: Vec<Load> =
            data.links.iter().filter(|load| load.cell == cell).copied().collect();
        if loads.is_empty() {
            continue;
        }
        let Some(config) = data.plan.cells[cell].setup.network() else { continue };
        let map = match config.topology {
            Topology::Dragonfly { a, .. } => groups(&loads, a),
            _ => ports(&loads),
        };
        let name = data.plan.cell_name(cell);
        let title = if name.is_empty() { title.to_owned() } else { format!("{title}: {name}") };
        let svg = map.draw()?;
        let most = map.loads.iter().flatten().copied().fold(0.0, f64::max);
        let description = format!(
            "{} against {}. The busiest place carries {most:.3} flits a cycle and link.",
            map.y_title, map.x_title
        );
        drawings.push(Drawing::new(file_name(&title), title, description, &svg, table(&loads)));
    }
    Ok(drawings)
}

/// Loads between groups of `each` routers; on the diagonal, within a group.
fn groups(loads: &[Load], each: u32) -> Map {
    let between = loads
        .iter()
        .filter_map(|load| Some((load.router / each, load.to_router? / each, load.load)));
    let count = loads.iter().map(|load| load.router / each + 1).max().unwrap_or(1);
    Map::new(
        "to group",
        "from group".into(),
        count,
        count,
        between.map(|(from, to, load)| (to, from, load)),
    )
}

fn ports(loads: &[Load]) -> Map {
    let routers = loads.iter().map(|load| load.router + 1).max().unwrap_or(1);
    let columns = loads.iter().map(|load| load.port + 1).max().unwrap_or(1);
    let each = routers.div_ceil(ROWS_MAX);
    let y_title = if each == 1 { "router".to_owned() } else { format!("router / {each}") };
    let places = loads.iter().map(|load| (load.port, load.router / each, load.load));
    Map::new("port", y_title, columns, routers.div_ceil(each), places)
}

impl Map {
    /// Of values from 0 to 1 at columns and rows; the mean of those at one place.
    pub fn new(
        x_title: &'static str,
        y_title: String,
        columns: u32,
        rows: u32,
        places: impl Iterator<Item = (u32, u32, f64)>,
    ) -> Map {
        let mut sums = vec![(0.0, 0u32); (columns * rows) as usize];
        for (column, row, load) in places {
            let place = &mut sums[(row * columns + column) as usize];
            *place = (place.0 + load, place.1 + 1);
        }
        let loads =
            sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)));
        Map { x_title, y_title, columns, rows, loads: loads.collect() }
    }

    /// The SVG document.
    pub fn draw(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw_into(&mut svg)
            .map_err(|error| anyhow!("a heat map could not be drawn: {error}"))?;
        Ok(svg)
    }

    fn draw_into(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let (plot, key) = area.split_horizontally(WIDTH - 96);
        let text = (FAMILY, FONT).into_font().color(&INK);
        let mut chart = ChartBuilder::on(&plot)
            .margin(12)
            .x_label_area_size(56)
            .y_label_area_size(72)
            .build_cartesian_2d(0f64..f64::from(self.columns), f64::from(self.rows)..0f64)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK)
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .x_labels(8)
            .y_labels(8)
            .x_label_formatter(&|value| super::axis::short(*value))
            .y_label_formatter(&|value| super::axis::short(*value))
            .x_desc(self.x_title)
            .y_desc(&self.y_title)
            .draw()?;
        let boxes = self.loads.iter().enumerate().filter_map(|(index, load)| {
            let x = f64::from(index as u32 % self.columns);
            let y = f64::from(index as u32 / self.columns);
            Some(Rectangle::new([(x, y), (x + 1.0, y + 1.0)], colour((*load)?).filled()))
        });
        chart.draw_series(boxes)?;
        draw_key(&key, &text)?;
        area.present()?;
        Ok(())
    }
}

/// Dark is idle, light is busy; 1 flit a cycle is all that a link can do.
fn colour(load: f64) -> RGBColor {
    let RGBColor(r, g, b) = ViridisRGB::get_color(load.clamp(0.0, 1.0));
    RGBColor(r, g, b)
}

/// The scale of colours.
fn draw_key(
    area: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    text: &TextStyle,
) -> Result<(), Box<dyn std::error::Error>> {
    const STEPS: i32 = 40;
    const TOP: i32 = 40;
    const STEP: i32 = 9;
    area.draw(&Text::new("load", (4, 12), text.clone()))?;
    for step in 0..STEPS {
        let load = 1.0 - f64::from(step) / f64::from(STEPS - 1);
        let y = TOP + step * STEP;
        area.draw(&Rectangle::new([(4, y), (24, y + STEP)], colour(load).filled()))?;
    }
    for tick in 0..=5 {
        let load = f64::from(tick) / 5.0;
        let y = TOP + ((1.0 - load) * f64::from(STEPS * STEP)) as i32 - FONT as i32 / 2;
        area.draw(&Text::new(super::axis::short(load), (32, y), text.clone()))?;
    }
    Ok(())
}

/// How many links are how busy.
fn table(loads: &[Load]) -> Values {
    let row = |name: &str, of: &dyn Fn(&&Load) -> bool| {
        let mut found: Vec<f64> = loads.iter().filter(of).map(|load| load.load).collect();
        found.sort_by(f64::total_cmp);
        let mean = found.iter().sum::<f64>() / found.len().max(1) as f64;
        let at =
            |index: usize| found.get(index).map_or("-".to_owned(), |load| format!("{load:.3}"));
        let (count, middle, last) = (found.len(), found.len() / 2, found.len().saturating_sub(1));
        vec![name.to_owned(), count.to_string(), format!("{mean:.3}"), at(0), at(middle), at(last)]
    };
    let heads = ["links", "count", "mean load", "min", "median", "max"].map(str::to_owned);
    Values {
        heads: heads.to_vec(),
        rows: vec![
            row("between routers", &|load| load.to_router.is_some()),
            row("to nodes", &|load| load.to_router.is_none()),
        ],
    }
}
