//! `everybuddy trace cut`: extracts a part of a trace.
//!
//! Restricts a long recording to one phase or one program.
//!
//! # Invariants
//! The result replays by itself; the original trace is not changed, and no trace is replaced without `--force`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use everybuddy_trace::{Cut, CutReport, Processes, Trace, cut, shown};

use super::numbers::at_least_one;
use super::trace_file::read;
use crate::export::write_trace;
use crate::show::output;
use crate::time::Time;
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::size::count;

/// Extract a part of a trace by time, number, thread, process or program.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/trace_cut.txt"))]
pub(super) struct Arguments {
    /// Cut this trace: a file, or the name of a bundled trace
    #[arg(value_name = "TRACE")]
    trace: String,

    /// Write the result to this file
    #[arg(short, long, value_name = "TRACE.parquet")]
    output: PathBuf,

    /// Keep calls from this time on, such as 1.5s, 200ms, 30us or 400ns
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,

    /// Keep calls before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Time>,

    /// Keep at most N calls
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    first: Option<u64>,

    /// Keep rows A to B of the trace, excluding B
    #[arg(long, value_name = "A..B", value_parser = rows)]
    events: Option<Range<usize>>,

    /// Keep the allocations of this thread
    #[arg(long, value_name = "TID", group = "who")]
    task: Option<u32>,

    /// Keep the allocations of this process's threads
    #[arg(long, value_name = "TGID", group = "who")]
    process: Option<u32>,

    /// Keep the allocations of this program's processes
    #[arg(long, value_name = "NAME", group = "who")]
    program: Option<String>,

    /// Keep original timestamps
    #[arg(long)]
    keep_time: bool,

    /// Repair an invalid trace and report the repairs
    #[arg(long)]
    lenient: bool,

    /// Replace an existing trace
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    library::check_output(
        &arguments.output,
        library::file(&arguments.trace)?.as_deref(),
    )?;
    library::check_replaced(&arguments.output, arguments.force)?;
    let trace = read(&arguments.trace, arguments.lenient)?;
    let asked = Cut {
        from_ns: arguments.from.map(|time| time.nanos),
        to_ns: arguments.to.map(|time| time.nanos),
        events: arguments.events.clone(),
        first: arguments
            .first
            .map(|first| usize::try_from(first).unwrap_or(usize::MAX)),
        tasks: tasks(&arguments, &trace)?,
        keeps_time: arguments.keep_time,
    };
    let (part, report) = cut(&trace, &asked)?;
    if part.events.is_empty() {
        let last = trace.events.last().map_or(0, |event| event.time_ns);
        return Err(Error::usage(format!(
            "trace {}: the selection is empty ({} calls in {})\nhelp: select a larger part",
            trace.name,
            count(report.before),
            Time { nanos: last },
        )));
    }
    write_trace(&part, &arguments.output)?;
    output::text(&format!(
        "{}: {} of {} calls\n",
        shown(&arguments.output),
        count(report.kept),
        count(report.before)
    ))?;
    report_removed(&report);
    Ok(())
}

/// Returns the selected threads, or `None` if no thread was selected.
fn tasks(arguments: &Arguments, trace: &Trace) -> Result<Option<BTreeSet<u32>>, Error> {
    let processes = || Processes::of(trace);
    if let Some(task) = arguments.task {
        return Ok(Some(BTreeSet::from([task])));
    }
    if let Some(tgid) = arguments.process {
        let mut tasks = processes().map_or_else(BTreeSet::new, |processes| processes.threads(tgid));
        // The first thread of a process has its number, whether or not the trace lists the others.
        tasks.insert(tgid);
        return Ok(Some(tasks));
    }
    let Some(program) = &arguments.program else {
        return Ok(None);
    };
    let Some(processes) = processes() else {
        return Err(Error::usage(format!(
            "trace {} does not contain program names\nhelp: select by --task or --process",
            trace.name
        )));
    };
    let tasks = processes.of_program(program);
    if tasks.is_empty() {
        let known = processes.programs();
        let shown: Vec<&str> = known.iter().take(12).copied().collect();
        let more = if known.len() > shown.len() {
            ", ..."
        } else {
            ""
        };
        return Err(Error::usage(format!(
            "trace {}: program `{program}` not found\nhelp: the programs are {}{more}",
            trace.name,
            shown.join(", ")
        )));
    }
    Ok(Some(tasks))
}

/// Parses `A..B`; either end may be omitted.
fn rows(text: &str) -> Result<Range<usize>, String> {
    let refuse = || {
        format!("`{text}` is not a range of rows; write a range such as 1000..2000, ..500 or 500..")
    };
    let (from, to) = text.split_once("..").ok_or_else(refuse)?;
    let number = |text: &str, default: usize| match text {
        "" => Ok(default),
        text => text.parse().map_err(|_| refuse()),
    };
    let rows = number(from, 0)?..number(to, usize::MAX)?;
    if rows.is_empty() {
        Err(format!("`{text}` is an empty range"))
    } else {
        Ok(rows)
    }
}

/// Reports what was removed.
fn report_removed(report: &CutReport) {
    #[rustfmt::skip]
    let cases = [
        (report.outside, "calls outside the selection"),
        (report.others, "allocations of other threads"),
        (report.frees_of_others, "frees of blocks that were allocated outside the cut"),
        (report.faults_dropped, "faults of removed allocations"),
        (report.regions_dropped, "address regions without calls"),
        (report.acquisitions_dropped, "acquisitions of a zone's lock outside the cut"),
    ];
    for (value, meaning) in cases {
        if value > 0 {
            output::note(&format!("removed: {} {meaning}", count(value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        assert_eq!(rows("3..5"), Ok(3..5));
        assert_eq!(rows("..5"), Ok(0..5));
        assert_eq!(rows("3.."), Ok(3..usize::MAX));
        for text in ["", "3", "5..3", "a..b", "3..3"] {
            assert!(rows(text).is_err(), "{text}");
        }
    }
}
