//! Waits for the zone's lock: pairs of begin and end, whose lock it was, and every format in which kernels report them.

use std::collections::HashMap;
use std::path::Path;

use everybuddy_record::{
    Accounts, Assembled, Assembly, ImportOptions, Imported, KernelEvent, Scope, What, import,
    import_stream,
};
use everybuddy_trace::{Acquisition, LockSource};
use proptest::prelude::*;

const ZONE: u64 = 0x1000;
const LRU: u64 = 0x2000;
const QUEUE: u64 = 0x3000;
const MUTEX: u64 = 0x4000;
const CPUS: u16 = 3;

/// What a CPU does, as a list of events; every CPU runs one thread, whose number is that of the CPU and 10.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It waits for this lock; whether an interrupt waits for another lock meanwhile.
    Wait(u64, bool),
    /// It sleeps at a mutex and continues.
    Sleep,
    /// It allocates.
    Call,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = |lock| any::<bool>().prop_map(move |nested| Step::Wait(lock, nested));
    let step = prop_oneof![wait(ZONE), wait(LRU), Just(Step::Sleep), Just(Step::Call)];
    proptest::collection::vec(step, 0..12)
}

fn begin(lock: u64) -> What {
    let is_spin = lock != MUTEX;
    What::ContentionBegin { lock, is_spin }
}

fn end(lock: u64) -> What {
    let is_acquired = true;
    What::ContentionEnd { lock, is_acquired }
}

fn events(step: Step, pfn: &mut u64) -> Vec<What> {
    let caller = |is_allocator: bool| What::LockCaller {
        allocator: is_allocator.then_some("rmqueue_bulk"),
    };
    match step {
        Step::Wait(lock, nested) => {
            let mut all = vec![begin(lock)];
            if nested {
                all.extend([begin(QUEUE), end(QUEUE), caller(false)]);
            }
            all.extend([end(lock), caller(lock == ZONE)]);
            all
        }
        Step::Sleep => vec![begin(MUTEX), end(MUTEX), caller(false)],
        Step::Call => {
            *pfn += 1;
            vec![What::Allocate {
                pfn: *pfn,
                order: 0,
                gfp: 0,
                migratetype: 0,
            }]
        }
    }
}

/// Interleaves the events of all CPUs: `order` chooses the CPU of each, and how much time passes before.
fn interleaved(programs: &[Vec<Step>], order: &[(u16, u16)]) -> Vec<KernelEvent> {
    let mut pfn = 0;
    let mut left: Vec<Vec<What>> = programs
        .iter()
        .map(|steps| {
            let all = steps.iter().flat_map(|step| events(*step, &mut pfn));
            all.collect::<Vec<_>>().into_iter().rev().collect()
        })
        .collect();
    let (mut all, mut time_ns, mut turns) = (Vec::new(), 0, order.iter().cycle());
    while left.iter().any(|events| !events.is_empty()) {
        let (choice, pause) = turns.next().copied().unwrap_or_default();
        let ready = (0..CPUS).filter(|cpu| !left[usize::from(*cpu)].is_empty());
        let ready: Vec<u16> = ready.collect();
        let cpu = ready[usize::from(choice) % ready.len()];
        time_ns += 1 + u64::from(pause);
        let what = left[usize::from(cpu)].pop().unwrap();
        all.push(event(time_ns, cpu, what));
    }
    all
}

fn event(time_ns: u64, cpu: u16, what: What) -> KernelEvent {
    KernelEvent {
        time_ns,
        cpu,
        tid: 10 + u32::from(cpu),
        tgid: None,
        in_interrupt: false,
        what,
    }
}

fn assembled(events: &[KernelEvent]) -> Assembled {
    let mut assembly = Assembly::new(Scope::Everything);
    // The trace begins at 0.
    assembly.push(event(0, 0, What::Exit));
    for event in events {
        assembly.push(event.clone());
    }
    assembly.finish("made")
}

/// The waits for the zone's lock, found in the slowest and plainest way: in what each CPU does alone.
fn waits(events: &[KernelEvent], lock: u64) -> Vec<(u64, u16, u64)> {
    let mut found = Vec::new();
    for cpu in 0..CPUS {
        let own: Vec<_> = events.iter().filter(|event| event.cpu == cpu).collect();
        for (place, first) in own.iter().enumerate() {
            if first.what != begin(lock) {
                continue;
            }
            let last = own[place..].iter().find(|event| event.what == end(lock));
            if let Some(last) = last {
                found.push((last.time_ns, cpu, last.time_ns - first.time_ns));
            }
        }
    }
    found.sort_unstable();
    found
}

