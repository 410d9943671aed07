//! The rules of assembly, by examples of kernel events.

use everybuddy_record::{Assembled, Assembly, KernelEvent, KnownProcess, KnownRegion, Scope, What};
use everybuddy_trace::{AddressRegion, Context, Event, EventFlags, Op, RegionKind};

const ROOT: u32 = 10;
const STRANGER: u32 = 99;
const HEAP: u64 = 0x5600_0000_0000;
const MAPPED: u64 = 0x7f00_0000_0000;

const MMAP: u64 = 9;
const MUNMAP: u64 = 11;
const BRK: u64 = 12;
const MREMAP: u64 = 25;
const READ: u64 = 0;

/// Emits events one microsecond apart.
struct Story {
    assembly: Assembly,
    time_ns: u64,
}

impl Story {
    fn new() -> Story {
        Story::of(Scope::Tree { root: ROOT })
    }

    fn of(scope: Scope) -> Story {
        Story {
            assembly: Assembly::new(scope),
            time_ns: 5_000_000,
        }
    }

    fn emit(&mut self, tid: u32, what: What) -> &mut Story {
        self.tell_with(tid, false, what)
    }

    fn tell_with(&mut self, tid: u32, in_interrupt: bool, what: What) -> &mut Story {
        self.time_ns += 1000;
        let (time_ns, cpu, tgid) = (self.time_ns, 0, None);
        self.assembly.push(KernelEvent {
            time_ns,
            cpu,
            tid,
            tgid,
            in_interrupt,
            what,
        });
        self
    }

    fn allocate(&mut self, tid: u32, pfn: u64, order: u32) -> &mut Story {
        let (gfp, migratetype) = (0, 1);
        self.emit(
            tid,
            What::Allocate {
                pfn,
                order,
                gfp,
                migratetype,
            },
        )
    }

    fn free(&mut self, tid: u32, pfn: u64, order: u32) -> &mut Story {
        self.emit(tid, What::Free { pfn, order })
    }

    fn fault(&mut self, tid: u32, address: u64) -> &mut Story {
        let is_user = true;
        self.emit(tid, What::Fault { address, is_user })
    }

    /// A fault that is served with one frame.
    fn touch(&mut self, tid: u32, address: u64, pfn: u64) -> &mut Story {
        self.fault(tid, address).allocate(tid, pfn, 0)
    }

    /// Begins a system call without arguments.
    fn enter(&mut self, number: u64) -> &mut Story {
        let arguments = [0; 6];
        self.emit(ROOT, What::SystemCall { number, arguments })
    }

    fn call(&mut self, tid: u32, number: u64, arguments: [u64; 6], result: u64) -> &mut Story {
        self.emit(tid, What::SystemCall { number, arguments });
        let result = result as i64;
        self.emit(tid, What::SystemCallEnd { number, result })
    }

    /// Maps anonymous memory for reading and writing.
    fn map(&mut self, tid: u32, start: u64, bytes: u64) -> &mut Story {
        self.call(tid, MMAP, [0, bytes, 3, 0x22, u64::MAX, 0], start)
    }

    fn set_break(&mut self, end: u64) -> &mut Story {
        self.call(ROOT, BRK, [end, 0, 0, 0, 0, 0], end)
    }

    fn fork(&mut self, tid: u32, child: u32, clone_flags: u64) -> &mut Story {
        self.emit(
            tid,
            What::NewTask {
                tid: child,
                clone_flags,
                name: String::new(),
            },
        )
    }

    fn exec(&mut self, tid: u32, program: &str) -> &mut Story {
        let program = program.to_string();
        self.emit(tid, What::Exec { program })
    }

    fn end(&mut self) -> Assembled {
        let assembly = std::mem::replace(&mut self.assembly, Assembly::new(Scope::Everything));
        assembly.finish("story")
    }
}

/// Returns operation, first frame, order, flags.
fn calls(assembled: &Assembled) -> Vec<(Op, u64, u8, u8)> {
    let short = |event: &Event| (event.op, event.pfn, event.order, event.flags.0);
    assembled.trace.events.iter().map(short).collect()
}

