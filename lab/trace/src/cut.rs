//! Extracts a part of a trace.
//!
//! A long recording contains more than one question needs: select one phase, one program, or the first million calls.
//!
//! # Invariants
//! The result replays by itself. It contains exactly the selected allocations and the frees of their blocks within
//! the cut; nothing is added. A cut that selects everything is the trace itself.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::check::Ledger;
use crate::error::TraceError;
use crate::model::{Acquisition, Op, RegionId, Trace};

/// The selection: calls that satisfy all given conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Start time (inclusive), in nanoseconds of the trace.
    pub from_ns: Option<u64>,
    /// End time (exclusive), in nanoseconds of the trace.
    pub to_ns: Option<u64>,
    /// Rows of the trace, counted from 0, without the end.
    pub events: Option<Range<usize>>,
    /// The maximum number of calls, counted from the first selected call.
    pub first: Option<usize>,
    /// Threads whose allocations are selected. Frees of their blocks are kept, whichever thread makes them.
    pub tasks: Option<BTreeSet<u32>>,
    /// Whether calls keep their original timestamps, instead of counting from the start of the cut.
    pub keeps_time: bool,
}

/// The number of calls, faults and regions that a cut removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutReport {
    /// Calls of the original trace.
    pub before: u64,
    /// Calls that were kept.
    pub kept: u64,
    /// Calls outside the selected times, rows or number.
    pub outside: u64,
    /// Allocations of other threads within the selection.
    pub others: u64,
    /// Frees, within the selection, of blocks that were allocated outside it or by other threads.
    pub frees_of_others: u64,
    /// Faults that were removed with their allocations.
    pub faults_dropped: u64,
    /// Address regions that contain no remaining call or fault.
    pub regions_dropped: u64,
    /// Acquisitions of a zone's lock outside the selected times, or of other threads.
    pub acquisitions_dropped: u64,
}

/// Extracts a part of a trace.
///
/// Frees keep their flags; faults, regions and metadata follow the calls. Acquisitions of a zone's lock are kept if
/// their thread is selected and the lock was acquired within the selected times or, for a selection by rows or number,
/// between the first and the last remaining call. If anything was removed, the metadata `cut`
/// records the selection, and `stats`, which describes the whole trace, is dropped. The result may be empty.
///
/// # Complexity
///
/// About 0.1 us per event of the trace.
///
/// # Errors
///
/// Returns the first event that breaks a rule. Never fails for a trace from [`read`](crate::read()).
pub fn cut(trace: &Trace, cut: &Cut) -> Result<(Trace, CutReport), TraceError> {
    let mut report = CutReport {
        before: trace.events.len() as u64,
        ..CutReport::default()
    };
    let kept = choose(trace, cut, &mut report)?;
    report.kept = kept.len() as u64;
    if kept.len() == trace.events.len() {
        let mut whole = trace.clone();
        whole.acquisitions = keep_acquisitions(trace, cut, &kept, 0, &mut report);
        shift(&mut whole, cut, 0);
        return Ok((whole, report));
    }
    let mut part = Trace {
        name: trace.name.clone(),
        events: kept.iter().map(|row| trace.events[*row]).collect(),
        regions: Vec::new(),
        faults: Vec::new(),
        acquisitions: Vec::new(),
        metadata: trace.metadata.clone(),
    };
    for fault in &trace.faults {
        match kept.binary_search(&(fault.row as usize)) {
            Ok(row) => part.faults.push(crate::model::Fault {
                row: row as u32,
                ..*fault
            }),
            Err(_) => report.faults_dropped += 1,
        }
    }
    keep_regions(trace, &mut part);
    report.regions_dropped = (trace.regions.len() - part.regions.len()) as u64;
    // Time is counted from the start of the trace unless something before the cut was removed.
    let begin = match kept.first() {
        Some(first) if *first > 0 => trace.events[*first].time_ns,
        _ => 0,
    };
    part.acquisitions = keep_acquisitions(trace, cut, &kept, begin, &mut report);
    let begin_ns = shift(&mut part, cut, begin);
    part.metadata.retain(|(key, _)| key != "stats");
    let said = describe(cut, &report, begin_ns);
    part.metadata.push(("cut".to_string(), said));
    Ok((part, report))
}

