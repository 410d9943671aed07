//! Exports traces as text for other programs: CSV, and the output format of `perf script`.
//!
//! Programs without Parquet support can read a trace, and tools that read perf's text can process it.
//!
//! # Invariants
//! The import of `everybuddy-record` reads both formats back. CSV preserves every column; perf's text preserves every
//! call (time, CPU, thread, frame, order, mobility, flags).

use std::io::{self, BufWriter, Write};
use std::str::FromStr;

use crate::by_name;
use crate::model::{Event, Fault, Op, Trace};
use crate::named;

/// The columns of CSV, in the order in which they are written; the first six are required.
#[rustfmt::skip]
pub const CSV_COLUMNS: [&str; 14] = [
    "time_ns", "cpu", "pid", "op", "pfn", "order", "migratetype", "gfp", "ctx", "sysno", "flags",
    "vpn", "vma", "fault",
];

named! {
    /// A text format.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ExportFormat {
        /// Comma-separated values, one row per call, after a header line: the columns of the trace and of its faults.
        Csv => "csv",
        /// The lines of `perf script --ns`: calls of the allocator only.
        PerfScript => "perf-script",
    }
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<ExportFormat, String> {
        by_name(text, ["format", "formats"], &Self::ALL, Self::name)
    }
}

/// Exports a trace as text.
///
/// # Complexity
///
/// About 0.5 us per event.
///
/// # Errors
///
/// Returns any error of `out`, which then contains a part of the text.
pub fn export(trace: &Trace, format: ExportFormat, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    match format {
        ExportFormat::Csv => write_csv(trace, &mut out)?,
        ExportFormat::PerfScript => {
            for event in &trace.events {
                write_line(event, &mut out)?;
            }
        }
    }
    out.flush()
}

fn write_csv(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", CSV_COLUMNS.join(","))?;
    let mut faults = trace.faults.iter().peekable();
    for (row, event) in trace.events.iter().enumerate() {
        write!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{}",
            event.time_ns,
            event.cpu,
            event.pid,
            event.op as u8,
            event.pfn,
            event.order,
            event.migratetype,
            event.gfp,
            event.context,
            event.sysno,
            event.flags.0,
        )?;
        match faults.next_if(|fault| fault.row as usize == row) {
            Some(fault) => {
                let (vpn, number, sequence) = (fault.vpn, number_of(fault, trace), fault.sequence);
                writeln!(out, ",{vpn},{number},{sequence}")?;
            }
            None => writeln!(out, ",,,")?,
        }
    }
    Ok(())
}

fn number_of(fault: &Fault, trace: &Trace) -> u64 {
    let region = fault.region.and_then(|id| trace.region(id));
    region.map_or(0, |region| region.number)
}

fn write_line(event: &Event, out: &mut impl Write) -> io::Result<()> {
    let (seconds, nanos) = (event.time_ns / 1_000_000_000, event.time_ns % 1_000_000_000);
    let (pid, cpu, pfn, order) = (event.pid, event.cpu, event.pfn, event.order);
    // perf writes a thread with an unknown name as a colon and its number.
    write!(
        out,
        "{:>16} {pid:>7} [{cpu:03}] {seconds}.{nanos:09}: ",
        format!(":{pid}")
    )?;
    match event.op {
        Op::Allocate => writeln!(
            out,
            "kmem:mm_page_alloc: pfn={pfn:#x} order={order} migratetype={} gfp_flags={:#x}",
            event.migratetype, event.gfp
        ),
        Op::Free => writeln!(out, "kmem:mm_page_free: pfn={pfn:#x} order={order}"),
    }
}