fn kept(made: &Assembled) -> Vec<(u64, u16, u64)> {
    let of = |own: &Acquisition| (own.time_ns, own.cpu, own.wait_ns);
    let mut kept: Vec<_> = made.trace.acquisitions.iter().map(of).collect();
    kept.sort_unstable();
    kept
}

/// The beginnings of waits at spin locks, and where they are counted.
fn balance(events: &[KernelEvent], accounts: &Accounts) -> (u64, u64) {
    let is_begin =
        |event: &&KernelEvent| matches!(event.what, What::ContentionBegin { is_spin: true, .. });
    let begins = events.iter().filter(is_begin).count() as u64;
    let counted = accounts.acquisitions
        + accounts.waits_for_others
        + accounts.waits_of_unknown_locks
        + accounts.waits_unfinished
        + accounts.waits_overlapping;
    (begins, counted)
}

fn programs() -> impl Strategy<Value = Vec<Vec<Step>>> {
    proptest::collection::vec(steps(), usize::from(CPUS))
}

fn order() -> impl Strategy<Value = Vec<(u16, u16)>> {
    proptest::collection::vec((0..CPUS, 0u16..5000), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_wait_is_found_once_in_any_interleaving(programs in programs(), order in order()) {
        let events = interleaved(&programs, &order);
        let made = assembled(&events);
        prop_assert_eq!(kept(&made), waits(&events, ZONE));
        let accounts = &made.accounts;
        let others = waits(&events, LRU).len() + waits(&events, QUEUE).len();
        prop_assert_eq!(accounts.waits_for_others, others as u64);
        let unpaired = accounts.waits_unfinished + accounts.ends_unmatched + accounts.waits_overlapping;
        prop_assert_eq!(unpaired, 0);
        let (begins, counted) = balance(&events, accounts);
        prop_assert_eq!(begins, counted);
    }

    /// Whatever was lost, a wait that is kept has happened: nothing is paired across a gap.
    #[test]
    fn lost_events_make_no_waits(
        programs in programs(),
        order in order(),
        gaps in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..8, any::<bool>()), 1..6),
    ) {
        let all = interleaved(&programs, &order);
        prop_assume!(!all.is_empty());
        let mut is_lost = vec![false; all.len()];
        let mut is_told = HashMap::new();
        for (place, length, knows_cpu) in gaps {
            // A gap is in the buffer of one CPU.
            let first = place.index(all.len());
            let cpu = all[first].cpu;
            let own = (first..all.len()).filter(|at| all[*at].cpu == cpu);
            for at in own.take(length) {
                is_lost[at] = true;
                is_told.insert(at, knows_cpu.then_some(cpu));
            }
        }
        let mut left = Vec::new();
        let mut seen = Vec::new();
        for (at, event) in all.iter().enumerate() {
            if is_lost[at] {
                let what = What::Lost { cpu: is_told[&at] };
                left.push(KernelEvent { what, ..event.clone() });
            } else {
                left.push(event.clone());
                seen.push(event.clone());
            }
        }
        let made = assembled(&left);
        let real = waits(&all, ZONE);
        for wait in kept(&made) {
            prop_assert!(real.contains(&wait), "{wait:?} is not among {real:?}");
        }
        let (begins, counted) = balance(&seen, &made.accounts);
        prop_assert_eq!(begins, counted);
    }

    /// Any events of locks at all: nothing overlaps, and every begin is counted.
    #[test]
    fn any_order_of_begins_and_ends_is_accounted_for(
        choices in proptest::collection::vec((0u16..2, 0u8..9, 1u64..3000), 0..80),
    ) {
        let mut time_ns = 0;
        let locks = [ZONE, LRU, MUTEX];
        let events: Vec<KernelEvent> = choices.iter().map(|(cpu, what, pause)| {
            time_ns += pause;
            let lock = locks[usize::from(what % 3)];
            let what = match what / 3 {
                0 => begin(lock),
                1 => end(lock),
                _ => What::LockCaller { allocator: (lock == ZONE).then_some("rmqueue_bulk") },
            };
            event(time_ns, *cpu, what)
        }).collect();
        let made = assembled(&events);
        let (begins, counted) = balance(&events, &made.accounts);
        prop_assert_eq!(begins, counted);
        prop_assert_eq!(made.trace.acquisitions.len() as u64, made.accounts.acquisitions);
        let mut cpus = everybuddy_trace::OnCpus::default();
        for own in &made.trace.acquisitions {
            prop_assert!(cpus.admit(own).is_ok(), "{own:?}");
            // It lasts from a begin to an end of the same lock.
            let is_at = |time_ns, what: What| {
                let mut all = events.iter().filter(|event| event.cpu == own.cpu);
                all.any(|event| (event.time_ns, &event.what) == (time_ns, &what))
            };
            let lasts = |lock| {
                is_at(own.time_ns - own.wait_ns, begin(lock)) && is_at(own.time_ns, end(lock))
            };
            prop_assert!(lasts(ZONE) || lasts(LRU), "{own:?}");
        }
    }
}

