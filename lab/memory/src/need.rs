//! Decides whether a machine has a number of blocks: `--need 200x32MiB,zone=Normal,node=0`.
//!
//! Launchers and tests need one line and an exit code.
//!
//! # Invariants
//! The line states the assumptions. If the input does not suffice, the answer is [`Outcome::Unknown`] and says so.

use everybuddy_text::size::{self, grouped};

use crate::answer::{self, Range, Row};
use crate::frames::Kind;
use crate::request::Request;
use crate::state::{self, State, Zone};
use crate::usage::Usage;

/// A number of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The number of blocks.
    pub count: u64,
    /// The size of a block in bytes.
    pub bytes: u64,
    /// Only this zone.
    pub zone: Option<String>,
    /// Only this node.
    pub node: Option<u32>,
    /// The memory can be moved later.
    pub is_movable: bool,
}

/// A part of a text that is not a [`Need`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeedError {
    /// It has another form.
    Form(String),
    /// Its blocks are too large.
    Size(String),
}

impl std::fmt::Display for NeedError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NeedError::Form(part) => write!(
                out,
                "`{part}` is not of the form COUNTxSIZE[,zone=NAME][,node=N][,movable], such as 200x32MiB,zone=Normal"
            ),
            NeedError::Size(part) => {
                write!(out, "`{part}`: blocks of more than 1 GiB are not supported")
            }
        }
    }
}

impl std::error::Error for NeedError {}

impl std::str::FromStr for Need {
    type Err = NeedError;

    fn from_str(text: &str) -> Result<Need, NeedError> {
        let wrong = |part: &str| NeedError::Form(part.to_owned());
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (count, bytes) = first.split_once(['x', '*']).ok_or_else(|| wrong(first))?;
        let count = count
            .trim()
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| wrong(first))?;
        let bytes = size::parse(bytes)
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| wrong(first))?;
        if bytes > answer::LARGEST {
            return Err(NeedError::Size(first.to_owned()));
        }
        let mut need = Need {
            count,
            bytes,
            zone: None,
            node: None,
            is_movable: false,
        };
        for part in parts {
            match part.split_once('=') {
                Some(("zone", name)) if !name.is_empty() && need.zone.is_none() => {
                    need.zone = Some(name.to_owned());
                }
                Some(("node", node)) if need.node.is_none() => {
                    need.node = Some(node.parse().map_err(|_| wrong(part))?);
                }
                None if part == "movable" => need.is_movable = true,
                _ => return Err(wrong(part)),
            }
        }
        Ok(need)
    }
}

impl std::fmt::Display for Need {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} x {}",
            grouped(self.count),
            size::shown(self.bytes)
        )?;
        if let Some(zone) = &self.zone {
            write!(formatter, ", zone {zone}")?;
        }
        if let Some(node) = self.node {
            write!(formatter, ", node {node}")?;
        }
        formatter.write_str(if self.is_movable { ", movable" } else { "" })
    }
}

impl Need {
    fn selects(&self, zone: &Zone) -> bool {
        // A kernel without nodes has node 0.
        let is_node = self
            .node
            .is_none_or(|node| zone.extent.node.unwrap_or(0) == node);
        is_node
            && self
                .zone
                .as_ref()
                .is_none_or(|name| *name == zone.extent.name)
    }

    fn request(&self) -> Request {
        let request = if self.is_movable {
            Request::MOVABLE
        } else {
            Request::default()
        };
        Request {
            is_for_zone: self.zone.is_some(),
            ..request
        }
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The blocks are free now.
    Now,
    /// The blocks are available, but pages must be moved.
    ByMoving,
    /// The blocks are not available.
    Impossible,
    /// The input cannot tell.
    Unknown,
}

impl Outcome {
    /// Returns the exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Outcome::Now => 0,
            Outcome::ByMoving => 1,
            Outcome::Impossible => 3,
            Outcome::Unknown => 4,
        }
    }
}

/// An answer with its reason, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The answer.
    pub outcome: Outcome,
    /// The line.
    pub line: String,
}

/// The sums over all zones that may serve the request.
struct Sums {
    usable: Range,
    /// The bytes of a block that serves the request.
    block_bytes: u64,
    /// The frames that are free above the watermarks at most, with those on the CPUs' lists. `None` if it is unknown.
    room: Option<u64>,
    moving: Option<Range>,
    dropping: Option<Range>,
    never: u64,
    /// The kinds of pages that hold blocks.
    held: Vec<(Kind, u64)>,
    total: Option<u64>,
    by_zone: Vec<String>,
    knows_types: bool,
    knows_watermarks: bool,
    has_mixed_types: bool,
    is_above_table: bool,
    /// Whether the input certainly has all zones that may serve the request: a log has if its end says so.
    is_complete: bool,
    missing: Vec<String>,
}

