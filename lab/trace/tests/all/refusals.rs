//! Each thing that can be wrong is refused, with its file and row, in words that help.

use std::path::Path;

use crate::common::{Column, Scratch, acquisition, allocate, foreign, foreign_groups, free, trace};
use everybuddy_trace::{
    AddressRegion, Event, Fault, Leniency, Op, Problem, Repair, Repairs, Trace, TraceError, read,
    resolve, write,
};
use parquet::basic::Compression;

/// Writes a trace and reads it: the error of strict reading, the report of lenient reading.
fn refused(made: &Trace) -> (TraceError, Trace, Repairs) {
    let (_scratch, path) = crate::common::made();
    write(made, &path).unwrap();
    let error = read(&path, Leniency::Strict).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("made"), "{message}");
    assert!(message.contains("--lenient"), "{message}");
    let (repaired, repairs) = read(&path, Leniency::Lenient).unwrap();
    resolve(&repaired).unwrap();
    (error, repaired, repairs)
}

fn refused_events(events: &[Event]) -> (TraceError, Vec<Event>, Repairs) {
    let made = trace(events);
    let in_memory = resolve(&made).unwrap_err();
    let (error, repaired, repairs) = refused(&made);
    assert_eq!(in_memory.row, error.row);
    assert_eq!(in_memory.problem.to_string(), error.problem.to_string());
    (error, repaired.events, repairs)
}

fn only(repairs: &Repairs, repair: Repair, count: u64) {
    assert_eq!(repairs.iter().collect::<Vec<_>>(), [(repair, count)]);
}

fn file_error(path: &Path) -> TraceError {
    let error = read(path, Leniency::Strict).unwrap_err();
    let lenient = read(path, Leniency::Lenient).unwrap_err();
    assert_eq!(error.to_string(), lenient.to_string());
    assert!(error.to_string().starts_with(&path.display().to_string()));
    error
}

#[test]
fn files_that_are_no_traces() {
    let (_scratch, path) = crate::common::made();
    is!(file_error(&path), None => Problem::Io(_));
    is!(file_error(path.parent().unwrap()), None => Problem::Io(_) | Problem::NotParquet(_));
    std::fs::write(&path, b"").unwrap();
    is!(file_error(&path), None => Problem::Empty);
    for bytes in [&[0; 5000][..], b"time_ns,cpu,pid\n1,2,3\n"] {
        std::fs::write(&path, bytes).unwrap();
        is!(file_error(&path), None => Problem::NotParquet(_));
    }
    write(&trace(&[]), &path).unwrap();
    is!(file_error(&path), None => Problem::NoRows);
}

#[test]
fn a_trace_in_a_missing_directory_is_refused_by_its_own_name() {
    let scratch = Scratch::new();
    let path = scratch.path("missing").join("made.parquet");
    let error = write(&trace(&[]), &path).unwrap_err();
    is!(error, None => Problem::NoDirectory);
    assert_eq!(error.file, path);
}

#[test]
fn missing_columns_are_all_named() {
    let (_scratch, path) = crate::common::made();
    let columns = vec![Column::Int64(vec![1]), Column::Int32(vec![1])];
    let schema = "required int64 time_ns; required int32 cpu;";
    foreign(&path, schema, Compression::UNCOMPRESSED, columns);
    let message = file_error(&path).to_string();
    assert!(
        message.contains("missing columns pid, op, pfn, order (required: time_ns, cpu, pid"),
        "{message}"
    );
}

