//! CPUs that wait for a lock on the model of caches: times of each acquisition that were computed by hand.

use std::cell::RefCell;
use std::collections::BTreeSet;

use everybuddy::platform::{AtomicWord, Ordering::Relaxed};
use everybuddy::{CpuToken, Platform, RawLock, SpinLock, TicketLock};
use everybuddy_sim::{
    Caches, Hardware, Machine, Region, Sim, SimAtomicU32, SimCpu, SimError, Waiters,
};

use crate::caches::{Here, at, one_socket, run, wait_for};

/// Lets CPU 0 hold a lock that the CPUs 1 to 3 want at the times 2000, 4000 and 6000. Each holder releases it at the
/// next multiple of 10,000 from 20,000 on. Returns the times of the four acquisitions, and the CPUs.
fn hand_overs<L: RawLock<Sim>>(hardware: Hardware, seed: u64, lock: L) -> Vec<(u64, u16)> {
    #[repr(align(64))]
    struct Padded<L>(L);
    let lock = Padded(lock);
    let log = RefCell::new(Vec::new());
    let mut machine = Machine::new(4).cost(Caches::new(hardware).seed(seed));
    machine
        .run(Region::around(&lock), |cpu: &mut SimCpu| {
            at(cpu, 2000 * u64::from(cpu.id().0));
            let (held, _) = lock.0.lock();
            log.borrow_mut().push((cpu.now(), cpu.id().0));
            let turn = log.borrow().len() as u64;
            at(cpu, 10_000 * (1 + turn));
            lock.0.unlock(&held);
        })
        .unwrap();
    log.into_inner()
}

#[test]
fn three_waiters_of_a_test_and_set_lock_get_it_as_computed_by_hand() {
    // CPU 0 acquires it: the line from memory, 200, and the exchange, 20.
    //
    // Each waiter's exchange fails, and the waiter keeps the line, reads it and waits; those before it fetch it again.
    // All three have a copy when CPU 0 stores at 20,000. It gets the line from the last-level cache while the copies
    // are invalidated: max(40, 50), so the store is done at 20,050. The first waiter has the line at +90 = 20,140, from
    // CPU 0 that has modified it, the second at +40 = 20,180 from the last-level cache, and the third 10 later, 20,190.
    // The first reads 0 at +4 = 20,144. Its exchange must wait until the line does not move any more, 20,190, and then
    // takes an upgrade and the exchange: +50 +20 = 20,260. The other two read 1, since the line has a new value.
    //
    // It stores at 30,000 with two copies outside: +50 = 30,050. The first of two has the line at +90 = 30,140 and
    // reads it at +4; the second has it at +40 = 30,180, then the exchange of the first: +50 +20 = 30,250.
    //
    // At 40,000 one waits: +50 +90 = 40,140, +4, and no other CPU fetches the line: +50 +20 = 40,214.
    let mut orders = BTreeSet::new();
    for seed in 0..40 {
        let log = hand_overs(one_socket(4), seed, SpinLock::<Sim>::new());
        let times: Vec<u64> = log.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [220, 20_260, 30_250, 40_214], "seed {seed}");
        orders.insert(log.iter().map(|(_, cpu)| *cpu).collect::<Vec<u16>>());
    }
    assert_eq!(orders.len(), 6, "each order of three waiters: {orders:?}");
}

#[test]
fn three_waiters_of_a_ticket_lock_get_it_as_computed_by_hand() {
    // CPU 0 draws its ticket, 200 + 20, and reads `served`, 4. Each waiter draws a ticket, reads `served` and waits;
    // those before it fetch the line again, so all three have a copy.
    //
    // At 20,000, CPU 0 reads `served` in the last-level cache, +40, and stores it: the copies are invalidated, +50 =
    // 20,090. The waiters have the line at +90 = 20,180, +40 and +10, in an order that is drawn. CPU 1 is any of the
    // three, and reads `served` at +4: 20,184, 20,224 or 20,234. No store follows, so all copies stay.
    //
    // At 30,000, CPU 1 reads its own copy, +4, and stores, +50 = 30,054. The waiters have the line at +90 = 30,144 and
    // +40, and CPU 2 reads `served` at 30,148 or 30,188. At 40,000 it is +4 +50 +90 +4 = 40,148 for CPU 3.
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let log = hand_overs(one_socket(4), seed, TicketLock::<Sim>::new());
        assert!(
            log.iter().map(|(_, cpu)| *cpu).eq(0..4),
            "in the order of tickets"
        );
        assert_eq!((log[0].0, log[3].0), (224, 40_148), "seed {seed}");
        seen.insert((log[1].0, log[2].0));
    }
    let expected = [20_184, 20_224, 20_234].map(|first| [30_148, 30_188].map(|next| (first, next)));
    assert!(seen.into_iter().eq(expected.into_iter().flatten()));
}

