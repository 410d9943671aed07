//! What is written is read again, and files of other programs are read as they are.

use crate::common::{Column, Scratch, acquisition, allocate, bundled, foreign, free, trace};
use everybuddy_trace::{
    Acquisition, AddressRegion, Fault, Leniency, Op, Problem, RegionId, RegionKind, Trace, read,
    write,
};
use parquet::basic::Compression;

const NEEDED: &str = "required int64 time_ns; required int64 cpu; required int64 pid; \
                      required int64 op; required int64 pfn; required int64 order;";

fn needed() -> Vec<Column> {
    [[10, 20], [0, 1], [7, 7], [0, 1], [64, 64], [3, 3]]
        .map(|column| Column::Int64(column.to_vec()))
        .into()
}

fn strictly(path: &std::path::Path) -> Trace {
    let (trace, repairs) = read(path, Leniency::Strict).unwrap();
    assert!(repairs.is_empty());
    trace
}

#[test]
fn every_field_survives() {
    let mut made = trace(&[allocate(5, u64::MAX - 7, 2), free(6, u64::MAX - 7, 0)]);
    for event in &mut made.events {
        event.cpu = u16::MAX - 1;
        event.pid = u32::MAX;
        event.gfp = u32::MAX;
        event.sysno = 231;
        event.migratetype = 2;
        event.context = 5;
        event.flags.0 = 0xff;
        event.region = RegionId::from_index(1);
    }
    let known = AddressRegion {
        number: u64::MAX,
        tgid: u32::MAX,
        start: u64::MAX - 0xfff,
        len: 0xfff,
        kind: RegionKind::Stack,
        created_ns: u64::MAX,
        prot: 7,
        flags: u32::MAX,
        fd: -1,
    };
    made.regions = vec![AddressRegion::unknown(3), known];
    made.faults = vec![Fault {
        row: 0,
        vpn: u64::MAX,
        region: RegionId::from_index(1),
        sequence: u32::MAX,
    }];
    made.metadata = vec![("stats".into(), "{}".into()), ("own".into(), "".into())];
    let widest = Acquisition {
        time_ns: u64::MAX,
        wait_ns: u64::MAX,
        hold_ns: u64::MAX,
        pid: u32::MAX,
        batch: u32::MAX,
        cpu: u16::MAX,
        source: u8::MAX,
    };
    made.acquisitions = vec![acquisition(7, 3), widest];

    let (_scratch, path) = crate::common::made();
    write(&made, &path).unwrap();
    assert_eq!(strictly(&path), made);
}

#[test]
fn bundled_traces_survive() {
    let scratch = Scratch::new();
    for name in [
        "gcc_build",
        "dbench_tar",
        "numpy_thp",
        "sysbench_mt_cut",
        "linux_scalability",
        "threadtest",
    ] {
        let first = strictly(&bundled(&format!("{name}.parquet")));
        let has = |wanted: &str| first.metadata.iter().any(|(key, _)| key == wanted);
        // The recorder's statistics are those of the whole recording: a cut has none.
        assert_eq!(has("stats"), !name.ends_with("_cut"), "{name}");
        assert!(has("processes"), "{name}");
        let path = scratch.path(&format!("{name}.parquet"));
        write(&first, &path).unwrap();
        assert_eq!(strictly(&path), first);
    }
}

#[test]
fn an_older_trace_of_the_name_leaves_nothing_behind() {
    let (scratch, path) = crate::common::made();
    let mut old = trace(&[allocate(1, 1, 0)]);
    old.regions = vec![AddressRegion::unknown(1)];
    old.faults = vec![Fault {
        row: 0,
        vpn: 1,
        region: None,
        sequence: 1,
    }];
    old.acquisitions = vec![acquisition(1, 1)];
    write(&old, &path).unwrap();
    assert!(scratch.path("made.locks.parquet").exists());
    let new = trace(&[allocate(1, 1, 0), free(2, 1, 0)]);
    write(&new, &path).unwrap();
    assert_eq!(strictly(&path), new);
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(
        files, 1,
        "no faults, no regions, no acquisitions, no temporary files"
    );
}