/// Returns the regions of allocations, in order; `None` for those without.
fn regions(assembled: &Assembled) -> Vec<Option<AddressRegion>> {
    let trace = &assembled.trace;
    let allocations = trace.events.iter().filter(|event| event.op == Op::Allocate);
    allocations
        .map(|event| trace.region(event.region?).copied())
        .collect()
}

fn known(assembled: &Assembled) -> Vec<AddressRegion> {
    regions(assembled).into_iter().flatten().collect()
}

fn extents(assembled: &Assembled) -> Vec<(u64, u64)> {
    let known = known(assembled).into_iter();
    known.map(|region| (region.start, region.len)).collect()
}

const DEAD: u8 = EventFlags::DEAD.0;
const PARTIAL: u8 = EventFlags::PARTIAL.0;
const SYNTHETIC: u8 = EventFlags::SYNTHETIC.0;
const AT_EXIT: u8 = EventFlags::AT_EXIT.0;
const INTERRUPT: u8 = EventFlags::INTERRUPT.0;

#[test]
fn blocks_of_the_tree_are_kept_whoever_frees_them() {
    let mut story = Story::new();
    story
        .allocate(STRANGER, 64, 0)
        .allocate(ROOT, 65, 0)
        .allocate(ROOT, 66, 0);
    story
        .free(ROOT, 64, 0)
        .free(STRANGER, 65, 0)
        .free(STRANGER, 200, 0);
    let made = story.end();
    assert_eq!(
        calls(&made),
        [
            (Op::Allocate, 65, 0, 0),
            (Op::Allocate, 66, 0, 0),
            (Op::Free, 65, 0, DEAD)
        ]
    );
    let accounts = made.accounts;
    assert_eq!(accounts.allocations_by_others, 1);
    assert_eq!(accounts.frees_by_others, 1);
    assert_eq!(accounts.unmatched_frees, 1);
    assert_eq!(accounts.unmatched_frees_by_others, 1);
    assert_eq!(accounts.allocations_seen, 3);
    assert_eq!(accounts.frees_seen, 3);
    assert_eq!(accounts.peak_frames, 2);
    let begin = made.trace.events[0].time_ns;
    assert_eq!(begin, 0, "time starts with the tree");
}

#[test]
fn a_lost_free_is_inferred_when_the_frame_is_allocated_again() {
    let mut story = Story::new();
    story
        .allocate(ROOT, 8, 1)
        .allocate(STRANGER, 9, 0)
        .allocate(ROOT, 8, 0);
    let made = story.end();
    assert_eq!(
        calls(&made),
        [
            (Op::Allocate, 8, 1, 0),
            (Op::Free, 9, 0, SYNTHETIC | PARTIAL),
            (Op::Free, 8, 0, SYNTHETIC | PARTIAL | DEAD),
            (Op::Allocate, 8, 0, 0),
        ]
    );
    assert_eq!(made.accounts.inferred_frees, 2);
}

#[test]
fn parts_of_a_block_are_freed_one_by_one() {
    let mut story = Story::new();
    story
        .allocate(ROOT, 16, 2)
        .free(ROOT, 17, 0)
        .free(ROOT, 18, 1)
        .free(ROOT, 16, 0);
    let made = story.end();
    let frees = [(17, 0, PARTIAL), (18, 1, PARTIAL), (16, 0, PARTIAL | DEAD)];
    let frees = frees.map(|(pfn, order, flags)| (Op::Free, pfn, order, flags));
    assert_eq!(calls(&made)[1..], frees);
    assert_eq!(made.accounts.partial_frees, 3);
}

#[test]
fn a_free_of_several_blocks_is_one_for_each() {
    let mut story = Story::new();
    story
        .allocate(ROOT, 0, 0)
        .allocate(STRANGER, 1, 0)
        .allocate(ROOT, 2, 1)
        .free(ROOT, 0, 2);
    let made = story.end();
    assert_eq!(
        calls(&made)[2..],
        [(Op::Free, 0, 0, DEAD), (Op::Free, 2, 1, DEAD)]
    );
    assert_eq!(made.accounts.spread_frees, 1);
}

