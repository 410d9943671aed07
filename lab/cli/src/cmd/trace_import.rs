//! `everybuddy trace import`: converts a recording of another tool to a trace.
//!
//! An existing recording, or one made with installed tools, can be replayed.
//!
//! # Invariants
//! Lost, skipped, unrecognized and omitted events are reported on standard error. No trace is replaced without
//! `--force`.

use everybuddy_trace::{WaitsOnly, shown};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use everybuddy_record::{
    Accounts, Functions, ImportError, ImportOptions, Imported, Scope, Source, import_file,
    import_stream,
};

use super::trace_file::leniency;

use crate::export::write_trace;
use crate::show::{output, progress};
use everybuddy_measure::Error;
use everybuddy_measure::library;
use everybuddy_measure::size::count;

/// Convert a recording of perf, ftrace or trace-cmd, or CSV, to a trace.
#[derive(Debug, Args)]
#[command(after_help = include_str!("help/trace_import.txt"))]
pub(super) struct Arguments {
    /// Import this recording: a file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write the trace here [default: FILE.parquet]
    #[arg(short, long, value_name = "TRACE.parquet")]
    output: Option<PathBuf>,

    /// Set the format: perf-data, perf-script, ftrace, trace-cmd or csv
    #[arg(long, value_name = "KIND")]
    from: Option<Source>,

    /// Keep only the allocations of this process and its descendants
    #[arg(long, value_name = "PID")]
    tree: Option<u32>,

    /// Name the address of a zone's lock as the recording prints it
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    zone_lock: Vec<u64>,

    /// Name functions in chains of perf.data by a copy of /proc/kallsyms
    #[arg(long, value_name = "SYMBOLS")]
    kallsyms: Option<PathBuf>,

    /// Repair invalid CSV and report the repairs
    #[arg(long)]
    lenient: bool,

    /// Replace an existing trace
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let path = place(&arguments)?;
    library::check_output(&path, Some(&arguments.file))?;
    library::check_replaced(&path, arguments.force)?;
    let functions = match &arguments.kallsyms {
        None => Functions::default(),
        Some(symbols) => {
            library::check_output(&path, Some(symbols))?;
            Functions::read(symbols).map_err(Error::recording)?
        }
    };
    let options = ImportOptions {
        source: arguments.from,
        scope: arguments
            .tree
            .map_or(Scope::Everything, |root| Scope::Tree { root }),
        leniency: leniency(arguments.lenient),
        zone_locks: arguments.zone_lock.clone(),
        functions,
    };
    let imported = if is_input(&arguments.file) {
        import_stream(io::stdin().lock(), "standard input", options).map_err(Error::recording)?
    } else {
        let file = &arguments.file;
        let input = File::open(file).map_err(|error| ImportError::Io {
            file: file.clone(),
            error,
        });
        let input = input.map_err(Error::recording)?;
        import_file(progress::watched(input), file, options).map_err(Error::recording)?
    };
    report(&imported, &arguments);
    write_trace(&imported.trace, &path)?;
    if WaitsOnly::of(&imported.trace).is_some() {
        let waits = count(imported.trace.acquisitions.len() as u64);
        return output::text(&format!(
            "{}: no calls, {waits} waits for a zone's lock\n",
            shown(&path)
        ));
    }
    let (calls, faults) = (imported.trace.events.len(), imported.trace.faults.len());
    let locks = match imported.trace.acquisitions.len() {
        0 => String::new(),
        some => format!(", {} acquisitions of a zone's lock", count(some as u64)),
    };
    output::text(&format!(
        "{}: {} calls, {} with known faults{locks}\n",
        shown(&path),
        count(calls as u64),
        count(faults as u64)
    ))
}

fn is_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Parses an address of the kernel.
fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| {
        format!("`{text}` is not an address; write hexadecimal digits such as ffff88813fffa5c0")
    })
}