/// Two events per frame, repeated: the file stays small, whatever the number of rows.
#[test]
fn more_rows_than_bytes() {
    let (_scratch, path) = crate::common::made();
    let schema = "required int64 time_ns; required int32 cpu; required int32 pid; \
                  required int32 op; required int64 pfn; required int32 order;";
    let rows = 1 << 16;
    let narrow = |value: i32| Column::Int32(vec![value; rows]);
    let columns = [
        Column::Int64(vec![1; rows]),
        narrow(0),
        narrow(1),
        Column::Int32([0, 1].repeat(rows / 2)),
        Column::Int64(vec![8; rows]),
        narrow(0),
    ];
    let none = Compression::UNCOMPRESSED;
    foreign_groups(&path, schema, none, 2, &columns);
    assert_eq!(
        read(&path, Leniency::Strict).unwrap().0.events.len(),
        2 * rows
    );
    foreign_groups(&path, schema, none, 65, &columns);
    is!(file_error(&path), None => Problem::TooDense { rows: 4_259_840, .. });
}

#[test]
fn unknown_op() {
    let (_scratch, path) = crate::common::made();
    let schema = "required int64 time_ns; required int32 cpu; required int32 pid; \
                  required int32 op; required int64 pfn; required int32 order;";
    let narrow = |values: [i32; 3]| Column::Int32(values.to_vec());
    let columns = vec![
        Column::Int64(vec![1, 2, 3]),
        narrow([0, 0, 0]),
        narrow([1, 1, 1]),
        narrow([0, 2, 1]),
        Column::Int64(vec![8, 8, 8]),
        narrow([0, 0, 0]),
    ];
    foreign(&path, schema, Compression::UNCOMPRESSED, columns);
    let error = read(&path, Leniency::Strict).unwrap_err();
    is!(error, Some(1) => Problem::UnknownOp(2));
    let (repaired, repairs) = read(&path, Leniency::Lenient).unwrap();
    assert_eq!(repaired.events.len(), 2);
    only(&repairs, Repair::UnknownOp, 1);
}

#[test]
fn unknown_order() {
    let (error, events, repairs) = refused_events(&[allocate(1, 0, 0), allocate(2, 0, 19)]);
    is!(error, Some(1) => Problem::UnknownOrder(19));
    assert_eq!(events.len(), 1);
    only(&repairs, Repair::UnknownOrder, 1);
}

#[test]
fn misaligned_frame() {
    let (error, _, repairs) = refused_events(&[allocate(1, 8, 3), allocate(2, 18, 2)]);
    is!(error, Some(1) => Problem::Misaligned { pfn: 18, order: 2 });
    only(&repairs, Repair::Misaligned, 1);
}

#[test]
fn time_that_runs_back() {
    let rows = [allocate(5, 8, 3), free(9, 8, 3), allocate(7, 1, 0)];
    let (error, events, repairs) = refused_events(&rows);
    is!(error, Some(2) => Problem::TimeRunsBack { time_ns: 7, before_ns: 9 });
    assert_eq!(events, [rows[0], rows[2], rows[1]]);
    only(&repairs, Repair::Sorted, 1);
}

#[test]
fn allocation_of_a_live_frame() {
    let rows = [allocate(1, 8, 3), free(2, 8, 1), allocate(3, 14, 0)];
    let (error, events, repairs) = refused_events(&rows);
    is!(error, Some(2) => Problem::DoubleAllocation { pfn: 14, earlier: 0 });
    let added = [&events[2], &events[3]].map(|free| (free.op, free.pfn, free.order));
    assert_eq!(added, [(Op::Free, 10, 1), (Op::Free, 12, 2)]);
    assert_eq!((events[2].flags.0, events[3].flags.0), (2 | 8, 2 | 4 | 8));
    only(&repairs, Repair::FreeAdded, 2);
}

#[test]
fn free_without_allocation() {
    let (error, events, repairs) = refused_events(&[allocate(1, 8, 0), free(2, 0x1f3, 0)]);
    is!(error, Some(1) => Problem::FreeWithoutAllocation { pfn: 0x1f3 });
    let message = ", row 1: free of frame 0x1f3, which was never allocated\nhelp: ";
    assert!(error.to_string().contains(message));
    assert_eq!(events.len(), 1);
    only(&repairs, Repair::FreeWithoutAllocation, 1);
}