#[test]
fn a_trace_of_a_tree_keeps_the_waits_of_its_tasks() {
    let mut assembly = Assembly::new(Scope::Tree { root: 10 });
    let caller = What::LockCaller {
        allocator: Some("free_one_page"),
    };
    let mut at = 100;
    for cpu in [0, 1] {
        for what in [begin(ZONE), end(ZONE), caller.clone()] {
            at += 50;
            assembly.push(event(at, cpu, what));
        }
    }
    let made = assembly.finish("made");
    // The trace begins with the first event of its tree, which is that of the begin; thread 11 is outside of it.
    assert_eq!(made.accounts.acquisitions_by_others, 1);
    let own = made.trace.acquisitions;
    assert_eq!((own.len(), own[0].pid, own[0].wait_ns), (1, 10, 50));
}

#[test]
fn without_evidence_no_lock_is_a_zones() {
    let events = [
        event(100, 0, begin(ZONE)),
        event(200, 0, end(ZONE)),
        event(300, 0, begin(LRU)),
        event(400, 0, end(LRU)),
    ];
    let made = assembled(&events);
    assert_eq!(made.accounts.waits_of_unknown_locks, 2);
    assert!(made.trace.acquisitions.is_empty());
    // The user knows.
    let mut assembly = Assembly::new(Scope::Everything);
    assembly.name_zone_locks(&[ZONE]);
    for event in events {
        assembly.push(event);
    }
    let made = assembly.finish("made");
    assert_eq!(made.accounts.waits_for_others, 1);
    assert_eq!(made.trace.acquisitions.len(), 1);
}

#[test]
fn events_under_the_zones_lock_show_which_it_is() {
    let mut events = Vec::new();
    let mut at = 0;
    for (lock, is_held) in [(ZONE, true), (LRU, false), (ZONE, false), (LRU, false)] {
        for what in [begin(lock), end(lock)] {
            at += 10_000;
            events.push(event(at, 0, what));
        }
        let what = if is_held {
            What::ZoneLockHeld
        } else {
            What::Exit
        };
        events.push(event(at + 10, 0, what));
        // It says nothing about a lock that was waited for before.
        events.push(event(at + 20, 0, What::ZoneLockHeld));
    }
    let made = assembled(&events);
    assert_eq!(made.accounts.acquisitions, 2);
    assert_eq!(made.accounts.waits_for_others, 2);
}

fn imported(text: &str) -> Imported {
    import_stream(text.as_bytes(), "made", ImportOptions::default()).unwrap()
}

fn only(imported: &Imported) -> &[Acquisition] {
    assert_eq!(imported.log.unclear, 0, "{}", imported.log);
    &imported.trace.acquisitions
}

/// A text with one allocation and these events of thread 7 on CPU 1: time in microseconds, event, fields.
fn text(style: &str, system: &str, events: &[(u32, &str, &str)]) -> String {
    let page = (
        1,
        "mm_page_alloc",
        "page=0x1 pfn=0x10 order=0 migratetype=1 gfp_flags=0",
    );
    let mut text = String::new();
    for (at, event, fields) in [page].iter().chain(events) {
        let system = if *at == 1 { "kmem" } else { system };
        text += &match style {
            "perf" => format!("  sh  7 [001] 5.{at:06}: {system}:{event}: {fields}\n"),
            "ftrace" => format!("  sh-7   [001] d..2. 5.{at:06}: {event}: {fields}\n"),
            _ => format!("  sh-7   [001]  5.{at:06}: {event}: {fields}\n"),
        };
        text += match (*event, style) {
            ("contention_end", "perf") => {
                "\tffffffff810a1b2c __pv_queued_spin_lock_slowpath+0x1c ([kernel.kallsyms])\n\
                 \tffffffff812a1b2c rmqueue_bulk+0x5f ([kernel.kallsyms])\n\
                 \tffffffff812a1b2d get_page_from_freelist+0x5f ([kernel.kallsyms])\n\n"
            }
            ("contention_end", "ftrace") => {
                "  sh-7   [001] d..2. 5.000009: <stack trace>\n => trace_event_raw_event_contention_end\n \
                 => _raw_spin_lock_irqsave\n => free_one_page\n => free_pg_vec\n"
            }
            ("contention_end", _) => {
                "  sh-7   [001]  5.000009: kernel_stack:         <stack trace >\n\
                 => _raw_spin_lock_irqsave (ffffffff810a1b2c)\n=> free_pcppages_bulk (ffffffff812a1b2c)\n"
            }
            _ => "",
        };
    }
    text
}

