//! Lines that a core is getting for its stores, and lines that many read: cycles that were computed by hand.

use everybuddy::platform::{AtomicWord, Ordering::Relaxed};
use everybuddy::{CpuToken, Platform};
use everybuddy_sim::{Hardware, SimCpu};

use crate::caches::{Here, SMALL, Words, at, one_socket, run, wait_for};

/// Two cores with store buffers of this many stores.
fn buffered(store_buffer: u16) -> Hardware {
    Hardware {
        store_buffer,
        ..one_socket(2)
    }
}

/// Lets CPU 1 wait for the first word of line 0, and CPU 0 run `program` from 1000 on. Returns the cycle in which CPU 1
/// has read that it is not 0, and the misses of the line.
fn seen(hardware: Hardware, program: impl Fn(&mut SimCpu, &[Words])) -> (u64, u64) {
    let (machine, done) = run(hardware, 2, |cpu, lines| {
        let word = &lines[0].0;
        if cpu.id().0 == 1 {
            wait_for(word);
        } else {
            at(cpu, 1000);
            program(cpu, lines);
            Here::wake(word);
        }
        cpu.now()
    });
    (done[1], machine.model().traffic()[0].1.misses)
}

#[test]
fn stores_to_a_line_that_is_coming_take_effect_together() {
    // The waiter has read the line from memory. The first store gets it at +60 = 1060, and the waiter has it again at
    // +90 = 1150, with all stores that were made before 1060, and reads it at +4.
    for stores in [1, 2, 8] {
        let all = seen(buffered(8), |cpu, lines| {
            (1..stores).for_each(|_| lines[0].1.store(1, Relaxed));
            lines[0].0.store(1, Relaxed);
            assert_eq!(cpu.now(), 1000);
        });
        assert_eq!(all, (1154, 3), "{stores} stores");
    }
    // A machine without a buffer waits for each store. The waiter has the line at 1150, and its request comes to CPU 0
    // at 1105. A store before that hits; one after that gets the line at +50 = 1200.
    for (second, done, all) in [(1104, 1108, (1154, 3)), (1105, 1200, (1200 + 90 + 4, 5))] {
        let each = seen(buffered(0), |cpu, lines| {
            lines[0].1.store(1, Relaxed);
            assert_eq!(cpu.now(), 1060);
            at(cpu, second);
            lines[0].0.store(1, Relaxed);
            assert_eq!(cpu.now(), done);
        });
        assert_eq!(each, all);
    }
}

#[test]
fn a_line_that_leaves_is_accessed_until_the_request_has_come() {
    // CPU 0 asks for it at 1000 and has it at 1090. Half of that is the way of the request.
    for (when, load) in [(1040, 4), (1044, 4), (1045, 45 + 90)] {
        let (_, done) = run(one_socket(2), 2, |cpu, lines| {
            let word = &lines[0].0;
            if cpu.id().0 == 0 {
                at(cpu, 1000);
                word.store(2, Relaxed);
                return cpu.now();
            }
            word.store(1, Relaxed);
            at(cpu, when);
            word.load(Relaxed);
            assert_eq!(cpu.now(), when + load);
            at(cpu, 2000);
            word.load(Relaxed);
            cpu.now()
        });
        // A hit has changed nothing: the line is there.
        let again = if load == 4 { 90 } else { 4 };
        assert_eq!(done, [1090, 2000 + again], "{when}");
    }
}

#[test]
fn two_cores_that_give_a_line_away_have_it_in_turn() {
    let (_, done) = run(one_socket(3), 3, |cpu, lines| {
        let word = &lines[0].0;
        match cpu.id().0 {
            // It has the line from the start, and the request of CPU 1 comes at 1045.
            0 => {
                word.store(1, Relaxed);
                at(cpu, 1030);
                word.load(Relaxed);
            }
            // It has the line from 1090, and the request of CPU 2 comes at 1135.
            1 => {
                at(cpu, 1000);
                word.store(2, Relaxed);
                at(cpu, 1120);
                word.load(Relaxed);
            }
            _ => {
                at(cpu, 1010);
                word.store(3, Relaxed);
            }
        }
        cpu.now()
    });
    assert_eq!(done, [1034, 1124, 1180]);
}

#[test]
fn a_store_after_the_line_has_come_is_another_transfer() {
    // The waiter's request has come at 1105, and it has the line at 1150; the store invalidates it in 50.
    let late = seen(buffered(8), |cpu, lines| {
        lines[0].1.store(1, Relaxed);
        at(cpu, 1105);
        lines[0].0.store(1, Relaxed);
    });
    assert_eq!(late, (1150 + 50 + 90 + 4, 5));
}

#[test]
fn each_store_that_waits_for_a_line_has_a_place_in_the_buffer() {
    let full = seen(buffered(4), |cpu, lines| {
        (0..4).for_each(|_| lines[0].1.store(1, Relaxed));
        assert_eq!(cpu.now(), 1000);
        // It was made before the line comes, so it takes effect at 1060; the first of the buffer leaves it then.
        lines[0].0.store(1, Relaxed);
        assert_eq!(cpu.now(), 1060);
    });
    assert_eq!(full, (1154, 3));
}