#[test]
fn free_of_a_dead_block_or_part() {
    let rows = [allocate(1, 8, 2), free(2, 10, 0), free(3, 8, 2)];
    let (error, _, repairs) = refused_events(&rows);
    is!(error, Some(2) => Problem::DoubleFree { pfn: 10, allocated: 0, freed: 1 });
    only(&repairs, Repair::DoubleFree, 1);
    let (error, ..) = refused_events(&[allocate(1, 8, 2), free(2, 8, 2), free(3, 8, 2)]);
    is!(error, Some(2) => Problem::DoubleFree { pfn: 8, allocated: 0, freed: 1 });
}

#[test]
fn free_larger_than_its_block() {
    let (error, events, repairs) = refused_events(&[allocate(1, 8, 2), free(2, 8, 3)]);
    is!(error, Some(1) => Problem::FreeLargerThanBlock { pfn: 8, order: 3, block_order: 2, allocated: 0 });
    assert_eq!(events[1].order, 2);
    only(&repairs, Repair::FreeCut, 1);
}

#[test]
fn frames_too_far_apart() {
    let largest = (1u64 << 32) - (1 << 24);
    let near = [
        allocate(1, 1 << 40, 0),
        allocate(2, (1 << 40) + largest - 1, 0),
    ];
    assert_eq!(resolve(&trace(&near)).unwrap().blocks, 2);
    let rows = [
        allocate(1, 100, 0),
        allocate(2, 100 + largest, 0),
        free(3, 100, 0),
    ];
    let (error, events, repairs) = refused_events(&rows);
    is!(error, Some(1) => Problem::Span { first: 100, .. });
    assert_eq!(events.len(), 2);
    only(&repairs, Repair::Span, 1);
}

/// A trace of two allocations and a free, with the given faults in region 0.
fn with_faults(rows: &[u32]) -> Trace {
    let mut made = trace(&[allocate(1, 1, 0), allocate(2, 2, 0), free(3, 1, 0)]);
    made.regions = vec![AddressRegion::unknown(4)];
    let region = everybuddy_trace::RegionId::from_index(0);
    let fault = |row: &u32| Fault {
        row: *row,
        vpn: 5,
        region,
        sequence: 1,
    };
    made.faults = rows.iter().map(fault).collect();
    made
}

#[test]
fn faults_of_no_allocation() {
    let (error, repaired, repairs) = refused(&with_faults(&[0, 3]));
    is!(error, Some(1) => Problem::FaultBeyondEnd { row: 3, events: 3 });
    assert!(error.file.ends_with("made.faults.parquet"));
    assert_eq!(repaired.faults.len(), 1);
    only(&repairs, Repair::FaultDropped, 1);
    let (error, ..) = refused(&with_faults(&[0, 2]));
    is!(error, Some(1) => Problem::FaultOfFree { row: 2 });
    let (error, ..) = refused(&with_faults(&[1, 0, 1]));
    is!(error, Some(2) => Problem::FaultTwice { row: 1 });
}

