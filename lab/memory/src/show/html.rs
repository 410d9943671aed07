//! The page: the verdict, the answers as tables, what holds the rest, and a map of memory.
//!
//! A picture shows where memory is broken up.
//!
//! # Invariants
//! The page is one file without external parts. Names from the input are escaped, and each number of the terminal's
//! table is in a table of the page.

use std::fmt::Write;

use everybuddy_text::size;

use crate::answer::{self, Row};
use crate::explain;
use crate::frames::html::{escaped, section};
use crate::need::{self, Need, shown};
use crate::request::Request;
use crate::show::{holders, terminal};
use crate::state::{State, Zone};

/// The style of [`answer()`].
const STYLE: &str = include_str!("../../assets/answer.css");

/// Draws the maps of [`answer()`].
const SCRIPT: &str = include_str!("../../assets/map.js");

/// Writes a complete page.
#[must_use]
pub fn page(state: &State, needs: &[Need]) -> String {
    let title = format!("Memory: {}", explain::title(state));
    document(&title, &answer(state, needs), Some(SCRIPT))
}

/// Writes a page around a body that is HTML already.
pub(crate) fn document(title: &str, body: &str, script: Option<&str>) -> String {
    let script = script.map_or(String::new(), |script| {
        format!("<script>\n{script}</script>\n")
    });
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main class=\"answer\">\n{body}</main>\n\
         {script}</body>\n</html>\n",
        escaped(title),
    )
}

/// Writes a paragraph for each verdict.
pub(crate) fn verdicts(state: &State, needs: &[Need]) -> String {
    let mut html = String::new();
    for need in needs {
        let verdict = need::decide(state, need);
        let class = ["yes", "moving", "", "no", "unknown"][usize::from(verdict.outcome.code())];
        let (word, reason) = verdict.line.split_once(": ").unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            html,
            "<p class=\"verdict {class}\"><b>{word}</b> <span>{}</span></p>",
            escaped(reason)
        );
    }
    html
}

/// Writes the contents of the page: what another page may show as well.
#[must_use]
pub fn answer(state: &State, needs: &[Need]) -> String {
    let mut html = verdicts(state, needs);
    if needs.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(html, "<p class=\"verdict\">{}</p>", headline(state));
    }
    let _ = writeln!(
        html,
        "<h1>Blocks of memory</h1>\n<p>{}</p>",
        escaped(&explain::title(state))
    );
    let sentences = explain::event(state)
        .into_iter()
        .chain(explain::usage(state))
        .chain(state.remarks.iter().cloned());
    paragraphs(&mut html, sentences);
    let mut zones = String::new();
    for zone in &state.zones {
        zone_table(&mut zones, state, zone, needs);
    }
    if zones.contains("class=\"bar\"") {
        html.push_str(
            "<p class=\"keys\">Of all memory of a zone: <i class=\"now\"></i>usable now <i class=\"kept\"></i>free, \
             but not usable for certain",
        );
        if state.frames.is_some() {
            html.push_str(
                " <i class=\"move\"></i>by moving <i class=\"drop\"></i>by dropping <i class=\"may\"></i>perhaps",
            );
        }
        html.push_str("</p>\n");
    }
    html.push_str(&zones);
    if state.frames.is_some() {
        paragraphs(&mut html, terminal::LEGEND.into_iter().map(str::to_owned));
    }
    for list in holders::lists(state) {
        let _ = writeln!(
            html,
            "<h2>{}</h2>",
            escaped(list.title.trim_end_matches(':'))
        );
        let rows = list.rows.iter().map(|(cells, note)| {
            let cells = cells.iter().map(String::as_str).chain([*note]);
            ("", cells.map(escaped).collect())
        });
        let columns = list.columns.into_iter().chain(["note"]);
        table(&mut html, &columns.collect::<Vec<_>>(), rows);
    }
    paragraphs(&mut html, holders::assumptions(state).into_iter());
    match &state.frames {
        Some(facts) => {
            let _ = write!(
                html,
                "<h2>Map</h2>\n<p>By what is in a block. The tables count fewer: watermarks keep some, and for others \
                 no free frames are left to move pages to.</p>\n{}",
                section(&facts.map)
            );
        }
        None => {
            html.push_str("<p>A map of memory needs /proc/kpageflags, which root may read.</p>\n")
        }
    }
    html
}