#[test]
fn writing_into_nothing_is_an_error_with_the_path() {
    let scratch = Scratch::new();
    let path = scratch.path("no/such/folder/made.parquet");
    let error = write(&trace(&[allocate(1, 1, 0)]), &path).unwrap_err();
    assert!(
        error.to_string().contains("no/such/folder/made.parquet"),
        "{error}"
    );
}

#[test]
fn wide_signed_columns_without_the_optional_ones_are_read() {
    let scratch = Scratch::new();
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
        let path = scratch.path("foreign.parquet");
        foreign(&path, NEEDED, compression, needed());
        let trace = strictly(&path);
        assert_eq!(trace.events.len(), 2);
        assert_eq!((trace.events[1].op, trace.events[1].cpu), (Op::Free, 1));
        assert_eq!(trace.events[1].sysno, u16::MAX);
        assert_eq!(trace.events[1].migratetype, -1);
    }
}

#[test]
fn other_columns_and_another_order_do_not_matter() {
    let (_scratch, path) = crate::common::made();
    let schema = "required binary note (UTF8); required int32 order (INTEGER(8,true)); \
                  optional int64 pfn; required int32 op; required int32 pid (UINT_32); \
                  required double weight; required int32 cpu; \
                  required int64 time_ns (INTEGER(64,false));";
    let columns = vec![
        Column::Text(vec!["a", "b"]),
        Column::Int32(vec![0, 0]),
        Column::Gaps(vec![Some(9), Some(9)]),
        Column::Int32(vec![0, 1]),
        Column::Int32(vec![-1, -1]),
        Column::Double(vec![0.5, 0.5]),
        Column::Int32(vec![3, 3]),
        Column::Int64(vec![-2, -1]),
    ];
    foreign(&path, schema, Compression::UNCOMPRESSED, columns);
    let trace = strictly(&path);
    assert_eq!(
        trace.events[0].pid,
        u32::MAX,
        "the bits of an unsigned column"
    );
    assert_eq!(trace.events[1].time_ns, u64::MAX);
}

#[test]
fn missing_and_impossible_values_name_their_row() {
    let (_scratch, path) = crate::common::made();
    let schema = NEEDED.replace("required int64 pid", "optional int64 pid");
    let mut columns = needed();
    columns[2] = Column::Gaps(vec![Some(7), None]);
    foreign(&path, &schema, Compression::UNCOMPRESSED, columns);
    let error = read(&path, Leniency::Strict).unwrap_err();
    is!(error, Some(1) => Problem::NoValue { column: "pid" });
    let (trace, repairs) = read(&path, Leniency::Lenient).unwrap();
    assert_eq!((trace.events.len(), repairs.total()), (1, 1));

    for (position, value) in [(0, -1), (1, 65_536), (3, 256), (4, -5), (5, -1)] {
        let mut columns = needed();
        let Column::Int64(values) = &mut columns[position] else {
            unreachable!()
        };
        values[1] = value;
        foreign(&path, NEEDED, Compression::UNCOMPRESSED, columns);
        let error = read(&path, Leniency::Strict).unwrap_err();
        is!(error, Some(1) => Problem::OutOfRange { .. });
        assert_eq!(read(&path, Leniency::Lenient).unwrap().0.events.len(), 1);
    }
}

#[test]
fn columns_that_are_no_numbers_are_refused() {
    let (_scratch, path) = crate::common::made();
    let mut columns = needed();
    columns[0] = Column::Double(vec![1.0, 2.0]);
    let schema = NEEDED.replace("int64 time_ns", "double time_ns");
    foreign(&path, &schema, Compression::UNCOMPRESSED, columns);
    let error = read(&path, Leniency::Lenient).unwrap_err();
    is!(error, None => Problem::ColumnType { column: "time_ns", .. });

    let schema = NEEDED.replace("time_ns", "time_ns (TIMESTAMP(MICROS,true))");
    foreign(&path, &schema, Compression::UNCOMPRESSED, needed());
    let error = read(&path, Leniency::Strict).unwrap_err();
    is!(error, None => Problem::ColumnType { column: "time_ns", .. });
}