const STYLES: [&str; 3] = ["perf", "ftrace", "trace-cmd"];

#[test]
fn contention_is_read_from_every_text() {
    for style in STYLES {
        let lock = if style == "perf" {
            "0xffff88813fffa5c0"
        } else {
            "0000000021018bee"
        };
        let begin = format!("{lock} (flags=SPIN)");
        let end = format!("{lock} (ret=0)");
        let events = [
            (5, "contention_begin", &*begin),
            (8, "contention_end", &*end),
        ];
        let made = imported(&text(style, "lock", &events));
        let expected = Acquisition {
            time_ns: 7_000,
            wait_ns: 3_000,
            pid: 7,
            cpu: 1,
            source: LockSource::Contention as u8,
            ..Acquisition::default()
        };
        assert_eq!(only(&made), [expected], "{style}");

        // A mutex, a reader's lock, a wait that was given up, and an end alone.
        let other = [
            (5, "contention_begin", "0000000021018bee (flags=MUTEX)"),
            (6, "contention_end", "0000000021018bee (ret=0)"),
            (7, "contention_begin", "0000000021018bef (flags=READ|SPIN)"),
            (8, "contention_end", "0000000021018bef (ret=0)"),
            (9, "contention_begin", "0000000021018bea (flags=SPIN)"),
            (10, "contention_end", "0000000021018bea (ret=-4)"),
            (11, "contention_end", "0000000021018beb (ret=0)"),
        ];
        let made = imported(&text(style, "lock", &other));
        assert_eq!(only(&made), [], "{style}");
        assert_eq!(made.accounts.unwrap().ends_unmatched, 1);
    }
}

#[test]
fn acquisitions_with_waits_and_batches_are_read_from_every_text() {
    for style in STYLES {
        let many = "node=0 zone=Normal count=63 caller=rmqueue_bulk";
        let one = "node=0 zone=Normal count=1 caller=free_one_page";
        let waited = many.replace("caller", "contended=1 wait_ns=812 caller");
        let not_waited = one.replace("caller", "contended=0 wait_ns=0 caller");
        let events = [
            (4, "mm_zone_lock_contended", many),
            (5, "mm_zone_locked", &*waited),
            (7, "mm_zone_lock_unlock", many),
            (9, "mm_zone_locked", &*not_waited),
            (10, "mm_zone_lock_unlock", one),
            (11, "mm_zone_lock_unlock", one),
        ];
        let made = imported(&text(style, "kmem", &events));
        let own = only(&made).iter();
        let own = own.map(|own| (own.time_ns, own.wait_ns, own.hold_ns, own.batch, own.source));
        let source = LockSource::ZoneLocked as u8;
        let expected = [
            (4_000, 812, 2_000, 63, source),
            (8_000, 0, 1_000, 1, source),
        ];
        assert_eq!(own.collect::<Vec<_>>(), expected, "{style}");
        assert_eq!(made.log.repeated, 1);
        assert_eq!(made.accounts.unwrap().ends_unmatched, 1);
    }
}