/// Returns the rows that are kept.
fn choose(trace: &Trace, cut: &Cut, report: &mut CutReport) -> Result<Vec<usize>, TraceError> {
    let broken = |(row, problem)| {
        TraceError::new(std::path::Path::new(&trace.name), Some(row as u64), problem)
    };
    let mut ledger = Ledger::new(&trace.events).map_err(broken)?;
    let mut is_kept = Vec::new();
    let mut kept = Vec::new();
    let most = cut.first.unwrap_or(usize::MAX);
    for (row, event) in trace.events.iter().enumerate() {
        let applied = ledger
            .apply(row, event)
            .map_err(|problem| broken((row, problem as crate::error::Problem)))?;
        let is_within = cut.from_ns.is_none_or(|from| event.time_ns >= from)
            && cut.to_ns.is_none_or(|to| event.time_ns < to)
            && cut.events.as_ref().is_none_or(|rows| rows.contains(&row))
            && kept.len() < most;
        let is_asked_for = match event.op {
            Op::Allocate => {
                let tasks = cut.tasks.as_ref();
                let is_own = tasks.is_none_or(|tasks| tasks.contains(&event.pid));
                report.others += u64::from(is_within && !is_own);
                // Blocks are numbered in the order of their allocations.
                is_kept.push(is_within && is_own);
                is_own
            }
            Op::Free => {
                let has_block = is_kept[applied.block as usize];
                report.frees_of_others += u64::from(is_within && !has_block);
                has_block
            }
        };
        report.outside += u64::from(!is_within);
        if is_within && is_asked_for {
            kept.push(row);
        }
    }
    Ok(kept)
}

/// Keeps the regions of the remaining calls and faults.
fn keep_regions(trace: &Trace, part: &mut Trace) {
    let mut places: Vec<Option<RegionId>> = vec![None; trace.regions.len()];
    let used: BTreeSet<RegionId> = part
        .events
        .iter()
        .filter_map(|event| event.region)
        .chain(part.faults.iter().filter_map(|fault| fault.region))
        .collect();
    for id in used {
        if let Some(region) = trace.region(id) {
            places[id.index()] = RegionId::from_index(part.regions.len());
            part.regions.push(*region);
        }
    }
    let place = |id: RegionId| places.get(id.index()).copied().flatten();
    for event in &mut part.events {
        event.region = event.region.and_then(place);
    }
    for fault in &mut part.faults {
        fault.region = fault.region.and_then(place);
    }
}

/// Returns the acquisitions that belong to the cut. None is before `begin_ns`, from which time is counted.
fn keep_acquisitions(
    trace: &Trace,
    cut: &Cut,
    kept: &[usize],
    begin_ns: u64,
    report: &mut CutReport,
) -> Vec<Acquisition> {
    let is_by_rows = cut.events.is_some() || cut.first.is_some();
    let ends = (kept.first().zip(kept.last())).filter(|_| is_by_rows);
    let ends = ends.map(|(first, last)| [*first, *last].map(|row| trace.events[row].time_ns));
    let is_kept = |own: &&Acquisition| {
        let time = own.time_ns;
        cut.from_ns.is_none_or(|from| time >= from)
            && cut.to_ns.is_none_or(|to| time < to)
            && ends.is_none_or(|[first, last]| (first..=last).contains(&time))
            && (cut.tasks.as_ref()).is_none_or(|tasks| tasks.contains(&own.pid))
            && time >= begin_ns
    };
    let acquisitions: Vec<_> = trace.acquisitions.iter().filter(is_kept).copied().collect();
    report.acquisitions_dropped = (trace.acquisitions.len() - acquisitions.len()) as u64;
    acquisitions
}

/// Shifts the timestamps to the start of the cut; returns that start on the clock of the trace.
fn shift(part: &mut Trace, cut: &Cut, begin_ns: u64) -> u64 {
    let begin_ns = if cut.keeps_time {
        0
    } else {
        cut.from_ns.unwrap_or(begin_ns)
    };
    for event in &mut part.events {
        event.time_ns = event.time_ns.saturating_sub(begin_ns);
    }
    for region in &mut part.regions {
        region.created_ns = region.created_ns.saturating_sub(begin_ns);
    }
    for own in &mut part.acquisitions {
        own.time_ns = own.time_ns.saturating_sub(begin_ns);
    }
    begin_ns
}

/// Describes the selection as JSON.
fn describe(cut: &Cut, report: &CutReport, begin_ns: u64) -> String {
    let mut said = format!("{{\"calls\":{},\"kept\":{}", report.before, report.kept);
    let mut say = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            said += &format!(",\"{name}\":{value}");
        }
    };
    say("begin_ns", Some(begin_ns.to_string()));
    say("from_ns", cut.from_ns.map(|time| time.to_string()));
    say("to_ns", cut.to_ns.map(|time| time.to_string()));
    say(
        "rows",
        cut.events
            .as_ref()
            .map(|rows| format!("[{},{}]", rows.start, rows.end)),
    );
    say("first", cut.first.map(|first| first.to_string()));
    say(
        "tasks",
        cut.tasks.as_ref().map(|tasks| {
            let tasks: Vec<String> = tasks.iter().map(u32::to_string).collect();
            format!("[{}]", tasks.join(","))
        }),
    );
    said + "}"
}
