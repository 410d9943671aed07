//! Small programs on the model of caches, with cycles that were computed by hand.

use everybuddy::platform::{AtomicWord, Ordering::Relaxed};
use everybuddy::{CpuToken, Platform, RawLock, SpinLock, TicketLock};
use everybuddy_sim::{
    Cache, Caches, Hardware, Line, Machine, Region, Sim, SimAtomicU32, SimCpu, Transfer, Waiters,
};

pub(crate) type Here = Sim;

/// Two sockets of two cores, with tiny caches and round numbers.
pub(crate) const SMALL: Hardware = Hardware {
    sockets: 2,
    groups: 1,
    cores: 2,
    threads: 1,
    // 2 sets of 2 lines, 4 sets of 4, and 16 sets of 4.
    l1: Cache {
        bytes: 4 * 64,
        ways: 2,
        cycles: 4,
    },
    l2: Some(Cache {
        bytes: 16 * 64,
        ways: 4,
        cycles: 14,
    }),
    llc: Cache {
        bytes: 64 * 64,
        ways: 4,
        cycles: 40,
    },
    near: NEAR,
    socket: NEAR,
    far: Transfer {
        clean: 250,
        modified: 300,
        upgrade: 220,
    },
    memory: 200,
    read_interval: 10,
    locked: 20,
    window: 0,
    chains: 0,
    store_buffer: 0,
    fill_buffers: 0,
    waiters: Waiters::Spin,
    work: 1000,
    work_shared: 1500,
    adjacent_line: false,
    mhz: 1000,
    installed: 1024,
};

const NEAR: Transfer = Transfer {
    clean: 60,
    modified: 90,
    upgrade: 50,
};

/// The same with all cores in one socket.
pub(crate) fn one_socket(cores: u16) -> Hardware {
    Hardware {
        sockets: 1,
        cores,
        ..SMALL
    }
}

/// Two words of a cache line.
#[repr(align(64))]
pub(crate) struct Words(pub(crate) SimAtomicU32, pub(crate) SimAtomicU32);

/// Runs a program on `cpus` CPUs over some lines. Returns the machine, and what the CPUs returned.
pub(crate) fn run<T>(
    hardware: Hardware,
    cpus: u16,
    program: impl Fn(&mut SimCpu, &[Words]) -> T,
) -> (Machine<Caches>, Vec<T>) {
    let new = |_| Words(SimAtomicU32::new(0), SimAtomicU32::new(0));
    let lines: Vec<Words> = (0..64).map(new).collect();
    let mut machine = Machine::new(cpus).cost(Caches::new(hardware));
    let report = machine
        .run(Region::around(&lines[..]), |cpu: &mut SimCpu| {
            program(cpu, &lines)
        })
        .unwrap();
    (machine, report.results)
}

/// Waits until the virtual time is `cycles`.
pub(crate) fn at(cpu: &mut SimCpu, cycles: u64) {
    let wait = cycles.checked_sub(cpu.now());
    cpu.work(wait.expect("the time is still to come") as u32);
}

/// Waits until another CPU has written a word.
pub(crate) fn wait_for(word: &<Here as Platform>::AtomicU32) {
    while word.load(Relaxed) == 0 {
        Here::wait(word, 0, 0);
    }
}

/// Returns the cycles of an access.
fn cycles<T>(cpu: &SimCpu, access: impl FnOnce() -> T) -> u64 {
    let start = cpu.now();
    access();
    cpu.now() - start
}

/// Asserts that an access takes this long.
#[track_caller]
fn takes<T>(cpu: &SimCpu, expected: u64, why: &str, access: impl FnOnce() -> T) {
    assert_eq!(cycles(cpu, access), expected, "{why}");
}