/// Says which block is free, for users who need no certain number.
fn headline(state: &State) -> String {
    explain::largest(state).map_or(
        "The sizes of free blocks are not in this input.".to_owned(),
        |bytes| {
            format!(
                "The largest block on the kernel's free lists has {}.",
                size::shown(bytes)
            )
        },
    )
}

fn paragraphs(html: &mut String, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.map(|line| escaped(&line)).collect();
    if !lines.is_empty() {
        let _ = writeln!(html, "<p>{}</p>", lines.join("<br>\n"));
    }
}

fn zone_table(html: &mut String, state: &State, zone: &Zone, needs: &[Need]) {
    let Some(answer) = answer::of_zone(state, zone, Request::shown(zone)) else {
        return;
    };
    let is_empty = |row: &Row| row.free.high == Some(0) && row.total == Some(0);
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
    let is_wanted = |row: &Row| {
        let sizes = needs.iter().map(|need| need.bytes.next_power_of_two());
        sizes.into_iter().any(|bytes| bytes == row.bytes)
    };
    let rows = terminal::shown_rows(zone, &answer).into_iter();
    let rows = rows.map(|row| {
        let cells = terminal::cells(zone, row, shown).into_iter();
        let mut cells: Vec<String> = cells.map(|cell| escaped(&cell)).collect();
        cells.insert(1, bar(row));
        cells.push(escaped(&terminal::note(&answer, row, false)));
        (
            if is_wanted(row) {
                " class=\"wanted\""
            } else {
                ""
            },
            cells,
        )
    });
    let mut columns = terminal::columns(zone);
    columns.insert(1, "bar");
    columns.push("note");
    table(html, &columns, rows);
}

/// Draws the shares of a row: each step as wide as the memory that it adds.
fn bar(row: &Row) -> String {
    let Some(total) = row.total.or(row.free.high).filter(|total| *total > 0) else {
        return String::new();
    };
    let usable = row.usable.low;
    let moving = row.moving.map_or(usable, |range| range.low);
    let dropping = row.dropping.map_or(moving, |range| range.low);
    let most = row.dropping.and_then(|range| range.high);
    // What steps give does not contain what is free, but kept from the request.
    let kept = row.free.high.unwrap_or(row.free.low);
    let kept = kept.saturating_sub(usable).min(total);
    let steps = [
        ("now", usable),
        ("move", moving.saturating_sub(usable)),
        ("drop", dropping.saturating_sub(moving)),
        ("may", most.map_or(0, |most| most.saturating_sub(dropping))),
        ("kept", kept),
    ];
    let mut rest = 1000;
    let steps = steps.into_iter().filter_map(|(class, blocks)| {
        let wide = (u128::from(blocks) * 1000 / u128::from(total)).max(u128::from(blocks > 0) * 4);
        let wide = wide.min(rest);
        rest -= wide;
        let (whole, tenth) = (wide / 10, wide % 10);
        (wide > 0).then(|| format!("<i class=\"{class}\" style=\"width:{whole}.{tenth}%\"></i>"))
    });
    format!("<span>{}</span>", steps.collect::<String>())
}

/// Writes a table: its rows have an attribute, and cells that are HTML already. Bars and notes have no title.
fn table<'c>(
    html: &mut String,
    columns: &[&str],
    rows: impl Iterator<Item = (&'c str, Vec<String>)>,
) {
    html.push_str("<div class=\"answers\"><table>\n<thead><tr>");
    for column in columns {
        let title = Some(*column).filter(|column| !["bar", "note"].contains(column));
        let _ = write!(html, "<th class=\"{column}\">{}</th>", title.unwrap_or(""));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (attribute, cells) in rows {
        let _ = write!(html, "<tr{attribute}>");
        for (cell, column) in cells.iter().zip(columns) {
            let _ = write!(html, "<td class=\"{column}\">{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div>\n");
}
