//! The traces that come with the project, and any others that `EVERYBUDDY_TRACES` names a folder
//! of, are legal; and what is known of them is found.

use std::path::Path;

use crate::common::{allocate, bundled, free, trace};
use everybuddy_trace::{Event, Leniency, Statistics, StepKind, read, resolve};

fn statistics(path: &Path) -> Statistics {
    let (trace, repairs) = read(path, Leniency::Strict).unwrap_or_else(|error| panic!("{error}"));
    assert!(repairs.is_empty());
    let resolved = resolve(&trace).unwrap();
    assert_eq!(resolved.steps.len(), trace.events.len());
    Statistics::of(&trace, &resolved)
}

fn near(value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value - expected).abs() <= tolerance,
        "{value} is not {expected}"
    );
}

fn orders(known: &Statistics) -> Vec<u8> {
    known.orders.iter().map(|order| order.order).collect()
}

#[test]
fn gcc_build() {
    let known = statistics(&bundled("gcc_build.parquet"));
    assert_eq!(known.events, 431_168);
    assert_eq!(known.allocations, 216_038);
    assert_eq!(known.frees, 215_130);
    near(known.orders[0].allocation_share, 0.99866, 1e-5);
    near(known.peak_frames as f64, 15e3, 5e2);
    near(known.allocation_runs.length.mean, 107.0, 0.5);
    near(known.allocation_runs.share_in_long, 0.91, 0.005);
    near(known.cross_cpu_free_share, 0.046, 5e-4);
    near(known.exit_free_share, 0.86, 0.005);
    near(known.lifetime_ns.p50 as f64, 44e6, 5e5);
    near(known.duration_ns as f64, 4.233e9, 1e6);
    assert_eq!((known.cpus, known.partial_frees), (2, 0));
    near(known.region_share, 206_773.0 / 216_038.0, 1e-9);
    assert!(known.region_allocation_runs.length.mean > 1.0);
    near(known.context_shares.iter().sum(), 1.0, 1e-9);
    assert_eq!(known.live.len(), 201);
    assert_eq!(known.live[200].frames, known.final_frames);
}

#[test]
fn dbench_tar() {
    let known = statistics(&bundled("dbench_tar.parquet"));
    assert_eq!(known.events, 329_747);
    for (order, share) in [(0, 0.567), (1, 0.11), (2, 0.076), (3, 0.045), (4, 0.20)] {
        near(known.orders[order].allocation_share, share, 0.005);
    }
    near(known.peak_frames as f64, 138e3, 5e2);
    near(known.allocation_runs.length.mean, 8.0, 0.5);
    near(known.allocation_runs.share_in_long, 0.33, 0.005);
    near(known.cross_cpu_free_share, 0.19, 0.005);
    near(known.exit_free_share, 0.03, 0.005);
    near(known.lifetime_ns.p50 as f64, 117e6, 5e5);
}

#[test]
fn numpy_thp() {
    let known = statistics(&bundled("numpy_thp.parquet"));
    assert_eq!((known.events, known.peak_frames), (151_716, 171_138));
    assert_eq!(orders(&known), [0, 9]);
    near(known.orders[0].allocation_share, 0.99317, 1e-5);
    near(known.orders[1].frame_share, 0.7787, 1e-4);
    near(known.allocation_runs.length.mean, 197.0, 0.5);
    near(known.cross_cpu_free_share, 0.23, 0.005);
    near(known.exit_free_share, 0.15, 0.005);
    near(known.lifetime_ns.p50 as f64, 423e6, 5e5);
}

#[test]
fn sysbench_mt_cut() {
    let known = statistics(&bundled("sysbench_mt_cut.parquet"));
    assert_eq!((known.events, known.peak_frames), (150_000, 66_414));
    assert_eq!(orders(&known), [0, 3]);
    near(known.orders[0].allocation_share, 0.99879, 1e-5);
    near(known.allocation_runs.length.mean, 204.0, 0.5);
    near(known.cross_cpu_free_share, 0.904, 5e-4);
    near(known.exit_free_share, 0.97, 0.005);
    near(known.lifetime_ns.p50 as f64, 143e6, 5e5);
}

