//! The HTML page: all drawings, their values, the expectations, and what is needed to
//! repeat the experiment. It is one file that loads no other.

use super::data::Data;
use super::drawing::{Drawing, Values, escaped};
use crate::expect::Verdict;
use crate::output::{digits, range};
use std::fmt::Write as _;

/// The end of a page.
pub const END: &str = "</main>\n</body>\n</html>\n";

const CSS: &str = include_str!("page.css");

/// The HTML document.
pub fn html(data: &Data, drawings: &[Drawing], verdicts: &[Verdict]) -> String {
    let manifest = &data.manifest;
    let mut page = begin(&manifest.title);
    let about = escaped(data.plan.experiment.about.trim());
    if !about.is_empty() {
        push(&mut page, format_args!("<p>{about}</p>\n"));
    }
    if manifest.runs_done < manifest.runs {
        let (done, all) = (manifest.runs_done, manifest.runs);
        push(
            &mut page,
            format_args!(
                "<p class=\"warning\">Not finished: {done} of {all} simulations are done.</p>\n"
            ),
        );
    }
    let stuck = manifest.status.iter().filter(|point| point.status == "stuck").count();
    if stuck > 0 {
        push(
            &mut page,
            format_args!(
                "<p class=\"warning\">In {stuck} points nothing moved any more; the manifest says where.</p>\n"
            ),
        );
    }
    for drawing in drawings {
        figure(&mut page, drawing);
    }
    expectations(&mut page, verdicts);
    parameters(&mut page, data);
    page.push_str(END);
    page
}

/// The beginning of a page.
pub fn begin(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    )
}

/// Writing to a string cannot fail.
fn push(page: &mut String, text: std::fmt::Arguments) {
    let _ = page.write_fmt(text);
}

/// A figure, its description and its values, if they are listed.
pub fn figure(page: &mut String, drawing: &Drawing) {
    let (name, title) = (escaped(&drawing.name), escaped(&drawing.title));
    push(
        page,
        format_args!("<section id=\"{name}\">\n<h2>{title}</h2>\n<figure>\n{}\n", drawing.svg),
    );
    push(
        page,
        format_args!("<figcaption>{}</figcaption>\n</figure>\n", escaped(&drawing.description)),
    );
    if !drawing.values.heads.is_empty() {
        values(page, &drawing.values);
    }
    page.push_str("</section>\n");
}

/// A table of values.
pub fn values(page: &mut String, values: &Values) {
    let heads: Vec<&str> = values.heads.iter().map(String::as_str).collect();
    table(page, &heads, &values.rows);
}

fn table(page: &mut String, heads: &[&str], rows: &[Vec<String>]) {
    page.push_str("<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>");
    for head in heads {
        push(page, format_args!("<th scope=\"col\">{}</th>", escaped(head)));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            push(page, format_args!("<td>{}</td>", escaped(cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn expectations(page: &mut String, verdicts: &[Verdict]) {
    if verdicts.is_empty() {
        return;
    }
    page.push_str("<section id=\"expectations\">\n<h2>What was expected</h2>\n");
    let row = |verdict: &Verdict| {
        let judged = match verdict.holds {
            Some(true) => "✓ holds",
            Some(false) => "✗ does not hold",
            None => "? not known yet",
        };
        let half = verdict.half_width.map_or(String::new(), |half| format!(" ± {}", digits(half)));
        let note = verdict.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
        vec![
            judged.to_owned(),
            verdict.what.clone(),
            format!("{}{half}{note}", verdict.value.map_or("-".to_owned(), digits)),
            range(verdict),
            verdict.reason.trim().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = verdicts.iter().map(row).collect();
    table(page, &["verdict", "what", "value", "wanted", "why"], &rows);
    page.push_str("</section>\n");
}

fn parameters(page: &mut String, data: &Data) {
    let manifest = &data.manifest;
    let seeds: Vec<String> = manifest.head.seeds.iter().map(u64::to_string).collect();
    let members = data.plan.experiment.simulator.members();
    let rows = [
        ("experiment", manifest.name.clone()),
        ("version of sluice", manifest.head.version.clone()),
        ("SHA-256 of the experiment", manifest.head.experiment_sha256.clone()),
        ("seeds", seeds.join(", ")),
        (members, manifest.nodes.to_string()),
        ("points, simulations", format!("{}, {}", manifest.points, manifest.runs)),
        ("seconds of all simulations", format!("{:.0}", manifest.simulated_seconds)),
    ];
    page.push_str("<section id=\"parameters\">\n<h2>How it was made</h2>\n");
    let rows: Vec<Vec<String>> = rows.map(|(name, value)| vec![name.to_owned(), value]).to_vec();
    table(page, &["", "value"], &rows);
    push(page, format_args!("<pre>{}</pre>\n</section>\n", escaped(&manifest.experiment)));
}
