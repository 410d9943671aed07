//! What programs do to caches between calls: cycles that were computed by hand.

use everybuddy::CpuToken;
use everybuddy::platform::{AtomicWord, Ordering::Relaxed};
use everybuddy_sim::{Hardware, Line, SimCpu};

use crate::caches::{SMALL, Words, at, run};

/// More bytes than any cache of the machine has.
const ALL: u64 = 1 << 20;

/// Returns the cycles of a load of line 0, which was loaded first, after `program`.
fn loads_again(cpus: u16, program: impl Fn(&mut SimCpu, &[Words])) -> u64 {
    let (_, found) = run(SMALL, cpus, |cpu, lines| {
        if cpu.id().0 > 0 {
            return 0;
        }
        lines[0].0.load(Relaxed);
        program(cpu, lines);
        let before = cpu.now();
        lines[0].0.load(Relaxed);
        cpu.now() - before
    });
    found[0]
}

#[test]
fn lines_of_programs_push_out_what_was_used_least_recently() {
    // Sets of 2, 4 and 4 lines; 2, 4 and 16 sets. Line 0 is in the first set of each.
    for (lines, cycles) in [
        (0, 4),
        (2, 4),
        (3, 14),
        (12, 14),
        (13, 40),
        (64, 40),
        (65, 200),
    ] {
        let found = loads_again(1, |cpu, _| cpu.foreign(lines, ALL));
        assert_eq!(found, cycles, "{lines} lines");
        // It makes no difference whether they come together, or whether the set is looked at meanwhile.
        let found = loads_again(1, |cpu, words| {
            for _ in 0..lines {
                cpu.foreign(1, ALL);
                words[16].1.load(Relaxed);
                words[16].1.load(Relaxed);
            }
        });
        assert!(found >= cycles, "{lines} lines: {found}");
    }
}

#[test]
fn a_line_is_in_the_last_cache_as_of_the_time_when_it_left_the_core() {
    // The thirteenth line pushes it out of the second cache. The last cache then has had one of the first set's lines
    // that came before, and three come later up to the sixty-fourth.
    assert_eq!(loads_again(1, |cpu, _| cpu.foreign(64, ALL)), 40);
    let found = loads_again(1, |cpu, lines| {
        cpu.foreign(13, ALL);
        // The second cache is looked at, and the line is put into the last one, at the same time.
        lines[4].0.load(Relaxed);
        cpu.foreign(51, ALL);
    });
    assert_eq!(found, 40);
    assert_eq!(loads_again(1, |cpu, _| cpu.foreign(65, ALL)), 200);
}

#[test]
fn a_line_that_the_first_cache_has_stays_in_the_second_one() {
    // Each time one line comes to the first set of the first cache, which has two.
    let found = loads_again(1, |cpu, lines| {
        for _ in 0..40 {
            cpu.foreign(2, ALL);
            lines[0].1.load(Relaxed);
        }
    });
    assert_eq!(found, 4);
}

#[test]
fn what_fits_into_a_cache_pushes_nothing_out_of_it() {
    let first = SMALL.l1.bytes;
    let second = SMALL.l2.map_or(0, |cache| cache.bytes);
    for (reach, cycles) in [
        (first, 4),
        (first + 64, 14),
        (second, 14),
        (second + 64, 40),
    ] {
        assert_eq!(loads_again(1, |cpu, _| cpu.foreign(1000, reach)), cycles);
    }
}

#[test]
fn a_line_that_has_left_another_core_is_not_fetched_from_there() {
    for (lines, cycles) in [(12, 90), (13, 40)] {
        let (_, found) = run(SMALL, 2, |cpu, words| {
            if cpu.id().0 == 0 {
                words[0].0.store(1, Relaxed);
                cpu.foreign(lines, ALL);
                return 0;
            }
            at(cpu, 1000);
            let before = cpu.now();
            words[0].0.load(Relaxed);
            cpu.now() - before
        });
        assert_eq!(found[1], cycles, "{lines} lines");
    }
}

#[test]
fn a_store_outside_of_calls_costs_nothing_and_brings_the_line() {
    run(SMALL, 1, |cpu, lines| {
        cpu.touch(Line(3));
        assert_eq!(cpu.now(), 0);
        lines[3].0.store(1, Relaxed);
        assert_eq!(cpu.now(), 4);
    });
}

/// One instruction takes a cycle, and a core goes on after a load for 100 of them.
const WAITING: Hardware = Hardware {
    window: 100,
    chains: 1,
    store_buffer: 8,
    ..SMALL
};

#[test]
fn loads_of_a_chain_wait_for_each_other() {
    for (chains, done) in [(0, 200), (1, 800), (2, 400), (3, 400), (4, 200)] {
        let hardware = Hardware { chains, ..WAITING };
        run(hardware, 1, |cpu, lines| {
            (0..4).for_each(|line| _ = lines[line].0.load(Relaxed));
            assert_eq!(cpu.now(), 0);
            cpu.fence();
            assert_eq!(cpu.now(), done, "{chains} chains");
            // Hits wait for nothing, and nothing is left to wait for.
            (0..4).for_each(|line| _ = lines[line].0.load(Relaxed));
            cpu.fence();
            assert_eq!(cpu.now(), done);
        });
    }
}

#[test]
fn a_core_gets_as_many_lines_at_a_time_as_it_has_buffers() {
    for (buffers, done) in [(0, 200), (4, 200), (2, 400), (1, 800)] {
        let hardware = Hardware {
            chains: 0,
            fill_buffers: buffers,
            ..WAITING
        };
        run(hardware, 1, |cpu, lines| {
            (0..4).for_each(|line| _ = lines[line].0.load(Relaxed));
            // All of it fits into the window.
            cpu.work(100);
            cpu.work(1);
            assert_eq!(cpu.now(), done + 1, "{buffers} buffers");
        });
    }
}