/// Returns when a CPU that backs off for at most `most` cycles has read a word that another CPU writes at the times
/// given. It wakes the waiter at the last one.
fn polled(most: u32, stores: &[u64]) -> u64 {
    let hardware = Hardware {
        waiters: Waiters::BackOff(most),
        ..one_socket(2)
    };
    let (_, done) = run(hardware, 2, |cpu, lines| {
        let word = &lines[0].0;
        if cpu.id().0 == 1 {
            wait_for(word);
        } else {
            for (index, store) in stores.iter().enumerate() {
                at(cpu, *store);
                word.store(u32::from(index + 1 == stores.len()), Relaxed);
            }
            Here::wake(word);
        }
        cpu.now()
    });
    done[1]
}

#[test]
fn waiters_that_back_off_poll_less_and_less_often() {
    // The waiter reads the word at 200 and again at 204, and polls a cycle later, then 2, 4, ...: at 205, 207, 211,
    // 219, 235, 267, 331, and every 64 cycles from there on: 971, 1035, 1099. The store at 973 takes the line from its
    // owner in 60: 1033. The poll at 1035 fetches it in 90.
    assert_eq!(polled(64, &[973]), 1035 + 90);
    // A poll while the line moves waits for it: the store at 1000 is done at 1060.
    assert_eq!(polled(64, &[1000]), 1060 + 90);
    // The store at 1036 is done at 1096, before the poll at 1099.
    assert_eq!(polled(64, &[1036]), 1099 + 90);
    // A pause of 64 cycles: 268, 396, 652, 1164.
    assert_eq!(polled(4096, &[1000]), 1164 + 90);
    // The first store, at 973, does not change the word. The poll at 1035 fetches the line until 1125, the next ones
    // are at 1189 and 1253, and hit. So the store at 1200 is an upgrade, and done at 1250: the poll waits for nothing.
    assert_eq!(polled(64, &[973, 1200]), 1253 + 90);
    // The second store comes before that poll: its core still has the line alone, and it is done at 1037.
    assert_eq!(polled(64, &[973, 1033]), 1037 + 90);
}

#[test]
fn three_waiters_that_back_off_leave_the_line_to_the_holder() {
    // A failed exchange, 90 + 20, and two loads: CPU 1 waits since 2118. It polls at 2118 + 64 * (2^n - 1), from 4102
    // on without its line, which CPU 2 has taken at 4000: it has the line at +90 = 4192. It polls 2048 later, and again
    // without its line: +40 = 6280, from the last-level cache. From there on it polls every 4096: 22,664.
    //
    // CPU 2 waits since 4118. At 6102 it fetches the line from CPU 3: +90 = 6192; +2048 = 8240, and 4096 later each:
    // 20,528. CPU 3 waits since 6078, and polls at 6078 + 64 * (2^n - 1), then every 4096: 22,398.
    //
    // CPU 0 stores at 20,000. CPU 2 polls first: 20,528 +90 +50 +20 = 20,688. CPU 3 reads 1 at +90 +4
    // = 22,492 and CPU 1 at +40 +4 = 22,708. Both pause for 4096 again, twice: 30,684 and 30,900.
    //
    // CPU 2 stores at 30,000. CPU 3: 30,684 +90 +70 = 30,844. CPU 1 reads 1 at 30,900 +90 +4 = 30,994, and polls three
    // times 4096 later, after the store at 40,000: 43,282 +90 +70 = 43,442.
    let hardware = Hardware {
        waiters: Waiters::BackOff(4096),
        ..one_socket(4)
    };
    for seed in 0..4 {
        let log = hand_overs(hardware, seed, SpinLock::<Sim>::new());
        let expected = [(220, 0), (20_688, 2), (30_844, 3), (43_442, 1)];
        assert_eq!(log, expected, "no order is drawn");
    }
}

/// All CPUs wait for a word that none writes, and give up after this many polls.
#[test]
fn bounded_waits_end_although_all_cpus_wait() {
    const POLLS: u32 = 50;
    let word = SimAtomicU32::new(0);
    let run = |mut machine: Machine| {
        machine.run(Region::around(&word), |_: &mut SimCpu| {
            let mut polls = 0;
            while polls < POLLS && word.load(Relaxed) == 0 {
                <Sim>::wait(&word, 0, polls);
                polls += 1;
            }
            polls
        })
    };
    let report = run(Machine::new(3).bounded_waits()).unwrap();
    assert_eq!(report.results, [POLLS; 3]);
    let waiting = |error| match error {
        SimError::Deadlock { waiting } => waiting.len(),
        error => panic!("{error}"),
    };
    assert_eq!(run(Machine::new(3)).map_err(waiting).err(), Some(3));
    // A wait that is not bounded is still found.
    let bounded = Machine::new(3).bounded_waits().polls(POLLS / 2);
    assert_eq!(run(bounded).map_err(waiting).err(), Some(3));
}