#[test]
fn impossible_events_are_counted_and_left_out() {
    let mut story = Story::new();
    story
        .allocate(ROOT, 8, 19)
        .free(ROOT, 8, u32::MAX)
        .allocate(ROOT, 9, 1);
    story
        .emit(ROOT, What::Refuse { order: 4 })
        .emit(STRANGER, What::Refuse { order: 4 });
    let made = story.end();
    let accounts = &made.accounts;
    assert!(made.trace.events.is_empty());
    assert_eq!((accounts.odd_orders, accounts.misaligned), (2, 1));
    assert_eq!((accounts.refusals_seen, accounts.refusals), (2, 1));
}

#[test]
fn time_never_runs_back() {
    let mut story = Story::new();
    story.allocate(ROOT, 1, 0);
    story.time_ns -= 3000;
    story.allocate(ROOT, 2, 0);
    let made = story.end();
    assert_eq!(made.trace.events[1].time_ns, made.trace.events[0].time_ns);
    assert_eq!(made.accounts.early, 1);
}

#[test]
fn the_context_is_that_of_the_last_thing_the_thread_did() {
    let mut story = Story::new();
    story.map(ROOT, MAPPED, 0x4000).allocate(ROOT, 1, 0);
    story.touch(ROOT, MAPPED, 2);
    story.enter(READ).allocate(ROOT, 3, 0);
    let fault = What::Fault {
        address: MAPPED + 0x1000,
        is_user: false,
    };
    // The page of the fault, then the pages of the call itself.
    story
        .emit(ROOT, fault)
        .allocate(ROOT, 4, 0)
        .allocate(ROOT, 5, 0);
    let what = What::Allocate {
        pfn: 6,
        order: 0,
        gfp: 0,
        migratetype: 0,
    };
    story.tell_with(ROOT, true, what);
    story
        .emit(ROOT, What::Exit)
        .allocate(ROOT, 7, 0)
        .free(ROOT, 2, 0);
    let made = story.end();
    let contexts: Vec<_> = made
        .trace
        .events
        .iter()
        .map(|event| (Context::from_value(event.context), event.sysno))
        .collect();
    let none = Event::NO_SYSTEM_CALL;
    assert_eq!(
        contexts,
        [
            (Context::Unknown, none),
            (Context::UserFault, none),
            (Context::SystemCall, 0),
            (Context::KernelFault, 0),
            (Context::SystemCall, 0),
            (Context::Interrupt, none),
            (Context::Exiting, none),
            (Context::Exiting, none),
        ]
    );
    let flags: Vec<u8> = made.trace.events[5..]
        .iter()
        .map(|event| event.flags.0)
        .collect();
    assert_eq!(flags, [INTERRUPT, 0, DEAD | AT_EXIT]);
    let faults: Vec<_> = made
        .trace
        .faults
        .iter()
        .map(|fault| (fault.row, fault.vpn))
        .collect();
    assert_eq!(faults, [(1, MAPPED >> 12), (3, (MAPPED >> 12) + 1)]);
    assert_ne!(made.trace.faults[0].sequence, made.trace.faults[1].sequence);
}

#[test]
fn adjacent_anonymous_mappings_are_one_region() {
    let mut story = Story::new();
    story
        .map(ROOT, MAPPED, 0x2000)
        .map(ROOT, MAPPED + 0x3000, 0x1000);
    story.touch(ROOT, MAPPED, 1).touch(ROOT, MAPPED + 0x3000, 2);
    // A mapping that joins both merges them; then a read-only one, which stays separate.
    story
        .map(ROOT, MAPPED + 0x2000, 0x1000)
        .touch(ROOT, MAPPED + 0x3000, 3);
    story.call(ROOT, MMAP, [0, 0x1000, 1, 0x22, 0, 0], MAPPED + 0x4000);
    story.touch(ROOT, MAPPED + 0x4fff, 4);
    let made = story.end();
    let whole = (MAPPED, 0x4000);
    let parts = [
        whole,
        (MAPPED + 0x3000, 0x1000),
        whole,
        (MAPPED + 0x4000, 0x1000),
    ];
    assert_eq!(extents(&made), parts);
    assert_eq!(made.accounts.faults_in_mapped, 4);
}