/// Decides.
#[must_use]
pub fn decide(state: &State, need: &Need) -> Verdict {
    let sums = sums(state, need, |zone| {
        answer::of_zone(state, zone, need.request())
    });
    let count = grouped(need.count);
    let mut what = need.to_string();
    if sums.block_bytes != need.bytes {
        what.push_str(&format!(
            ", each in a block of {}",
            size::shown(sums.block_bytes)
        ));
    }
    let mut by_zone = sums.by_zone.join(", ");
    if !by_zone.is_empty() {
        by_zone = format!(" ({by_zone})");
    }
    let mut notes = Vec::new();
    if !sums.knows_types {
        notes.push("classes of blocks are not in this input");
    }
    if !sums.knows_watermarks {
        notes.push("watermarks are not in this input");
    }
    let notes = if notes.is_empty() {
        String::new()
    } else {
        format!("; {}", notes.join("; "))
    };
    let free = shown(sums.usable);
    let (outcome, line) = if sums.usable.low >= need.count {
        (
            Outcome::Now,
            format!("yes: {what}: {free} free now{by_zone}{notes}"),
        )
    } else if sums.total.is_some_and(|total| total < need.count) && sums.has_all() {
        let line = match sums.total {
            Some(total) if total > 0 => format!(
                "no: {what}: the memory has only {} such blocks, used ones included",
                grouped(total)
            ),
            _ => format!("no: {what}: the memory is too small for such a block"),
        };
        (Outcome::Impossible, line)
    } else if let Some((moving, dropping)) = sums.moving.zip(sums.dropping) {
        let assumed = match &state.frames {
            Some(facts) if facts.settled.is_some() => "",
            _ => "; assuming that no page is pinned",
        };
        let steps = sums.steps(moving, dropping);
        let rest = |low: u64| grouped(need.count.saturating_sub(low));
        if moving.low >= need.count {
            let rest = rest(sums.usable.low);
            (
                Outcome::ByMoving,
                format!(
                    "by moving: {what}: {free} free now{by_zone}, {rest} by moving pages{notes}{assumed}"
                ),
            )
        } else if dropping.low >= need.count {
            let rest = rest(moving.low);
            let line = format!(
                "by moving: {what}: {free} free now{by_zone}, {} after moving pages, {rest} by dropping page \
                 cache{notes}{assumed}",
                grouped(moving.low)
            );
            (Outcome::ByMoving, line)
        } else if dropping.high.is_some_and(|high| high < need.count) {
            (
                Outcome::Impossible,
                format!("no: {what}: {free} free now{by_zone}, {steps}{notes}"),
            )
        } else {
            let tells = match &state.frames {
                Some(facts) if facts.settled.is_some() => "allocating them would tell",
                _ => "allocating them would tell, or /proc/kcore if present",
            };
            (
                Outcome::Unknown,
                format!("perhaps: {what}: {free} free now{by_zone}, {steps}{notes}; {tells}"),
            )
        }
    } else if let Some(reason) = sums.too_little(state, need.count) {
        (
            Outcome::Impossible,
            format!("no: {what}: {free} free now{by_zone}, {reason}"),
        )
    } else {
        let is_short = sums.usable.high.is_some_and(|high| high < need.count);
        let reason = reason(&sums, is_short, state);
        let start = match sums.usable.value() {
            _ if !sums.missing.is_empty() => String::new(),
            Some(_) if is_short => format!(", only {free} free now{by_zone}"),
            _ => format!(", {free} free now{by_zone}"),
        };
        (
            Outcome::Unknown,
            format!(
                "unknown: {count} of {} needed{start}{notes}; {reason}",
                size::shown(sums.block_bytes)
            ),
        )
    };
    let time = state.time.as_ref();
    let line = match time.filter(|_| state.has(state::Kind::History)) {
        Some(time) => format!("{line}; at {time}"),
        None => line,
    };
    Verdict { outcome, line }
}

