//! A history: how many blocks were free, since when fewer than half of the most were, and what grew meanwhile.
//!
//! The sentences are the same in the terminal and on the page, which adds charts.
//!
//! # Invariants
//! Numbers are those of [`History::dated`]. The page has no script, and names from the input are escaped.

use std::fmt::Write as _;

use everybuddy_text::size::{self, grouped};

use crate::frames::html::escaped;
use crate::history::{History, Moment, shown};
use crate::need::Need;
use crate::show::html;
use crate::state::State;

/// The sizes that are shown, besides the largest one.
const SIZES: [u64; 2] = [64 << 10, 2 << 20];

/// The maximum number of names that grew.
const GROWN: usize = 5;

/// The free blocks of one size over time.
struct Trend<'h> {
    bytes: u64,
    moments: &'h [&'h Moment],
    counts: Vec<u64>,
    /// The position of the most.
    best: usize,
    /// The position of the first moment after which the number never reaches half of the most again.
    since: Option<usize>,
}

impl<'h> Trend<'h> {
    fn of(moments: &'h [&'h Moment], bytes: u64) -> Trend<'h> {
        let counts: Vec<u64> = moments.iter().map(|own| own.free_blocks(bytes)).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let best = counts.iter().position(|count| *count == most).unwrap_or(0);
        let is_half = |count: &u64| *count >= most - most / 2;
        let since = counts.iter().rposition(is_half).map_or(0, |last| last + 1);
        Trend {
            bytes,
            moments,
            best,
            since: (since < counts.len()).then_some(since),
            counts,
        }
    }

    fn most(&self) -> u64 {
        self.counts.get(self.best).copied().unwrap_or(0)
    }

    fn words(&self) -> String {
        let size = size::shown(self.bytes);
        let last = grouped(self.counts.last().copied().unwrap_or(0));
        let time = |at: usize| shown(self.moments[at].time);
        let mut words = format!(
            "Blocks of {size}: {last} free at the last moment; the most were {} ({}).",
            grouped(self.most()),
            time(self.best)
        );
        if let Some(since) = self.since {
            // Writing to a string cannot fail.
            let _ = write!(
                words,
                " Fewer than half as many have been free since {}.",
                time(since)
            );
        }
        words
    }

    /// Names what grew between the most blocks and now, the largest first.
    fn grown(&self) -> Option<String> {
        self.since?;
        let (then, now) = (self.moments.get(self.best)?, self.moments.last()?);
        let more = |(name, kib): (&String, &u64)| {
            let more = kib.saturating_sub(*then.held_kib.get(name)?);
            (more > 0).then(|| (more, name.clone()))
        };
        let mut grown: Vec<(u64, String)> = now.held_kib.iter().filter_map(more).collect();
        grown.sort_by_key(|(more, _)| std::cmp::Reverse(*more));
        let shown = |(more, name): (u64, String)| {
            format!("{name} by {}", size::shown(more.saturating_mul(1024)))
        };
        let grown: Vec<String> = grown.into_iter().take(GROWN).map(shown).collect();
        (!grown.is_empty()).then(|| format!("Growth since that maximum: {}.", grown.join(", ")))
    }

    /// Draws the numbers.
    fn chart(&self) -> String {
        let time = |at: usize| self.moments[at].time;
        // A clock may be set back.
        let times = || self.moments.iter().map(|moment| moment.time);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let width = (last - first).max(1) as f64;
        let x = |at: usize| (time(at) - first) as f64 / width * 780.0 + 10.0;
        let y = |count: u64| 150.0 - count as f64 / self.most().max(1) as f64 * 130.0;
        let point = |(at, count): (usize, &u64)| format!("{:.1},{:.1}", x(at), y(*count));
        let points: Vec<String> = self.counts.iter().enumerate().map(point).collect();
        let mark = self.since.map_or(String::new(), |since| {
            format!(
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"10\" y2=\"150\"/>",
                x(since)
            )
        });
        format!(
            "<svg viewBox=\"0 0 800 175\" role=\"img\" aria-label=\"Free blocks over time\">{mark}\
             <polyline points=\"{}\"/>\n<text x=\"10\" y=\"14\">{}</text><text x=\"10\" y=\"168\">{}</text>\
             <text x=\"790\" y=\"168\" text-anchor=\"end\">{}</text></svg>\n",
            points.join(" "),
            grouped(self.most()),
            shown(first),
            shown(last)
        )
    }
}

/// Returns the sizes to show, the largest first.
fn sizes(moments: &[&Moment]) -> Vec<u64> {
    let largest = |moment: &&Moment| {
        let orders = moment.zones.iter().map(|zone| zone.blocks.len()).max();
        moment.frame_bytes << (orders.unwrap_or(1) - 1)
    };
    let largest = moments.iter().map(largest).max().unwrap_or(0);
    let frame = moments.iter().map(|own| own.frame_bytes).max().unwrap_or(0);
    let mut sizes = vec![largest];
    sizes.extend(SIZES.into_iter().rev());
    sizes.retain(|bytes| (frame..=largest).contains(bytes));
    sizes.dedup();
    sizes
}

fn trends<'h>(moments: &'h [&'h Moment]) -> Vec<Trend<'h>> {
    let sizes = sizes(moments).into_iter();
    // Without a moment there is nothing to say.
    let sizes = sizes.filter(|_| !moments.is_empty());
    sizes.map(|bytes| Trend::of(moments, bytes)).collect()
}

/// Says from when the moments are.
fn extent(moments: &[&Moment]) -> String {
    let ends = moments.first().zip(moments.last());
    ends.map_or(String::new(), |(first, last)| {
        let (first, last) = (shown(first.time), shown(last.time));
        match moments.len() {
            1 => format!("1 moment: {last}."),
            count => format!("{} moments from {first} to {last}.", grouped(count as u64)),
        }
    })
}

/// Writes the sentences for a terminal.
#[must_use]
pub fn text(history: &History) -> String {
    let moments = history.dated();
    let mut text = format!("{}\n", extent(&moments));
    for trend in trends(&moments) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", trend.words());
        if let Some(grown) = trend.grown() {
            let _ = writeln!(text, "  {grown}");
        }
    }
    text
}

/// Writes the page. `state` is that of the last moment, which decides about `needs`.
#[must_use]
pub fn page(history: &History, state: &State, needs: &[Need]) -> String {
    let moments = history.dated();
    let trends = trends(&moments);
    let mut body = html::verdicts(state, needs);
    if let Some(trend) = trends.first().filter(|_| needs.is_empty()) {
        let class = if trend.since.is_some() { "no" } else { "yes" };
        // Writing to a string cannot fail.
        let _ = writeln!(body, "<p class=\"verdict {class}\">{}</p>", trend.words());
    }
    let _ = writeln!(
        body,
        "<h1>Large blocks over time</h1>\n<p>{} A dashed line shows since when fewer than half are free.</p>",
        extent(&moments)
    );
    for note in history.notes() {
        let _ = writeln!(body, "<p>{note}.</p>");
    }
    for trend in &trends {
        let title = format!("Blocks of {}", size::shown(trend.bytes));
        let _ = writeln!(body, "<h2>{title}</h2>\n<p>{}</p>", trend.words());
        body.push_str(&trend.chart());
        if let Some(grown) = trend.grown() {
            let _ = writeln!(body, "<p>{}</p>", escaped(&grown));
        }
    }
    html::document("Large blocks over time", &body, None)
}