/// Returns the path of the trace.
fn place(arguments: &Arguments) -> Result<PathBuf, Error> {
    match (&arguments.output, arguments.file.file_stem()) {
        (Some(path), _) => Ok(path.clone()),
        (None, Some(name)) if !is_input(&arguments.file) => {
            let mut name = name.to_os_string();
            name.push(".parquet");
            Ok(PathBuf::from(name))
        }
        _ => Err(Error::usage(
            "standard input has no name\nhelp: name the trace with -o TRACE.parquet",
        )),
    }
}

/// Reports what was read and what was not.
fn report(imported: &Imported, arguments: &Arguments) {
    let log = &imported.log;
    output::note(&log.to_string());
    for (place, what) in &log.complaints {
        output::note(&format!(
            "not recognized, {} {place}: {what}",
            log.place_name()
        ));
    }
    for remark in &log.remarks {
        output::note(remark);
    }
    let left_out = imported.accounts.iter().flat_map(Accounts::left_out);
    for (meaning, value) in left_out {
        output::note(&format!("{} {meaning}", count(value)));
    }
    let advice = advice(log.chains, imported.accounts.as_ref(), arguments);
    advice.iter().for_each(|own| output::note(own));
    if !imported.repairs.is_empty() {
        output::note(&format!("repaired: {}", imported.repairs));
    }
}

/// Returns what else the import needs to find the zone's lock, from the number of call chains that contain addresses.
fn advice(chains: u64, accounts: Option<&Accounts>, arguments: &Arguments) -> Vec<String> {
    let mut advice = Vec::new();
    if arguments.kallsyms.is_some() && chains == 0 {
        advice.push(
            "--kallsyms was not used: no lock wait has a call chain of addresses (record perf.data with perf record -g)"
                .to_string(),
        );
    }
    // Both are 0 if the recording also contains events about the zone's lock itself.
    let (unknown, others) = accounts.map_or((0, 0), |accounts| {
        (accounts.waits_of_unknown_locks, accounts.waits_for_others)
    });
    let is_named = arguments.kallsyms.is_some() || !arguments.zone_lock.is_empty();
    if chains > 0 && unknown + others > 0 && !is_named {
        advice.push(format!(
            "the {} call chains of waits for locks cannot be interpreted without the kernel's symbols: copy \
             /proc/kallsyms as root while the same kernel runs, or use its System.map, and import with --kallsyms; or \
             name the address of the zone's lock with --zone-lock",
            count(chains)
        ));
    } else if unknown > 0 {
        advice.push(
            "to find the zone's lock among them, record call chains (perf record -g, and import with --kallsyms; or \
             ftrace's trigger `stacktrace` of lock:contention_end), or name its address with --zone-lock"
                .to_string(),
        );
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_depends_on_what_is_missing() {
        let advice = |chains, [unknown, others]: [u64; 2], kallsyms: bool, zone_lock: &[u64]| {
            let accounts = Accounts {
                waits_of_unknown_locks: unknown,
                waits_for_others: others,
                ..Accounts::default()
            };
            let arguments = Arguments {
                file: "perf.data".into(),
                output: None,
                from: None,
                tree: None,
                zone_lock: zone_lock.to_vec(),
                kallsyms: kallsyms.then(|| "symbols".into()),
                lenient: false,
                force: false,
            };
            let all = advice(chains, Some(&accounts), &arguments);
            let words = ["not used", "cannot be interpreted", "record call chains"];
            words.map(|word| all.iter().any(|own| own.contains(word)))
        };
        let (interpret, record) = ([false, true, false], [false, false, true]);
        assert_eq!(advice(0, [5, 0], false, &[]), record);
        assert_eq!(advice(9, [5, 0], false, &[]), interpret);
        assert_eq!(advice(9, [0, 5], false, &[]), interpret);
        assert_eq!(advice(9, [0, 5], false, &[7]), [false; 3]);
        assert_eq!(advice(9, [0, 5], true, &[]), [false; 3]);
        // Some waits have no chain.
        assert_eq!(advice(9, [5, 0], true, &[]), record);
        assert_eq!(advice(0, [5, 0], true, &[]), [true, false, true]);
        // The chains are those of mutexes, or other events describe the same waits.
        assert_eq!(advice(9, [0, 0], false, &[]), [false; 3]);
    }
}
