//! What a core executes past loads that miss: cycles that were computed by hand.

use everybuddy::platform::{AtomicWord, Ordering::Relaxed};
use everybuddy::{CpuToken, Platform};
use everybuddy_sim::{Hardware, SimCpu};

use crate::caches::{Here, SMALL, Words, at, one_socket, run, wait_for};

/// Runs a program on one CPU with a window of 100 instructions of a cycle each. Memory takes 200 cycles.
fn past(program: impl Fn(&mut SimCpu, &[Words])) {
    let hardware = Hardware {
        window: 100,
        ..SMALL
    };
    run(hardware, 1, program);
}

#[test]
fn a_load_that_misses_waits_when_the_window_is_full() {
    past(|cpu, lines| {
        lines[0].0.load(Relaxed);
        assert_eq!(cpu.now(), 0);
        cpu.work(60);
        assert_eq!(cpu.now(), 60);
        // 40 more fit. The other 20 are executed after the load, at 200.
        cpu.work(60);
        assert_eq!(cpu.now(), 220);
        // Nothing is left to wait for.
        cpu.work(1000);
        assert_eq!(cpu.now(), 1220);
    });
}

#[test]
fn loads_that_are_near_each_other_overlap() {
    past(|cpu, lines| {
        lines[0].0.load(Relaxed);
        cpu.work(30);
        lines[1].0.load(Relaxed);
        // The window is full at 100, and at 200 + 30 for the second load, which is done then.
        cpu.work(70);
        assert_eq!(cpu.now(), 100);
        cpu.work(31);
        assert_eq!(cpu.now(), 231);
        // Hits cost nothing, as the two loads before. The 16th access in sequence that costs nothing takes a cycle.
        (0..13).for_each(|_| assert_eq!(lines[0].0.load(Relaxed), 0));
        assert_eq!(cpu.now(), 231);
        lines[1].0.load(Relaxed);
        assert_eq!(cpu.now(), 232);
    });
}

#[test]
fn a_store_is_seen_when_the_loads_before_it_are_done() {
    let hardware = Hardware {
        window: 100,
        store_buffer: 8,
        ..one_socket(2)
    };
    let (_, done) = run(hardware, 2, |cpu, lines| {
        let word = &lines[0].0;
        if cpu.id().0 == 1 {
            wait_for(word);
        } else {
            at(cpu, 1000);
            lines[1].0.load(Relaxed);
            word.store(1, Relaxed);
            assert_eq!(cpu.now(), 1000);
            Here::wake(word);
        }
        cpu.now()
    });
    // The line is there at +60, and the load is done at +200. Then the waiter gets the line in 90.
    assert_eq!(done[1], 1200 + 90);
}

#[test]
fn an_exchange_waits_for_the_loads_before_it() {
    past(|cpu, lines| {
        lines[0].0.swap(1, Relaxed);
        assert_eq!(cpu.now(), 200 + 20);
        lines[1].0.load(Relaxed);
        lines[0].0.swap(1, Relaxed);
        assert_eq!(cpu.now(), 220 + 200 + 20);
        // A load of a line that has come is a hit, and nothing is waited for.
        lines[1].0.load(Relaxed);
        cpu.work(500);
        assert_eq!(cpu.now(), 440 + 500);
    });
}
