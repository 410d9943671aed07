//! The picture of memory as a part of an HTML page, without external parts.
//!
//! # Invariants
//! The table has every number of the picture, so that a reader without scripts misses no fact. Names from the
//! input are escaped.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use everybuddy_text::size::shown;

use super::blocks::Verdict;
use super::flags::Kind;
use super::map::Map;

/// Everything that a cell may show: its letter in the data is its position, and so is its colour.
const SHOWN: [Verdict; 15] = [
    Verdict::Free,
    Verdict::Dropping,
    Verdict::Moving,
    Verdict::Perhaps,
    Verdict::Held(Kind::Slab),
    Verdict::Held(Kind::PageTable),
    Verdict::Held(Kind::Compound),
    Verdict::Held(Kind::Kernel),
    Verdict::Held(Kind::HugePool),
    Verdict::Held(Kind::Reserved),
    Verdict::Held(Kind::Offline),
    Verdict::Held(Kind::Poisoned),
    Verdict::Held(Kind::Pinned),
    Verdict::Draining,
    Verdict::Absent,
];

const STYLE: &str = "\
.memory-map{--c0:#d9dee3;--c1:#a8d5ba;--c2:#5aa9e6;--c3:#f2c94c;--c4:#c0392b;--c5:#8e44ad;--c6:#e67e22;--c7:#7b241c;
--c8:#16a085;--c9:#57606a;--c10:#a9746e;--c11:#000;--c12:#e84393;
--c13:#f7e3a1;--c14:#fff;--line:#c8ccd0;font:15px/1.45 system-ui,sans-serif}
@media(prefers-color-scheme:dark){.memory-map{--c0:#39424c;--c1:#3f7d5a;--c2:#2f7fc1;--c3:#c9a227;--c4:#e0604f;
--c5:#b07cc6;--c6:#e0954a;--c7:#a8483c;--c8:#2bb59a;--c9:#8b949e;--c10:#b58a84;--c11:#fff;--c12:#ff7ab8;
--c13:#8a7634;--c14:#0d1117;--line:#444c56}}
.memory-map .sides{display:flex;flex-wrap:wrap;gap:1.5rem;align-items:flex-start}
.memory-map figure{margin:0 0 1rem;max-width:100%}
.memory-map canvas{display:block;max-width:100%;height:auto;image-rendering:pixelated;border:1px solid var(--line)}
.memory-map table{border-collapse:collapse}
.memory-map th,.memory-map td{padding:.15rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
.memory-map th:first-child,.memory-map td:first-child{text-align:left}
.memory-map i{display:inline-block;width:.8em;height:.8em;margin-right:.5em;border:1px solid var(--line)}
.memory-map output{display:block;min-height:1.5em}
";

/// Draws each canvas from its letters, names the cell below the pointer, and draws again if the colours change.
const SCRIPT: &str = "\
(()=>{for(const map of document.querySelectorAll('.memory-map')){
const names=[...map.querySelectorAll('tbody td:first-child')];
const name=code=>(names.find(cell=>+cell.dataset.code===code)||{textContent:''}).textContent;
const size=+map.dataset.cell,wide=64,edge=8,out=map.querySelector('output');
const draw=canvas=>{const cells=canvas.dataset.cells,style=getComputedStyle(map);
canvas.width=wide*edge;canvas.height=Math.ceil(cells.length/wide)*edge;const to=canvas.getContext('2d');
for(let at=0;at<cells.length;at++){to.fillStyle=style.getPropertyValue('--c'+(cells.charCodeAt(at)-97));
to.fillRect(at%wide*edge,Math.floor(at/wide)*edge,edge-1,edge-1)}};
for(const canvas of map.querySelectorAll('canvas')){draw(canvas);
canvas.addEventListener('pointermove',event=>{const box=canvas.getBoundingClientRect();
const x=Math.floor((event.clientX-box.left)/box.width*wide);
const y=Math.floor((event.clientY-box.top)/box.height*canvas.height/edge);
const at=y*wide+x,code=canvas.dataset.cells.charCodeAt(at)-97;
if(code>=0)out.textContent='0x'+(+canvas.dataset.start+at*size).toString(16)+': '+name(code)})}
matchMedia('(prefers-color-scheme:dark)').addEventListener('change',()=>map.querySelectorAll('canvas').forEach(draw))
}})();
";

/// Returns the picture with its table, style and script, for use in another page.
#[must_use]
pub fn section(map: &Map) -> String {
    let mut html = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        html,
        "<style>\n{STYLE}</style>\n<section class=\"memory-map\" data-cell=\"{}\">\n<div class=\"sides\">\n",
        map.cell_bytes
    );
    let _ = write!(
        html,
        "<table>\n<thead><tr><th>Blocks of {}</th>",
        shown(map.block_bytes)
    );
    for zone in &map.zones {
        let _ = write!(html, "<th>Node {} {}</th>", zone.node, escaped(&zone.name));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let mut totals: BTreeMap<Verdict, u64> = BTreeMap::new();
    for (kind, count) in map.zones.iter().flat_map(|zone| &zone.blocks) {
        *totals.entry(*kind).or_default() += count;
    }
    for (code, kind) in SHOWN
        .into_iter()
        .enumerate()
        .filter(|(_, kind)| totals.contains_key(kind))
    {
        let held = if matches!(kind, Verdict::Held(_)) {
            "held by: "
        } else {
            ""
        };
        let _ = write!(
            html,
            "<tr><td data-code=\"{code}\"><i style=\"background:var(--c{code})\"></i>{held}{}</td>",
            escaped(kind.name())
        );
        for zone in &map.zones {
            let _ = write!(
                html,
                "<td>{}</td>",
                zone.blocks.get(&kind).copied().unwrap_or_default()
            );
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n<div>\n");
    for zone in &map.zones {
        let cells: String = zone.cells.iter().map(|cell| letter(*cell)).collect();
        let _ = writeln!(
            html,
            "<figure>\n<figcaption>Node {} {}, from {:#x}, {} per cell</figcaption>\n\
             <canvas role=\"img\" aria-label=\"Each cell has the colour of what decides about its block; the table \
             has the counts\" \
             data-start=\"{}\" data-cells=\"{cells}\"></canvas>\n</figure>",
            zone.node,
            escaped(&zone.name),
            zone.address,
            shown(map.cell_bytes),
            zone.address,
        );
    }
    let _ = write!(
        html,
        "<output></output>\n</div>\n</div>\n</section>\n<script>\n{SCRIPT}</script>\n"
    );
    html
}

fn letter(shown: Verdict) -> char {
    let code = SHOWN.iter().position(|one| *one == shown);
    // Every class that holds a block is in the list.
    let code = code.unwrap_or(SHOWN.len() - 1);
    char::from(b'a' + code as u8)
}

/// Escapes a text for HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;")
}