#[test]
fn a_line_bounces_between_two_cores() {
    for (other, load, upgrade, steal) in [(1, 90, 50, 90), (2, 300, 220, 300)] {
        let (machine, _) = run(SMALL, 4, |cpu, lines| {
            let word = &lines[0].0;
            if cpu.id().0 == 0 {
                takes(cpu, 200, "from memory", || word.load(Relaxed));
                takes(cpu, 4, "hit", || word.load(Relaxed));
                takes(cpu, 4, "it has the line alone", || word.store(1, Relaxed));
                at(cpu, 2000);
                takes(cpu, load, "modified there", || word.load(Relaxed));
            } else if cpu.id().0 == other {
                at(cpu, 1000);
                takes(cpu, load, "modified there", || word.load(Relaxed));
                takes(cpu, upgrade, "the other has a copy", || {
                    word.store(2, Relaxed)
                });
                takes(cpu, 4 + 20, "it has the line alone", || {
                    word.fetch_add(2, Relaxed)
                });
                at(cpu, 3000);
                word.store(1, Relaxed);
                at(cpu, 5000);
                takes(cpu, steal + 20, "modified there", || word.swap(1, Relaxed));
            }
            if cpu.id().0 == 0 {
                at(cpu, 4000);
                takes(cpu, steal, "modified there", || word.store(1, Relaxed));
            }
        });
        let traffic = machine.model().traffic();
        assert_eq!(traffic.len(), 1);
        let (line, traffic) = traffic[0];
        assert_eq!((line, traffic.memory, traffic.hand_overs), (Line(0), 1, 3));
        // One load of each, two upgrades, two stores that take the line away.
        assert_eq!((traffic.misses, traffic.transfers), (7, 6));
        assert_eq!(traffic.far, if other == 2 { 6 } else { 0 });
    }
}

#[test]
fn requests_for_a_line_are_served_one_after_the_other() {
    let (_, done) = run(SMALL, 4, |cpu, lines| {
        if cpu.id().0 == 0 {
            lines[0].0.store(1, Relaxed);
        }
        at(cpu, 1000);
        lines[0].0.load(Relaxed);
        cpu.now()
    });
    // CPU 0 hits; CPU 1 gets it from CPU 0; CPU 2 from the other socket; CPU 3 from the cache of its own socket.
    assert_eq!(
        done,
        [1004, 1000 + 90, 1090 + 250, 1000 + 90 + 250 + 40].map(|done: u64| done)
    );
}

#[test]
fn words_that_share_a_line_move_together() {
    for is_false_sharing in [true, false] {
        let (_, done) = run(SMALL, 2, |cpu, lines| {
            let me = cpu.id().0;
            let word = match (me, is_false_sharing) {
                (0, _) => &lines[0].0,
                (_, true) => &lines[0].1,
                (_, false) => &lines[1].0,
            };
            for round in 0..10 {
                at(cpu, 1000 * round + 500 * u64::from(me));
                word.store(1, Relaxed);
            }
            cpu.now()
        });
        let last = if is_false_sharing { 90 } else { 4 };
        assert_eq!(done, [9000 + last, 9500 + last]);
    }
}

#[test]
fn a_cache_keeps_as_many_lines_as_it_has_room_for() {
    // The lines are all of one set of each cache.
    for (lines_used, expected) in [(2, 4), (3, 14), (4, 14), (5, 40)] {
        run(SMALL, 1, |cpu, lines| {
            for round in 0..3 {
                for index in 0..lines_used {
                    let took = cycles(cpu, || lines[4 * index].0.load(Relaxed));
                    let expected = if round == 0 { 200 } else { expected };
                    assert_eq!(took, expected, "{lines_used} lines, round {round}");
                }
            }
        });
    }
}

#[test]
fn what_a_core_evicts_is_in_the_last_level_cache_of_its_socket() {
    run(SMALL, 4, |cpu, lines| match cpu.id().0 {
        0 => {
            // Modified, and evicted by four others of its set.
            for line in [0, 4, 8, 12, 16] {
                lines[line].0.store(1, Relaxed);
            }
        }
        1 => {
            at(cpu, 5000);
            assert_eq!(cycles(cpu, || lines[0].0.load(Relaxed)), 40);
            assert_eq!(cycles(cpu, || lines[16].0.load(Relaxed)), 90);
        }
        2 => {
            at(cpu, 6000);
            assert_eq!(cycles(cpu, || lines[0].0.load(Relaxed)), 250);
        }
        _ => {}
    });
}