#[test]
fn mappings_of_files_and_stacks_stay_apart() {
    let mut story = Story::new();
    let stack = 0x22 | 0x2_0000;
    for (place, flags, fd) in [
        (0, 2, 3),
        (1, 2, 3),
        (2, stack, u64::MAX),
        (3, stack, u64::MAX),
    ] {
        let start = MAPPED + place * 0x1000;
        story
            .call(ROOT, MMAP, [0, 0x1000, 3, flags, fd, 0], start)
            .touch(ROOT, start, place);
    }
    let made = story.end();
    let kinds: Vec<_> = known(&made).iter().map(|r| (r.kind, r.fd)).collect();
    use RegionKind::{Anonymous, File};
    assert_eq!(
        kinds,
        [(File, 3), (File, 3), (Anonymous, -1), (Anonymous, -1)]
    );
    assert_eq!(made.trace.regions.len(), 4);
}

#[test]
fn unmapping_leaves_both_ends_and_remapping_moves() {
    let mut story = Story::new();
    story.map(ROOT, MAPPED, 0x3000);
    story.call(ROOT, MUNMAP, [MAPPED + 0x1000, 0x1000, 0, 0, 0, 0], 0);
    story.touch(ROOT, MAPPED, 1).touch(ROOT, MAPPED + 0x2000, 2);
    // No mapping is left: a loader's mapping is inferred, between the two ends.
    story.touch(ROOT, MAPPED + 0x1000, 3);
    let far = MAPPED + 0x100_0000;
    story
        .call(ROOT, MREMAP, [MAPPED, 0x1000, 0x8000, 1, 0, 0], far)
        .touch(ROOT, far + 0x7000, 4);
    let made = story.end();
    let found = known(&made);
    assert_eq!(found[0], found[1]);
    assert_eq!(found[2].kind, RegionKind::Other);
    assert_eq!(found[2].start, MAPPED + 0x1000);
    assert_eq!(found[2].len, 0x1000);
    assert_eq!(found[3].number, found[0].number);
    assert_eq!((found[3].start, found[3].len), (far, 0x8000));
}

#[test]
fn calls_that_fail_change_nothing() {
    let mut story = Story::new();
    story.map(ROOT, MAPPED, 0x1000);
    story.call(ROOT, MUNMAP, [MAPPED, 0x1000, 0, 0, 0, 0], -22i64 as u64);
    story.call(ROOT, MMAP, [0, 0x1000, 3, 0x22, 0, 0], -12i64 as u64);
    // The return of another call than the last one is ignored.
    let (number, result) = (BRK, HEAP as i64);
    story.emit(ROOT, What::SystemCallEnd { number, result });
    story.touch(ROOT, MAPPED, 1);
    assert_eq!(extents(&story.end()), [(MAPPED, 0x1000)]);
}

#[test]
fn the_heap_grows_from_the_first_break() {
    let mut story = Story::new();
    story
        .set_break(HEAP + 0x800)
        .set_break(HEAP + 0x3000)
        .touch(ROOT, HEAP + 0x1000, 1);
    story.set_break(HEAP + 0x5000).touch(ROOT, HEAP + 0x4000, 2);
    story.set_break(HEAP + 0x2000).touch(ROOT, HEAP + 0x4000, 3);
    let found = known(&story.end());
    assert_eq!(found[0].kind, RegionKind::Heap);
    assert_eq!(found[0].start, HEAP + 0x1000);
    assert_eq!(found[0].len, 0x4000);
    assert_eq!(found[0], found[1]);
    assert_eq!(
        found[2].kind,
        RegionKind::Image,
        "beyond the heap everything is inferred"
    );
}