#[test]
fn regions_that_nobody_described() {
    let (scratch, path) = crate::common::made();
    // The files of another program, which have no identity.
    let foreign_columns = |file: &str, columns: &[(&str, [i64; 3])]| {
        let schema: Vec<String> = columns
            .iter()
            .map(|(name, _)| format!("required int64 {name};"))
            .collect();
        let values = columns.iter().map(|(_, own)| Column::Int64(own.to_vec()));
        let (path, values) = (scratch.path(file), values.collect());
        foreign(&path, &schema.join(" "), Compression::UNCOMPRESSED, values);
    };
    foreign_columns(
        "made.parquet",
        &[
            ("time_ns", [1, 2, 3]),
            ("cpu", [0; 3]),
            ("pid", [7; 3]),
            ("op", [0, 0, 1]),
            ("pfn", [1, 2, 1]),
            ("order", [0; 3]),
        ],
    );
    let faults = scratch.path("made.faults.parquet");
    let columns = [vec![0, 1], vec![5, 5], vec![4, 4]].map(Column::Int64);
    let schema = "required int64 row; required int64 vpn; required int64 vma;";
    foreign(&faults, schema, Compression::UNCOMPRESSED, columns.into());
    let table = scratch.path("made.vmas.parquet");
    let schema = "required int64 vma; required int64 start; required int64 len;";
    let regions = |numbers: &[i64]| {
        let zeros = || Column::Int64(vec![0; numbers.len()]);
        let columns = vec![Column::Int64(numbers.to_vec()), zeros(), zeros()];
        foreign(&table, schema, Compression::UNCOMPRESSED, columns);
    };
    regions(&[5]);
    let error = read(&path, Leniency::Strict).unwrap_err();
    is!(error, Some(0) => Problem::UnknownRegion { number: 4 });
    let (repaired, repairs) = read(&path, Leniency::Lenient).unwrap();
    only(&repairs, Repair::UnknownRegion, 2);
    assert!(repaired.faults.iter().all(|fault| fault.region.is_none()));

    regions(&[4, 4, 0]);
    let error = read(&path, Leniency::Strict).unwrap_err();
    is!(error, Some(1) => Problem::RegionNumber { number: 4 });
    let (_, repairs) = read(&path, Leniency::Lenient).unwrap();
    only(&repairs, Repair::RegionDropped, 2);

    std::fs::remove_file(&table).unwrap();
    let (bare, _) = read(&path, Leniency::Strict).unwrap();
    assert_eq!(bare.regions, [AddressRegion::unknown(4)]);
    assert!(
        bare.events
            .iter()
            .all(|event| event.region == bare.faults[0].region),
        "frees too"
    );

    std::fs::write(&table, b"PAR1").unwrap();
    let error = read(&path, Leniency::Lenient).unwrap_err();
    assert!(error.file.ends_with("made.vmas.parquet"), "{error}");
}

#[test]
fn faults_follow_their_rows_through_repairs() {
    let mut made = with_faults(&[1]);
    made.events[0].order = 40;
    let (_, repaired, _) = refused(&made);
    // Row 0 is unknown, row 2 frees what it would have allocated.
    assert_eq!(repaired.events.len(), 1);
    assert_eq!(repaired.faults[0].row, 0);
}

#[test]
fn acquisitions_that_cannot_have_happened() {
    let mut made = trace(&[allocate(1, 1, 0)]);
    made.acquisitions = vec![acquisition(10_000, 1_000), acquisition(20_000, 13_000)];
    let (error, repaired, repairs) = refused(&made);
    is!(error, Some(1) => Problem::WaitOverlaps { cpu: 0, begin_ns: 7_000, end_ns: 10_000 });
    assert!(error.file.ends_with("made.locks.parquet"), "{error}");
    assert_eq!(repaired.acquisitions, [made.acquisitions[0]]);
    only(&repairs, Repair::AcquisitionDropped, 1);

    made.acquisitions = vec![acquisition(10_000, 0), acquisition(9_999, 0)];
    let (error, ..) = refused(&made);
    is!(error, Some(1) => Problem::TimeRunsBack { .. });
    // Other CPUs wait at the same time.
    made.acquisitions = vec![acquisition(10_000, 1_000), acquisition(20_000, 13_000)];
    made.acquisitions[1].cpu = 1;
    let (scratch, path) = crate::common::made();
    write(&made, &path).unwrap();
    assert_eq!(read(&path, Leniency::Strict).unwrap().0, made);
    // Acquisitions of another trace.
    made.acquisitions[1].batch = 9;
    let other = scratch.path("other.parquet");
    write(&made, &other).unwrap();
    let [one, other] = ["made", "other"].map(|name| scratch.path(&format!("{name}.locks.parquet")));
    std::fs::copy(other, one).unwrap();
    is!(read(&path, Leniency::Strict).unwrap_err(), None => Problem::OtherTrace);
}