#[test]
fn a_store_buffer_hides_stores_until_it_is_full() {
    let hardware = Hardware {
        store_buffer: 2,
        ..SMALL
    };
    run(hardware, 1, |cpu, lines| {
        let store = |cpu: &SimCpu, line: usize| cycles(cpu, || lines[line].0.store(1, Relaxed));
        // From memory, done at 200. The third waits until the first has left the buffer.
        assert_eq!([0, 1].map(|line| store(cpu, line)), [0, 0]);
        assert_eq!(store(cpu, 2), 200);
        // A load of a buffered word hits. An atomic operation waits for all stores before it.
        assert_eq!(cycles(cpu, || lines[2].0.load(Relaxed)), 4);
        assert_eq!(store(cpu, 3), 0);
        assert_eq!(cycles(cpu, || lines[2].0.swap(2, Relaxed)), 200 + 4 + 20);
    });
}

#[test]
fn waiters_see_a_buffered_store_when_its_line_has_arrived() {
    let hardware = Hardware {
        store_buffer: 8,
        ..one_socket(4)
    };
    let (_, done) = run(hardware, 2, |cpu, lines| {
        let word = &lines[0].0;
        if cpu.id().0 == 1 {
            wait_for(word);
        } else {
            at(cpu, 1000);
            lines[1].0.store(1, Relaxed);
            word.store(1, Relaxed);
            Here::wake(word);
        }
        cpu.now()
    });
    // The first store comes from memory and is done at 1200. The second follows it; then the waiter fetches the line.
    assert_eq!(done, [1000, 1200 + 90 + 4]);
}

#[test]
fn waiters_share_the_line_that_one_of_them_has_got() {
    let (machine, mut done) = run(one_socket(4), 4, |cpu, lines| {
        let word = &lines[0].0;
        if cpu.id().0 > 0 {
            wait_for(word);
        } else {
            at(cpu, 1000);
            // From the last-level cache, and three copies are invalidated.
            assert_eq!(cycles(cpu, || word.store(1, Relaxed)), 50);
            Here::wake(word);
        }
        cpu.now()
    });
    done.sort_unstable();
    // The first gets it from CPU 0, the others from the last-level cache, 10 after each other; then each of them reads
    // it.
    assert_eq!(done, [1050, 1140 + 4, 1140 + 40 + 4, 1150 + 40 + 4]);
    assert_eq!(machine.model().outside(), 0);
}

/// Returns the cycles from the release of a lock, for which all other CPUs wait, to its next acquisition.
fn hand_over<L: RawLock<Sim>>(cpus: u16, seed: u64, new: impl Fn() -> L) -> u64 {
    #[repr(align(64))]
    struct Padded<L>(L);
    let lock = Padded(new());
    let mut machine = Machine::new(cpus).cost(Caches::new(one_socket(16)).seed(seed));
    let report = machine
        .run(Region::around(&lock), |cpu: &mut SimCpu| {
            if cpu.id().0 > 0 {
                at(cpu, 1000 + 100 * u64::from(cpu.id().0));
            }
            let (held, _) = lock.0.lock();
            let acquired = cpu.now();
            if cpu.id().0 == 0 {
                at(cpu, 20_000);
            } else {
                // The others are not served before all have been measured.
                cpu.work(20_000);
            }
            lock.0.unlock(&held);
            acquired
        })
        .unwrap();
    let first = report.results[1..].iter().min().unwrap();
    first - 20_000
}

#[test]
fn a_lock_takes_longer_to_hand_over_when_more_cpus_wait() {
    for seed in 0..5 {
        let spin = |cpus| hand_over(cpus, seed, SpinLock::<Sim>::new);
        let ticket = |cpus| hand_over(cpus, seed, TicketLock::<Sim>::new);
        // The failed exchange of the waiter has taken the line, and the release fetches it back in 90 cycles. The
        // waiter fetches it in 90 more and reads it in 4. Then it needs the line for itself, for an exchange.
        assert_eq!(spin(2), 90 + 90 + 4 + 50 + 20);
        // 15 waiters share the line, and the release invalidates their copies in 50. The first that has it again wants
        // it for itself while 14 are still fetching it, 10 after each other; the last one has it after 40.
        assert_eq!(spin(16), 50 + 90 + 13 * 10 + 40 + 50 + 20);
        // A ticket lock serves the first that came. The release reads `served`: in the modified line of the waiter, 90,
        // or in the last-level cache if several share the line, 40. It invalidates the copies in 50. The first waiter
        // has the line after 90, the second 40 later, and each other one 10 later; CPU 1 is any of them. Then it reads
        // `served`.
        assert_eq!(ticket(2), 90 + 50 + 90 + 4);
        let later = ticket(16) - (40 + 50 + 90 + 4);
        let is_one = later == 0 || (40..=40 + 13 * 10).contains(&later) && later % 10 == 0;
        assert!(is_one, "{later}");
    }
    let tickets: Vec<u64> = (0..20)
        .map(|seed| hand_over(16, seed, TicketLock::<Sim>::new))
        .collect();
    assert!(tickets.iter().any(|cycles| *cycles != tickets[0]));
}