#[test]
fn a_fork_copies_regions_a_thread_shares_them_and_exec_begins_anew() {
    let (child, thread) = (11, 12);
    let mut story = Story::new();
    story.map(ROOT, MAPPED, 0x2000).touch(ROOT, MAPPED, 1);
    story
        .fork(ROOT, thread, What::CLONE_THREAD | 0x100)
        .fork(ROOT, child, 0);
    story.touch(thread, MAPPED, 2).touch(child, MAPPED, 3);
    story.exec(child, "/usr/bin/tool").touch(child, MAPPED, 4);
    let made = story.end();
    let found = known(&made);
    assert_eq!(found[0], found[1], "a thread works in its process's memory");
    assert_eq!(found[2].tgid, child);
    assert_eq!(found[2].start, MAPPED);
    assert_eq!(found[2].len, 0x2000);
    assert!(found[2].number != found[0].number && found[2].created_ns > found[0].created_ns);
    assert_eq!((found[3].kind, found[3].tgid), (RegionKind::Other, child));
    let processes = &made
        .trace
        .metadata
        .iter()
        .find(|(key, _)| key == "processes")
        .unwrap()
        .1;
    assert!(processes.contains("[11,10,11,"), "{processes}");
    assert!(processes.contains("\"tool\"]"), "{processes}");
    assert!(processes.contains("[12,10,10,"), "{processes}");
    assert_eq!((made.accounts.tasks, made.accounts.processes), (3, 2));
}

#[test]
fn a_child_that_borrows_its_makers_memory_gives_it_back_with_exec() {
    let child = 11;
    let mut story = Story::new();
    story.map(ROOT, MAPPED, 0x1000).fork(ROOT, child, 0x4100);
    story
        .touch(child, MAPPED, 1)
        .exec(child, "tool")
        .touch(ROOT, MAPPED, 2);
    let found = known(&story.end());
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].tgid, ROOT);
}

#[test]
fn what_exec_maps_is_guessed_from_the_address() {
    let mut story = Story::new();
    let stack = 0x7fff_ff00_0000;
    story.touch(ROOT, stack, 1).touch(ROOT, stack - 0x1000, 2);
    story
        .touch(ROOT, HEAP, 3)
        .touch(ROOT, MAPPED, 4)
        .touch(ROOT, 1 << 60, 5);
    let made = story.end();
    let kinds: Vec<_> = regions(&made)
        .into_iter()
        .map(|r| r.map(|r| r.kind))
        .collect();
    use RegionKind::{Image, Other, Stack};
    assert_eq!(
        kinds,
        [Some(Stack), Some(Stack), Some(Image), Some(Other), None]
    );
    assert_eq!(
        made.trace.regions.len(),
        3,
        "a stack that grows is one region"
    );
    let accounts = made.accounts;
    assert_eq!(accounts.faults_in_guessed, 4);
    assert_eq!(accounts.faults_in_none, 1);
    assert_eq!(accounts.region_share(), 0.8);
}

#[test]
fn the_whole_machine_knows_who_was_there_before() {
    let mut story = Story::of(Scope::Everything);
    story.assembly.leave_out(&[STRANGER]);
    story.assembly.register_known(&KnownProcess {
        tgid: 20,
        parent: 1,
        program: "/sbin/daemon".to_string(),
        threads: vec![20, 21],
        regions: vec![KnownRegion {
            start: HEAP,
            end: HEAP + 0x4000,
            prot: 3,
            flags: 0x22,
            kind: RegionKind::Heap,
        }],
    });
    story
        .touch(21, HEAP, 1)
        .allocate(STRANGER, 2, 0)
        .allocate(30, 3, 0);
    let made = story.end();
    let pids: Vec<_> = made.trace.events.iter().map(|event| event.pid).collect();
    assert_eq!(pids, [21, 30]);
    let heap = regions(&made)[0].unwrap();
    assert_eq!(heap.kind, RegionKind::Heap);
    assert_eq!(heap.tgid, 20);
    assert_eq!(heap.len, 0x4000);
    assert_eq!(made.accounts.faults_in_mapped, 1);
    assert_eq!(made.accounts.tasks, 3);
}

#[test]
fn an_exit_is_seen_early_by_the_call_that_begins_it() {
    let mut story = Story::new();
    story.allocate(ROOT, 1, 0);
    story.enter(231);
    story.free(ROOT, 1, 0).emit(ROOT, What::Exit);
    let made = story.end();
    assert_eq!(calls(&made)[1], (Op::Free, 1, 0, DEAD | AT_EXIT));
    assert_eq!(made.accounts.exits_seen, 1);
}
