//! The page: the answers as tables, what holds the rest, and a map of memory.
//!
//! A picture shows where memory is broken up.
//!
//! # Invariants
//! The page is one file without external parts. Names from the input are escaped, and each number of the terminal's
//! table is in a table of the page.

use std::fmt::Write;

use everybuddy_text::size;

use crate::answer;
use crate::explain;
use crate::frames::html::{escaped, section};
use crate::need::shown;
use crate::request::Request;
use crate::show::{holders, terminal};
use crate::state::{State, Zone};

const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;padding:0 1rem;max-width:76rem}
.answers{overflow-x:auto}
.answers table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}
.answers th,.answers td{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #8884}
.answers th:first-child,.answers td:first-child,.answers td.note{text-align:left}
";

/// Writes a complete page.
#[must_use]
pub fn page(state: &State) -> String {
    let mut html = String::new();
    let title = escaped(&explain::title(state));
    // Writing to a string cannot fail.
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>Memory: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Blocks of memory</h1>\n<p>{title}</p>\n"
    );
    let sentences = explain::event(state)
        .into_iter()
        .chain(explain::usage(state))
        .chain(state.remarks.iter().cloned());
    paragraphs(&mut html, sentences);
    for zone in &state.zones {
        zone_table(&mut html, state, zone);
    }
    if state.frames.is_some() {
        paragraphs(&mut html, terminal::LEGEND.into_iter().map(str::to_owned));
    }
    for list in holders::lists(state) {
        let _ = writeln!(
            html,
            "<h2>{}</h2>",
            escaped(list.title.trim_end_matches(':'))
        );
        let rows = list
            .rows
            .iter()
            .map(|(cells, note)| (cells.to_vec(), (*note).to_owned()));
        table(&mut html, &list.columns, rows);
    }
    paragraphs(&mut html, holders::assumptions(state).into_iter());
    match &state.frames {
        Some(facts) => {
            let _ = write!(html, "<h2>Map</h2>\n{}", section(&facts.map));
        }
        None => {
            html.push_str("<p>A map of memory needs /proc/kpageflags, which root may read.</p>\n")
        }
    }
    html.push_str("</body>\n</html>\n");
    html
}

fn paragraphs(html: &mut String, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.map(|line| escaped(&line)).collect();
    if !lines.is_empty() {
        let _ = writeln!(html, "<p>{}</p>", lines.join("<br>\n"));
    }
}

fn zone_table(html: &mut String, state: &State, zone: &Zone) {
    let Some(answer) = answer::of_zone(state, zone, Request::shown(zone)) else {
        return;
    };
    let is_empty = |row: &answer::Row| row.free.high == Some(0) && row.total == Some(0);
    if answer.rows.first().is_some_and(is_empty) {
        return;
    }
    let free = zone.free_frames().map_or("unknown".to_owned(), |frames| {
        size::shown(frames.saturating_mul(state.frame.bytes))
    });
    let _ = writeln!(
        html,
        "<h2>{}: {free} free</h2>",
        escaped(&zone.extent.title())
    );
    paragraphs(html, explain::unmanaged(state, zone).into_iter());
    if zone.windows.is_some() && !answer.is_obtainable() {
        html.push_str("<p>Watermark and reserve keep all of it from ordinary requests.</p>\n");
        return;
    }
    let rows = terminal::shown_rows(zone, &answer).into_iter();
    let rows = rows.map(|row| {
        let note = terminal::note(&answer, row, false);
        (terminal::cells(zone, row, shown), note)
    });
    table(html, &terminal::columns(zone), rows);
}

fn table(html: &mut String, columns: &[&str], rows: impl Iterator<Item = (Vec<String>, String)>) {
    html.push_str("<div class=\"answers\"><table>\n<thead><tr>");
    for column in columns {
        let _ = write!(html, "<th>{column}</th>");
    }
    html.push_str("<th></th></tr></thead>\n<tbody>\n");
    for (cells, note) in rows {
        html.push_str("<tr>");
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", escaped(&cell));
        }
        let _ = writeln!(html, "<td class=\"note\">{}</td></tr>", escaped(&note));
    }
    html.push_str("</tbody>\n</table></div>\n");
}