#[test]
fn threads_of_a_core_share_its_caches_and_its_instructions() {
    let hardware = Hardware {
        threads: 2,
        ..one_socket(2)
    };
    let (_, done) = run(hardware, 4, |cpu, lines| {
        match cpu.id().0 {
            // CPUs 0 and 2 share a core, which is alone after CPU 2 has ended.
            0 => {
                lines[0].0.store(1, Relaxed);
                cpu.work(1000);
                cpu.work(1000);
            }
            2 => {
                at(cpu, 300);
                assert_eq!(cycles(cpu, || lines[0].0.load(Relaxed)), 4);
                assert_eq!(cycles(cpu, || lines[0].0.store(1, Relaxed)), 4);
            }
            _ => {}
        }
        cpu.now()
    });
    assert_eq!(done[0], 200 + 1500 + 1000);
}

#[test]
fn virtual_cpus_that_take_turns_share_a_core_with_those_of_its_other_thread() {
    let work = |hardware, cpus, busy: [u16; 2]| {
        let (_, done) = run(hardware, cpus, |cpu, _| {
            if busy.contains(&cpu.id().0) {
                cpu.work(1000);
            }
            cpu.now()
        });
        done[usize::from(busy[1])]
    };
    let threads = Hardware {
        threads: 2,
        ..one_socket(2)
    };
    // CPUs 0, 4 and 8 take turns as one thread of a core, CPUs 2 and 6 as the other. CPUs that do not work end
    // immediately, in the order of their numbers.
    assert_eq!(work(threads, 7, [0, 6]), 1500);
    assert_eq!(work(threads, 9, [8, 6]), 1500);
    assert_eq!(work(threads, 9, [0, 8]), 1000);
    assert_eq!(work(threads, 7, [1, 6]), 1000);
    // A core without threads has no other one.
    assert_eq!(work(one_socket(2), 5, [0, 4]), 1000);
}

#[test]
fn the_other_line_of_a_pair_comes_along() {
    for adjacent_line in [true, false] {
        let hardware = Hardware {
            adjacent_line,
            ..SMALL
        };
        run(hardware, 2, |cpu, lines| {
            if cpu.id().0 == 0 {
                lines[2].0.load(Relaxed);
                let expected = if adjacent_line { 4 } else { 200 };
                assert_eq!(cycles(cpu, || lines[3].0.load(Relaxed)), expected);
                at(cpu, 2000);
                // The other core has fetched this line together with its neighbour, or not.
                let expected = if adjacent_line { 50 } else { 4 };
                assert_eq!(cycles(cpu, || lines[3].0.store(1, Relaxed)), expected);
            } else {
                at(cpu, 1000);
                lines[2].0.store(1, Relaxed);
            }
        });
    }
}

#[test]
fn counting_begins_at_a_mark() {
    let (machine, _) = run(SMALL, 1, |cpu, lines| {
        lines[0].0.store(1, Relaxed);
        lines[1].0.store(1, Relaxed);
        cpu.mark();
        lines[1].0.store(1, Relaxed);
    });
    let traffic = machine.model().traffic();
    assert_eq!(traffic.len(), 1);
    assert_eq!(traffic[0].0, Line(1));
    assert_eq!(traffic[0].1.accesses, 1);
    assert_eq!(traffic[0].1.cycles, 4);
}

