//! All CPUs allocate until nothing is left; then each frees what another one has.
//!
//! # Invariants
//! The frames of a CPU are a list: the first word of each is the number of the next one, plus one. So the test needs no
//! memory besides the frames.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everybuddy::{AllocateError, Index, Release, Request};

use crate::blocks::Content;
use crate::console::println;
use crate::cpus::{MAX_CPUS, count, run as run_on, with_token};
use crate::frames::{address, allocate, frames, free};

/// Frames that are freed in bulk.
const BULK: usize = 32;

/// The first frame of each CPU's list, plus one.
static LISTS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

/// Runs the test with this many free frames, and prints what it did.
pub(crate) fn run(expected: u64) {
    let taken = AtomicU64::new(0);
    run_on(count(), &|cpu| {
        let content = Content::new(cpu, 0);
        let mut last = 0;
        let error = loop {
            match allocate(Request::FRAME) {
                Ok(frame) => {
                    content.fill(frame, 1);
                    // SAFETY: the frame was allocated, and all memory is mapped to itself.
                    unsafe { (address(frame) as *mut u32).write_volatile(last) };
                    last = frame.0 + 1;
                    taken.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error, AllocateError::Exhausted, "CPU {}", cpu.0);
        LISTS[cpu.index()].store(last, Ordering::Relaxed);
        with_token(|cpu| frames().park(cpu));
    });
    let taken = taken.into_inner();
    assert_eq!(taken, expected, "frames that could be allocated");
    assert_eq!(allocate(Request::FRAME), Err(AllocateError::Exhausted));
    run_on(count(), &|cpu| {
        let owner = (cpu.index() + 1) % usize::from(count());
        let content = Content::new(everybuddy::CpuId(owner as u16), 0);
        let mut next = LISTS[owner].load(Ordering::Relaxed);
        let mut bulk = [Release::frame(Index(0)); BULK];
        let mut len = 0;
        while next > 0 {
            let frame = Index(next - 1);
            content.check(frame, 1);
            // SAFETY: as above.
            next = unsafe { (address(frame) as *const u32).read_volatile() };
            bulk[len] = Release::frame(frame);
            len += 1;
            if len == BULK {
                // Half of them are freed one by one.
                bulk[BULK / 2..].iter().for_each(|release| free(*release));
                with_token(|cpu| frames().free_bulk(cpu, &bulk[..BULK / 2]))
                    .unwrap_or_else(|error| panic!("CPU {}: {error}", cpu.0));
                len = 0;
            }
        }
        bulk[..len].iter().for_each(|release| free(*release));
        with_token(|cpu| frames().park(cpu));
    });
    println!(
        "  {:<12} {taken} frames were allocated, and freed by other CPUs",
        "exhaustion"
    );
}