#[test]
fn stores_take_effect_in_their_order() {
    // The store between them comes from memory, at 1000 + 200 = 1200. The last one gets the line at 1200, too.
    let memory = seen(buffered(8), |_, lines| {
        lines[0].1.store(1, Relaxed);
        lines[1].0.store(1, Relaxed);
        lines[0].0.store(1, Relaxed);
    });
    assert_eq!(memory, (1200 + 90 + 4, 5));
    // Here it hits, and is done with the store before it.
    let own = seen(buffered(8), |cpu, lines| {
        lines[1].0.store(1, Relaxed);
        at(cpu, 2000);
        lines[0].1.store(1, Relaxed);
        lines[1].0.store(1, Relaxed);
        lines[0].0.store(1, Relaxed);
    });
    assert_eq!(own, (2060 + 90 + 4, 3));
}

#[test]
fn a_line_that_is_coming_is_read_and_written_before_the_next_core_gets_it() {
    let (_, done) = run(buffered(8), 2, |cpu, lines| {
        if cpu.id().0 == 1 {
            lines[0].0.store(1, Relaxed);
            at(cpu, 1045);
            // CPU 0 has it at 1090, and its request has come now.
            lines[0].0.swap(2, Relaxed);
        } else {
            at(cpu, 1000);
            lines[0].1.store(1, Relaxed);
            at(cpu, 1010);
            lines[0].1.load(Relaxed);
            assert_eq!(cpu.now(), 1014);
            lines[0].1.store(2, Relaxed);
            assert_eq!(cpu.now(), 1014);
            // CPU 1 has it at +90 and +20, and its request has come at 1135; this waits for it.
            at(cpu, 1135);
            lines[0].1.load(Relaxed);
        }
        cpu.now()
    });
    assert_eq!(done, [1180 + 90, 1090 + 90 + 20]);
}

#[test]
fn a_store_behind_another_line_takes_its_own_line_again() {
    let (_, done) = run(buffered(8), 2, |cpu, lines| {
        if cpu.id().0 == 1 {
            at(cpu, 1010);
            lines[1].0.load(Relaxed);
            at(cpu, 2000);
            lines[1].0.load(Relaxed);
        } else {
            at(cpu, 500);
            lines[1].0.store(1, Relaxed);
            at(cpu, 1000);
            // Line 0 arrives at 1060. The second store has its line, and waits for the first one.
            lines[0].0.store(1, Relaxed);
            lines[1].0.store(2, Relaxed);
            at(cpu, 1020);
            // CPU 1 has asked for line 1 since, and loses it again.
            lines[1].0.store(3, Relaxed);
        }
        cpu.now()
    });
    assert_eq!(done[1], 2000 + 90);
}

#[test]
fn reads_of_a_shared_line_are_pipelined() {
    let far = Hardware {
        sockets: 4,
        cores: 1,
        ..SMALL
    };
    let (_, done) = run(far, 4, |cpu, lines| {
        let me = cpu.id().0;
        if me == 0 {
            lines[0].0.store(1, Relaxed);
            at(cpu, 1320);
            lines[0].0.store(1, Relaxed);
        } else {
            at(cpu, 1000);
            lines[0].0.load(Relaxed);
        }
        cpu.now()
    });
    // CPU 1 gets it from CPU 0, which has modified it. The others then get it from a cache, 10 after each other. The
    // store waits until all have it, and invalidates the copies.
    let last = 1310 + 250;
    assert_eq!(done, [last + 220, 1300, 1300 + 250, last]);
    // In one socket, the last-level cache has it.
    let (_, done) = run(one_socket(4), 4, |cpu, lines| {
        if cpu.id().0 == 0 {
            lines[0].0.store(1, Relaxed);
        }
        at(cpu, 1000);
        lines[0].0.load(Relaxed);
        cpu.now()
    });
    assert_eq!(done, [1004, 1090, 1090 + 40, 1100 + 40]);
    let queued = Hardware {
        read_interval: 1000,
        ..one_socket(4)
    };
    let (_, done) = run(queued, 4, |cpu, lines| {
        at(cpu, 1000 * u64::from(cpu.id().0 / 2));
        lines[0].0.load(Relaxed);
        cpu.now()
    });
    // Two from memory, and from the first; an interval is never longer than the read.
    assert_eq!(done, [200, 260, 1040, 1080]);
}

#[test]
fn a_read_waits_until_another_one_has_brought_the_line_to_its_socket() {
    let hardware = Hardware { cores: 3, ..SMALL };
    let (_, done) = run(hardware, 6, |cpu, lines| {
        let me = cpu.id().0;
        match me {
            0 => {
                lines[0].0.store(1, Relaxed);
            }
            1 => {
                at(cpu, 1000);
                lines[0].0.load(Relaxed);
            }
            3.. => {
                at(cpu, 2000 + u64::from(me));
                lines[0].0.load(Relaxed);
            }
            _ => {}
        }
        cpu.now()
    });
    // CPU 3 gets it from the other socket. CPU 4 begins 10 later, and CPU 5 another 10; the cache has it at 2253.
    assert_eq!(done[3..], [2003 + 250, 2253 + 40, 2253 + 40]);
}

#[test]
fn threads_of_a_core_that_wait_have_the_line_at_the_same_time() {
    let hardware = Hardware {
        threads: 2,
        ..one_socket(2)
    };
    let (_, done) = run(hardware, 4, |cpu, lines| {
        let word = &lines[0].0;
        if cpu.id().0 % 2 == 1 {
            wait_for(word);
        } else if cpu.id().0 == 0 {
            at(cpu, 1000);
            word.store(1, Relaxed);
            Here::wake(word);
        }
        cpu.now()
    });
    // CPU 0 works for 1500, since CPU 2 has not ended. It gets the line at +60, and the waiters have it again at +90.
    assert_eq!((done[1], done[3]), (1654, 1654));
}