/// Returns what a load of a line costs that the CPUs before this one have loaded, each once.
fn cost_of_next_load(hardware: &Hardware, cpu: u16) -> u64 {
    let own = hardware.place(cpu);
    let before = || (0..cpu).map(|cpu| hardware.place(cpu));
    let clean = |transfer: Transfer| u64::from(transfer.clean);
    if cpu == 0 {
        u64::from(hardware.memory)
    } else if before().any(|other| other.core == own.core) {
        u64::from(hardware.l1.cycles)
    } else if before().any(|other| other.group == own.group) {
        // The only core that has a line owns it, and hands it over itself.
        match cpu {
            1 => clean(hardware.near),
            _ => u64::from(hardware.llc.cycles),
        }
    } else if before().any(|other| other.socket == own.socket) {
        clean(hardware.socket)
    } else {
        clean(hardware.far)
    }
}

#[test]
fn any_partition_of_the_largest_machines_is_simulated() {
    for [sockets, groups, cores, threads] in [
        [1, 512, 1, 1],
        [512, 1, 1, 1],
        [2, 128, 1, 2],
        [2, 128, 2, 1],
        [1, 1, 512, 1],
        [1, 1024, 1, 1],
        [1, 1, 512, 2],
    ] {
        let hardware = Hardware {
            sockets,
            groups,
            cores,
            threads,
            ..SMALL
        };
        hardware.check().unwrap();
        let cpus = hardware.cpus() as u16;
        let (machine, counts) = run(hardware, cpus, |cpu, lines| {
            let (me, word, count) = (cpu.id().0, &lines[0].0, &lines[1].0);
            at(cpu, 10_000 * (1 + u64::from(me)));
            let expected = cost_of_next_load(&hardware, me);
            takes(cpu, expected, &format!("CPU {me} of {hardware:?}"), || {
                word.load(Relaxed)
            });
            at(cpu, 20_000_000);
            if me == cpus - 1 {
                // All others lose their copies.
                word.store(1, Relaxed);
            }
            at(cpu, 30_000_000 + 10_000 * u64::from(me));
            let took = cycles(cpu, || assert_eq!(word.load(Relaxed), 1));
            let keeps = hardware.place(me).core == hardware.place(cpus - 1).core;
            assert_eq!(
                took == 4,
                keeps || me >= hardware.all_cores() as u16,
                "CPU {me}"
            );
            count.fetch_add(1, Relaxed)
        });
        let mut counts = counts;
        counts.sort_unstable();
        assert!(counts.into_iter().eq(0..u32::from(cpus)), "{hardware:?}");
        assert_eq!(machine.model().outside(), 0);
    }
}

#[test]
fn more_cpus_than_are_simulated_are_refused_with_their_number() {
    let hardware = Hardware {
        sockets: 2,
        groups: 513,
        cores: 1,
        ..SMALL
    };
    let text = hardware.check().unwrap_err().to_string();
    let expected =
        "`sockets` x `groups` x `cores` x `threads` is 2 x 513 x 1 x 1, 1026 CPUs; at most 1024";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn cpus_that_are_spread_are_of_the_sockets_in_turn() {
    let hardware = Hardware {
        groups: 2,
        threads: 2,
        ..SMALL
    };
    let cores = [0, 4, 1, 5, 2, 6, 3, 7];
    for cpu in 0..16 {
        let place = hardware.spread_place(cpu);
        assert_eq!(place, hardware.place(cores[usize::from(cpu % 8)]));
        assert_eq!(place.socket, cpu % 2);
    }
    // CPU 0 has written a line, which CPU 1 of the other socket gets, and then CPU 2 of the first one.
    let new = || Words(SimAtomicU32::new(0), SimAtomicU32::new(0));
    let line = [new()];
    let mut machine = Machine::new(4).cost(Caches::new(SMALL).spread(true));
    let report = machine
        .run(Region::around(&line[..]), |cpu: &mut SimCpu| {
            at(cpu, 1000 * u64::from(cpu.id().0));
            line[0].0.store(1, Relaxed);
            cpu.now() % 1000
        })
        .unwrap();
    assert_eq!(report.results, [200, 300, 300, 300]);
}
