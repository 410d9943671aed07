//! Frames that several users share: a count for each frame, in memory of the kernel. A frame is freed with its last
//! share.
//!
//! A system knows which frames are allocated, but not how many page tables map one. The counts are separate, so frames
//! that are not shared cost nothing more. A share can neither be copied nor be released twice: it is a value that
//! `release` takes. It has no `Drop`, since a free needs the token of a CPU.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use everybuddy::prelude::*;

/// A share of a frame.
#[must_use = "a share that is lost keeps its frame allocated"]
struct Share(Index);

struct Shared<'a, S> {
    frames: &'a S,
    /// The shares of each frame of the span; 0 for frames that are not shared.
    counts: &'a [AtomicU32],
}

impl<S: FrameAllocator<Native>> Shared<'_, S> {
    /// Allocates a frame with one share.
    fn allocate(&self, cpu: &mut NativeCpu) -> Result<Share, AllocateError> {
        let frame = self.frames.allocate(cpu, Request::FRAME)?;
        self.count(frame).store(1, Ordering::Relaxed);
        Ok(Share(frame))
    }

    /// Returns another share, or `None` if there are too many. The caller has one, so the frame stays allocated.
    fn share(&self, share: &Share) -> Option<Share> {
        let add = |count: u32| count.checked_add(1);
        let count = self.count(share.0);
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .ok()?;
        Some(Share(share.0))
    }

    /// Says whether this is the only share: its user may write without copying the frame.
    fn is_only(&self, share: &Share) -> bool {
        // Acquire: pairs with the release of those that gave theirs up.
        self.count(share.0).load(Ordering::Acquire) == 1
    }

    /// Gives up a share. Returns whether this freed the frame.
    fn release(&self, cpu: &mut NativeCpu, share: Share) -> Result<bool, FreeError> {
        // Release: what this user did with the frame happens before its next use.
        if self.count(share.0).fetch_sub(1, Ordering::Release) > 1 {
            return Ok(false);
        }
        // Pairs with the release of the other users.
        fence(Ordering::Acquire);
        self.frames.free(cpu, Release::frame(share.0))?;
        Ok(true)
    }

    fn count(&self, frame: Index) -> &AtomicU32 {
        &self.counts[frame.0 as usize]
    }
}

pub(crate) fn main() {
    const CPUS: u16 = 4;
    const FRAMES: u32 = 1000;
    let ranges = [FrameRange::new(Pfn(0x100), 0x700)];
    let setup = Setup::new(&ranges, CPUS);
    let bytes = layout::<Everybuddy, Native>(&Options::NONE, &setup).expect("the setup is valid");
    let mut memory = vec![MaybeUninit::uninit(); bytes.size() + bytes.align()];
    let system = build::<Everybuddy, Native>(&Options::NONE, &setup, Memory::new(&mut memory));
    let frames = system.expect("the memory is large enough");
    let counts: Vec<_> = (0..frames.span().frames())
        .map(|_| AtomicU32::new(0))
        .collect();
    let shared = Shared {
        frames,
        counts: &counts,
    };

    let cpus = NativeCpus::new(CPUS);
    let mut first = cpus.claim(CpuId(0)).expect("it is free");
    // Each CPU has a share of each frame.
    let mut held: [Vec<Share>; CPUS as usize] = Default::default();
    for _ in 0..FRAMES {
        let share = shared.allocate(&mut first).expect("memory is free");
        for held in &mut held[1..] {
            held.push(shared.share(&share).expect("there are few shares"));
        }
        assert!(!shared.is_only(&share));
        held[0].push(share);
    }
    let freed = AtomicU32::new(0);
    let give_up = |cpu: &mut NativeCpu, shares: Vec<Share>| {
        for share in shares {
            let is_free = shared.release(cpu, share).expect("the share is ours");
            freed.fetch_add(u32::from(is_free), Ordering::Relaxed);
        }
        frames.park(cpu);
    };
    std::thread::scope(|scope| {
        let [own, others @ ..] = held;
        for (cpu, shares) in (1..CPUS).zip(others) {
            let (cpus, give_up) = (&cpus, &give_up);
            scope.spawn(move || give_up(&mut cpus.claim(CpuId(cpu)).expect("it is free"), shares));
        }
        give_up(&mut first, own);
    });
    frames.quiesce(&mut first).expect("all CPUs are parked");
    let census = frames
        .check(&mut first)
        .expect("the metadata are consistent");
    assert_eq!((freed.into_inner(), census.allocated), (FRAMES, 0));
    println!("{FRAMES} frames were shared by {CPUS} CPUs, and each was freed once");
}