#[test]
fn linux_scalability() {
    let known = statistics(&bundled("linux_scalability.parquet"));
    assert_eq!((known.events, known.peak_frames), (84_426, 39_421));
    assert_eq!(orders(&known), [0]);
    // Two threads fill 150,000 objects of 512 bytes each, which are 37,500 frames without the heap's own data.
    assert!((37_500..37_500 * 11 / 10).contains(&known.peak_frames));
    near(known.allocation_runs.length.mean, 1835.8, 0.1);
    near(known.cross_cpu_free_share, 0.001, 5e-4);
    near(known.lifetime_ns.p50 as f64, 54.0e6, 1e5);
}

#[test]
fn threadtest() {
    let known = statistics(&bundled("threadtest.parquet"));
    assert_eq!((known.events, known.peak_frames), (151_951, 7_713));
    assert_eq!(orders(&known), [0]);
    // Two threads hold 15,000 objects of 1 KiB each at a time, which are 7,500 frames, ten times.
    assert!((7_500..7_500 * 11 / 10).contains(&known.peak_frames));
    near(known.allocation_runs.length.mean, 1433.7, 0.1);
    near(known.lifetime_ns.p50 as f64, 5.4e6, 1e5);
}

#[test]
fn hints_of_a_real_trace() {
    let (trace, _) = read(&bundled("numpy_thp.parquet"), Leniency::Strict).unwrap();
    let resolved = resolve(&trace).unwrap();
    let mut born = Vec::new();
    for (event, step) in trace.events.iter().zip(&resolved.steps) {
        assert_eq!(step.region, event.region.map_or(0, |region| region.get()));
        if step.kind.is_allocation() {
            assert_eq!(step.block as usize, born.len());
            born.push((step.region, step.left));
        } else {
            assert_eq!(born[step.block as usize], (step.region, step.left));
        }
    }
    let fault = trace.faults[0];
    let region = trace.region(fault.region.unwrap()).unwrap();
    let pages = (region.start + region.len) / 4096 - fault.vpn;
    assert_eq!(u64::from(resolved.steps[fault.row as usize].left), pages);
}

#[test]
fn parts_of_a_block() {
    let rows = [
        allocate(1, 8, 2),
        free(2, 10, 1),
        free(3, 8, 0),
        free(4, 9, 0),
        allocate(5, 8, 0),
    ];
    let resolved = resolve(&trace(&rows)).unwrap();
    let seen: Vec<_> = resolved
        .steps
        .iter()
        .map(|step| (step.block, step.kind, step.offset()))
        .collect();
    let expected = [
        (0, StepKind::Allocate, 0),
        (0, StepKind::FreePart, 2),
        (0, StepKind::FreePart, 0),
        (0, StepKind::FreeLastPart, 1),
        (1, StepKind::Allocate, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(resolved.peak_frames, 4);
    assert_eq!(resolved.final_frames, 1);
    assert_eq!(resolved.final_blocks, 1);
    assert_eq!(Statistics::of(&trace(&rows), &resolved).partial_frees, 3);
}

#[test]
fn nothing_at_all_has_statistics() {
    let none: [Event; 0] = [];
    let empty = trace(&none);
    let known = Statistics::of(&empty, &resolve(&empty).unwrap());
    assert_eq!(known.events, 0);
    assert_eq!(known.peak_frames, 0);
    assert_eq!(known.allocation_runs.length.max, 0);
}

#[test]
fn more_traces() {
    let Some(folder) = std::env::var_os("EVERYBUDDY_TRACES") else {
        return;
    };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Files next to a trace have a second dot.
        if name.ends_with(".parquet") && name.matches('.').count() == 1 {
            let started = std::time::Instant::now();
            let known = statistics(&path);
            println!("{name}: {} events in {:?}", known.events, started.elapsed());
        }
    }
}
