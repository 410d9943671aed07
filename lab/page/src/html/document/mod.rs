//! A document as HTML: the answer, the contents, and a section for each part.
//!
//! Readers see the result immediately, and can check it down to the numbers before any script runs: only the figures
//! need one.
//!
//! # Invariants
//! Every block is shown, but for those of a terminal. No information is conveyed by colour alone.

mod claims;
mod tables;

use maud::{Markup, PreEscaped, html};

use super::shell::Shell;
use super::words;
use crate::document::{Block, Claim, Document, Figure, Look, Reader, Section, Text};
use crate::pack;

/// The style sheet.
const STYLE: &str = styles! {
    "theme" "page" "table" "figure" "document" "print"
};

/// The script. The files share one scope; the last one starts the page.
const SCRIPT: &str = scripts! {
    "format" "parcel" "dom" "looks" "state" "chart" "theme" "window" "document" "document_main"
};

/// A section, its anchor, and what is in it.
struct Part<'d> {
    /// What is before the first section has none.
    section: Option<&'d Section>,
    anchor: String,
    blocks: Vec<&'d Block>,
}

impl<'d> Part<'d> {
    fn claims(&self) -> impl Iterator<Item = &'d Claim> + Clone {
        let claims = self.blocks.iter().filter_map(|block| match block {
            Block::Claims(claims) => Some(claims),
            _ => None,
        });
        claims.flatten().collect::<Vec<_>>().into_iter()
    }

    fn figures(&self) -> impl Iterator<Item = (String, &'d Figure)> {
        let figures = self.blocks.iter().filter_map(|block| match block {
            Block::Figure(figure) => Some(figure),
            _ => None,
        });
        (1..).zip(figures).map(|(at, figure): (u32, _)| {
            let own = format!("{}-figure-{at}", self.anchor);
            (own, figure)
        })
    }
}

/// Divides a document into its sections.
fn parts(document: &Document) -> Vec<Part<'_>> {
    let blocks = document.blocks.iter();
    let blocks = blocks.filter_map(|block| block.seen_by(Reader::Page));
    let mut parts = vec![Part {
        section: None,
        anchor: String::new(),
        blocks: Vec::new(),
    }];
    for block in blocks {
        match (block, parts.last_mut()) {
            (Block::Section(own), _) => parts.push(Part {
                section: Some(own),
                anchor: String::new(),
                blocks: Vec::new(),
            }),
            (block, Some(last)) => last.blocks.push(block),
            (_, None) => {}
        }
    }
    parts.retain(|own| own.section.is_some() || !own.blocks.is_empty());
    let names = parts
        .iter()
        .map(|own| own.section.map_or("", |own| own.name.as_str()));
    let anchors = words::anchors("part", names.collect::<Vec<_>>().into_iter());
    for (part, anchor) in parts.iter_mut().zip(anchors) {
        part.anchor = anchor;
    }
    parts
}

/// Renders the document.
pub(crate) fn document(document: &Document, library: &str) -> Markup {
    let parts = parts(document);
    let shell = Shell {
        title: &document.title,
        style: STYLE,
        script: SCRIPT,
        floor_ns: 0.0,
    };
    let above = html! {
        (masthead(document, &parts))
        (bar(&parts))
    };
    let results = html! {
        (contents(&parts))
        @for part in &parts { (self::part(part)) }
        @if parts.is_empty() { p { "There are no results." } }
    };
    let below = html! {
        (foot(document))
        script #library type="application/gzip" { (PreEscaped(library)) }
        @for (anchor, figure) in parts.iter().flat_map(Part::figures) {
            script id={ (anchor) "-data" } type="application/gzip" { (PreEscaped(parcel(figure))) }
        }
    };
    shell.around(&above, &results, &below)
}