/// States how many large blocks an ordinary request gets. `None` if zones are missing, or the sizes of their blocks.
#[must_use]
pub fn summary(state: &State) -> Option<String> {
    let of = |bytes: u64| {
        let need = Need {
            count: 1,
            bytes,
            zone: None,
            node: None,
            is_movable: false,
        };
        sums(state, &need, |zone| {
            answer::of_zone(state, zone, need.request())
        })
    };
    let all = [2 << 20, 32 << 20, 1 << 30].map(|bytes| (bytes, of(bytes)));
    let has_tables = state.zones.iter().any(|zone| zone.blocks.is_some());
    if !has_tables || all.iter().any(|(_, sums)| !sums.has_all()) {
        return None;
    }
    let joined = |of: &dyn Fn(&Sums) -> Option<Range>| {
        let texts = all.iter().filter_map(|(bytes, sums)| {
            let count = shown(of(sums)?);
            Some(format!("{count} of {}", size::shown(*bytes)))
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    };
    let now = joined(&|sums| Some(sums.usable))?;
    let mut text = format!("Blocks for an ordinary request now: {now}");
    if let Some(after) = joined(&|sums| sums.dropping) {
        text += &format!("; after moving pages and dropping page cache: {after}");
    }
    Some(text + ".")
}

fn sums(state: &State, need: &Need, answers: impl Fn(&Zone) -> Option<answer::ZoneAnswer>) -> Sums {
    let mut sums = Sums {
        usable: Range::exact(0),
        block_bytes: need.bytes,
        room: Some(0),
        moving: None,
        dropping: None,
        never: 0,
        held: Vec::new(),
        total: Some(0),
        by_zone: Vec::new(),
        knows_types: true,
        knows_watermarks: true,
        has_mixed_types: false,
        is_above_table: false,
        is_complete: true,
        missing: Vec::new(),
    };
    let (request, mut is_first, mut lacks_zone) = (need.request(), true, false);
    let zones: Vec<&Zone> = state
        .zones
        .iter()
        .filter(|zone| need.selects(zone))
        .collect();
    for zone in &zones {
        // A zone without memory has nothing to tell.
        if !request.may_use(zone) || zone.extent.managed == Some(0) {
            continue;
        }
        lacks_zone |= request.lacks_zone(state, zone);
        let Some(zone_answer) = answers(zone) else {
            sums.missing.push(zone.extent.title());
            continue;
        };
        let Some(row) = zone_answer.rows.iter().find(|row| row.bytes >= need.bytes) else {
            continue;
        };
        sums.add(zone, row, &zone_answer, is_first);
        is_first = false;
    }
    // An excerpt of a report may lack zones. A request for one zone or node does not use the others.
    let frames = request.missing_frames(state);
    let is_whole = frames == 0 && (state.ram.is_some() || !state.has(state::Kind::Log));
    sums.is_complete = is_whole || need.zone.is_some();
    if need.zone.is_none() && need.node.is_none() && frames > 0 {
        let bytes = size::shown(frames.saturating_mul(state.frame.bytes));
        sums.missing.push(format!("other zones with {bytes}"));
    } else if lacks_zone {
        sums.missing.push("a higher zone".to_owned());
    }
    if zones.is_empty() {
        let (zone, node) = (need.zone.as_deref(), need.node);
        let node = node.map(|node| format!("node {node}"));
        let names: Vec<&str> = node.as_deref().into_iter().chain(zone).collect();
        sums.missing.push(if names.is_empty() {
            "any zone".to_owned()
        } else {
            names.join(" ")
        });
    }
    if is_first {
        sums.total = None;
    }
    sums
}

impl Sums {
    fn add(&mut self, zone: &Zone, row: &Row, zone_answer: &answer::ZoneAnswer, is_first: bool) {
        self.usable = self.usable.plus(row.usable);
        self.block_bytes = row.bytes;
        self.room = self
            .room
            .zip(zone_answer.above_watermark)
            .map(|(sum, above)| {
                // The table and the counter are of different moments.
                let drift = zone.free_frames().zip(zone.free);
                let drift = drift.map_or(0, |(one, other)| one.abs_diff(other));
                let listed = zone.listed_frames().unwrap_or(0);
                [above, drift, listed]
                    .into_iter()
                    .fold(sum, u64::saturating_add)
            });
        let joined = |sum: Option<Range>, part: Option<Range>| match (sum, part) {
            (None, part) if is_first => part,
            (Some(sum), Some(part)) => Some(sum.plus(part)),
            _ => None,
        };
        self.moving = joined(self.moving, row.moving);
        self.dropping = joined(self.dropping, row.dropping);
        self.never = self.never.saturating_add(row.never.unwrap_or(0));
        let windows = zone
            .windows
            .as_ref()
            .and_then(|windows| windows.orders.get(row.order as usize));
        for holder in windows.into_iter().flat_map(|windows| &windows.holders) {
            match self.held.iter_mut().find(|(kind, _)| *kind == holder.kind) {
                Some((_, blocks)) => *blocks += holder.blocks,
                None => self.held.push((holder.kind, holder.blocks)),
            }
        }
        self.total = self
            .total
            .zip(row.total)
            .map(|(sum, total)| sum.saturating_add(total));
        if row.usable.high != Some(0) {
            self.by_zone
                .push(format!("{} {}", zone.extent.title(), shown(row.usable)));
        }
        self.knows_types &= zone_answer.knows_types;
        self.knows_watermarks &= zone_answer.above_watermark.is_some();
        let top = zone.blocks.as_ref().map_or(0, Vec::len);
        let is_above = row.order as usize >= top;
        self.is_above_table |= is_above && row.usable.value().is_none();
        self.has_mixed_types |= !is_above && row.usable.value().is_none();
    }
}

impl Sums {
    fn has_all(&self) -> bool {
        self.is_complete && self.missing.is_empty()
    }

    /// Says that there is too little memory for the blocks, however it is moved and reclaimed, if the input shows that.
    fn too_little(&self, state: &State, count: u64) -> Option<String> {
        let (room, reclaimable) = (self.room?, Usage::of(state)?.reclaimable()?);
        let bytes = |frames: u64| frames.saturating_mul(state.frame.bytes);
        let most = bytes(room.saturating_add(reclaimable));
        if !self.has_all() || most / self.block_bytes >= count {
            return None;
        }
        Some(format!(
            "and at most {} could be: {} above the watermarks, {} by reclaiming page cache and by swapping",
            size::shown(most),
            size::shown(bytes(room)),
            size::shown(bytes(reclaimable))
        ))
    }

    /// Describes what moving and dropping give, and what holds the rest.
    fn steps(&self, moving: Range, dropping: Range) -> String {
        let most = match dropping.high {
            Some(high) if high > dropping.low => {
                format!(", at most {} with the CPUs' lists drained", grouped(high))
            }
            _ => String::new(),
        };
        let mut held = self.held.clone();
        held.sort_by_key(|(_, blocks)| std::cmp::Reverse(*blocks));
        let names: Vec<String> = held
            .iter()
            .take(3)
            .map(|(kind, blocks)| format!("{} in {}", kind.name(), grouped(*blocks)))
            .collect();
        let held = if names.is_empty() {
            String::new()
        } else {
            format!(": {}", names.join(", "))
        };
        format!(
            "{} after moving pages, {} with page cache dropped{most}; never {}{held}",
            grouped(moving.low),
            grouped(dropping.low),
            grouped(self.never)
        )
    }
}

/// Names what would decide. The files of a past moment are gone.
fn reason(sums: &Sums, is_short: bool, state: &State) -> String {
    let is_log = state.has(state::Kind::Log);
    if !sums.missing.is_empty() {
        let tells = if is_log {
            "the whole report"
        } else {
            "buddyinfo"
        };
        return format!(
            "this input has no table of {}: {tells} would tell",
            sums.missing.join(", ")
        );
    }
    let (lacks, tells) = match () {
        () if is_short => ("what moving pages gives", "kpageflags"),
        () if sums.is_above_table => ("which blocks are neighbours", "kpageflags"),
        () if !sums.knows_watermarks && is_log => return "the whole report would tell".to_owned(),
        () if !sums.knows_watermarks => return "zoneinfo would tell".to_owned(),
        () if sums.has_mixed_types => ("the classes of all blocks", "pagetypeinfo"),
        () => ("where the blocks are", "kpageflags"),
    };
    let past = [
        (is_log, "a log"),
        (state.has(state::Kind::History), "a history"),
    ];
    if let Some((_, input)) = past.iter().find(|(is_past, _)| *is_past) {
        return format!("{input} does not show {lacks}");
    }
    format!("this input does not show {lacks}: {tells} (as root) would")
}

/// Writes a range.
#[must_use]
pub fn shown(range: Range) -> String {
    match (range.value(), range.high) {
        (Some(value), _) => grouped(value),
        (None, Some(high)) => format!("{} to {}", grouped(range.low), grouped(high)),
        (None, None) => format!("{} or more", grouped(range.low)),
    }
}