#[test]
fn holders_and_waiters_are_read_from_every_text() {
    for style in STYLES {
        let zone = "zone=00000000abcdef01";
        let [got, failed] = [true, false].map(|success| format!("{zone} success={success}"));
        let (wanted, returned) = ("zone_lock_start_locking", "zone_lock_acquire_returned");
        let events = [
            (5, wanted, zone),
            (8, returned, &*got),
            (12, "zone_lock_released", zone),
            // As fast as the events themselves: the lock was free.
            (20, wanted, zone),
            (20, returned, &*got),
            (21, "zone_lock_released", zone),
            (30, wanted, zone),
            (39, returned, &*failed),
            (40, returned, &*got),
        ];
        let made = imported(&text(style, "zone_lock", &events));
        let own = only(&made).iter();
        let own = own.map(|own| (own.time_ns, own.wait_ns, own.hold_ns, own.source));
        let source = LockSource::ZoneLock as u8;
        let expected = [(7_000, 3_000, 4_000, source), (19_000, 0, 1_000, source)];
        assert_eq!(own.collect::<Vec<_>>(), expected, "{style}");
        assert_eq!(made.accounts.unwrap().ends_unmatched, 1);
    }
}

#[test]
fn the_best_events_win_and_the_others_repeat_them() {
    let events = [
        (4, "contention_begin", "0000000021018bee (flags=SPIN)"),
        (5, "contention_end", "0000000021018bee (ret=0)"),
        (
            6,
            "mm_zone_locked",
            "node=0 zone=Normal count=63 contended=1 wait_ns=900 caller=x",
        ),
    ];
    let made = imported(&text("ftrace", "lock", &events));
    assert_eq!(only(&made).len(), 1);
    assert_eq!(made.trace.acquisitions[0].wait_ns, 900);
    assert_eq!(made.accounts.unwrap().acquisitions_repeated, 1);
}

#[test]
fn malformed_events_of_locks_are_reported_with_their_line() {
    for bad in [
        "contention_begin: (flags=SPIN)",
        "contention_begin: 0000000021018bee (flags=SPIN",
        "contention_begin: 0000000021018bee (ret=0)",
        "contention_end: 0000000021018bee (ret=x)",
        "contention_end: zzz (ret=0)",
        "mm_zone_locked: node=0 count=3",
        "zone_lock_acquire_returned: zone=00ab success=maybe",
        "zone_lock_released: zone=",
    ] {
        let text = text("ftrace", "kmem", &[]) + &format!("  sh-7   [001] d..2. 5.000005: {bad}\n");
        let made = imported(&text);
        let meant_for_end = bad.starts_with("contention_begin") && bad.ends_with("(ret=0)");
        if meant_for_end {
            // Its fields are those of an end.
            assert_eq!(made.accounts.unwrap().ends_unmatched, 1, "{bad}");
            continue;
        }
        assert_eq!(made.log.unclear, 1, "{bad}");
        assert_eq!(made.log.complaints[0].0, 2, "{bad}");
    }
}

#[test]
fn messages_about_lost_events_end_waits() {
    for message in ["CPU:1 [LOST 17 EVENTS]", "CPU:0 [LOST 17 EVENTS]"] {
        let events = [
            (5, "contention_begin", "0000000021018bee (flags=SPIN)"),
            (8, "contention_end", "0000000021018bee (ret=0)"),
        ];
        let [begin, end] = events.map(|event| text("ftrace", "lock", &[event]));
        let end = end.split_once('\n').unwrap().1;
        let made = imported(&format!("{begin}{message}\n{end}"));
        let is_of_cpu = message.contains(":1");
        assert_eq!(made.log.lost, 17);
        assert_eq!(only(&made).is_empty(), is_of_cpu, "{message}");
        let accounts = made.accounts.unwrap();
        let expected = u64::from(is_of_cpu);
        assert_eq!(accounts.waits_unfinished, expected);
        assert_eq!(accounts.ends_unmatched, expected);
    }
}

/// Real waits: the zone's lock was found among those of the tracer. The text of ftrace ends within a wait.
#[test]
fn the_zones_lock_of_a_real_recording_is_found() {
    for (name, kept, others, unfinished) in [
        ("ftrace-locks.txt", 23, 1, 1),
        ("perf-script-locks.txt", 4, 0, 0),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let made = import(&folder.join(name), ImportOptions::default()).unwrap();
        let log = &made.log;
        assert_eq!((log.unclear, log.lost), (0, 0), "{name}: {log}");
        let accounts = made.accounts.unwrap();
        assert_eq!(accounts.acquisitions, kept, "{name}: {accounts:?}");
        assert_eq!(accounts.waits_for_others, others, "{name}");
        assert_eq!(accounts.waits_unfinished, unfinished, "{name}");
        assert_eq!(accounts.waits_of_unknown_locks, 0, "{name}");
        assert!(made.trace.acquisitions.iter().all(Acquisition::waited));
    }
}