/// Renders the top of the page: a recipient learns within a minute what was done, and with what result.
fn masthead(document: &Document, parts: &[Part<'_>]) -> Markup {
    let claims = parts.iter().flat_map(Part::claims);
    let claims: Vec<&Claim> = claims.collect();
    html! {
        header.masthead {
            h1 { (document.title) }
            @if !document.lede.is_empty() { p.lede { (coded(&document.lede)) } }
            @if !claims.is_empty() { p.verdicts { (claims::counts(claims.iter().copied())) } }
            @for (is_warning, remark) in &document.remarks {
                p.warning[*is_warning].quiet[!is_warning] { (coded(remark)) }
            }
        }
    }
}

/// Renders the bar that stays visible: sections, dark or light mode.
fn bar(parts: &[Part<'_>]) -> Markup {
    html! {
        div.bar {
            nav.tabs aria-label="Sections" {
                @if has_contents(parts) { a.tab href="#contents" { "Contents" } }
                @for part in parts {
                    @if let Some(own) = part.section { a.tab href={ "#" (part.anchor) } { (own.name) } }
                }
            }
            button.theme #theme type="button" hidden { "Dark" }
        }
    }
}

/// A list of sections helps where the bar does not say enough: sections have verdicts.
fn has_contents(parts: &[Part<'_>]) -> bool {
    let with_claims = parts.iter().filter(|own| own.claims().next().is_some());
    with_claims.count() > 1
}

/// Renders the list of all sections with their verdicts.
fn contents(parts: &[Part<'_>]) -> Markup {
    html! {
        @if has_contents(parts) {
            nav.overview #contents aria-labelledby="contents-name" {
                h2 #contents-name { "Contents" }
                ol {
                    @for part in parts {
                        @if let Some(own) = part.section {
                            li {
                                a href={ "#" (part.anchor) } { (title(own)) }
                                span.where { (own.source) }
                                span.verdicts {
                                    @if part.claims().next().is_none() { span.none { "no claims" } }
                                    (claims::counts(part.claims()))
                                }
                            }
                        }
                    }
                }
                p.note {
                    "✓ pass: confirmed. ≠ known deviation: not confirmed, with a known reason. ✗ fail: not confirmed \
                     in any round. ? inconclusive: the rounds disagree, or there are no numbers. – not judged: the run \
                     was shortened."
                }
            }
        }
    }
}

fn title(section: &Section) -> &str {
    if section.title.is_empty() {
        &section.name
    } else {
        &section.title
    }
}

/// Renders a section.
fn part(part: &Part<'_>) -> Markup {
    let mut figures = part.figures();
    let of_same_kind =
        |one: &&&Block, other: &&&Block| matches!((one, other), (Block::Table(_), Block::Table(_)));
    let groups: Vec<&[&Block]> = part
        .blocks
        .chunk_by(|one, other| of_same_kind(&one, &other))
        .collect();
    let inside = html! {
        @for group in groups {
            @match group {
                [Block::Table(_), ..] => div.tables {
                    @for block in group { @if let Block::Table(table) = block { (tables::table(table)) } }
                },
                [Block::Figure(_)] => @if let Some((anchor, own)) = figures.next() { (figure(own, &anchor)) },
                [block] => (one(block)),
                _ => {},
            }
        }
    };
    html! {
        @match part.section {
            None => div.before { (inside) },
            Some(own) => section.experiment id=(part.anchor) aria-labelledby={ (part.anchor) "-name" } {
                header.about {
                    @if !own.title.is_empty() { p.name { code { (own.name) } } }
                    h2 id={ (part.anchor) "-name" } { (title(own)) }
                    @if !own.source.is_empty() { p.facts { span { "Source: " b { (own.source) } } } }
                }
                (inside)
            },
        }
    }
}

/// Renders a block that is neither a table nor a figure.
fn one(block: &Block) -> Markup {
    match block {
        Block::Text(own) => text(own),
        Block::Claims(own) => claims::claims(own),
        Block::Grid(own) => tables::grid(own),
        Block::Verbatim(own) => html! { pre.verbatim { (own) } },
        Block::Section(_) | Block::Table(_) | Block::Figure(_) | Block::Space | Block::Only(..) => {
            html! {}
        }
    }
}

fn text(own: &Text) -> Markup {
    let head = own.head.trim();
    match own.look {
        Look::Title => html! { h3 { b { (head) } (coded(&own.text)) } },
        look => html! {
            p.remarks.warning[look == Look::Warning].quiet[look == Look::Dim] {
                @if !head.is_empty() { b { (head) } " " }
                (coded(&own.text))
            }
        },
    }
}

/// Renders a text with names in backquotes.
fn coded(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// Encodes the data of a figure for the page.
fn parcel(figure: &Figure) -> String {
    // Plain data with text keys always becomes JSON. If it did not, the page would report an error.
    pack::pack(&serde_json::to_vec(figure).unwrap_or_default())
}

/// Renders the container of a figure.
fn figure(figure: &Figure, anchor: &str) -> Markup {
    // A panel that is alone in its row spans the whole row.
    let last = figure.panels.len().wrapping_sub(1);
    let class = |at: usize| {
        if at == last && at.is_multiple_of(2) {
            "panel full"
        } else {
            "panel"
        }
    };
    let titles = figure.panels.iter().map(|panel| panel.title.as_str());
    let titles: Vec<&str> = titles.collect();
    html! {
        figure.fig id=(anchor) data-parcel={ (anchor) "-data" } aria-label={ "Figure: " (titles.join("; ")) } {
            ul.key {}
            div.panels {
                @for (at, panel) in figure.panels.iter().enumerate() {
                    div class=(class(at)) data-panel=(at) {
                        h4 { (panel.title) }
                        p.axis { (panel.y.label) }
                        div.plot {}
                    }
                }
            }
            figcaption.note { (figure.note) }
        }
    }
}

/// Describes how the page was made.
fn foot(document: &Document) -> Markup {
    let made = &document.made;
    html! {
        footer.foot {
            p {
                @if !made.command.is_empty() { "Made by " code { (made.command) } " " }
                @if !made.version.is_empty() { "with " (made.version) " " }
                @if !made.date.is_empty() { "on " (made.date) }
                @if !made.more.is_empty() { ", " (made.more) }
                "."
            }
            p { "Charts by plotly.js (MIT licence), which this file contains. The file makes no network requests." }
        }
    }
}
