//! What the lists of `pcp-buddy` return and take back, in runs whose numbers are worked out by hand. The lists have a
//! batch of 32 frames and a high watermark of 1024, two page blocks.

use everybuddy::{Block, Counts, FrameRange, Index, Order, Pfn, Release, Request};
use everybuddy_suite::{Cpu, System, on_cpus, order};

/// One CPU, and the system.
struct Bench<'a> {
    system: &'a System<'a>,
    cpu: &'a mut Cpu,
}

impl Bench<'_> {
    fn take(&mut self, order: Order) -> Block {
        let start = self.system.allocate(self.cpu, Request::order(order));
        Block::new(start.unwrap(), order)
    }

    fn take_frames(&mut self, count: u32) -> Vec<Index> {
        (0..count).map(|_| self.take(Order::ZERO).start).collect()
    }

    fn free(&mut self, block: Block) {
        self.system.free(self.cpu, Release::block(block)).unwrap();
    }

    fn free_frames(&mut self, frames: &[Index]) {
        frames
            .iter()
            .for_each(|frame| self.free(Block::new(*frame, Order::ZERO)));
    }

    /// Returns what was counted since the last call, and the number of frames in the lists.
    fn take_counts(&mut self) -> (Counts, u64) {
        let counts = std::mem::take(&mut self.cpu.probe().counts);
        (counts, self.system.snapshot(self.cpu).buffered_frames)
    }

    /// Checks that nothing was drained since the last call, that the free of `last` drains `frames`, and that `kept`
    /// stay.
    fn drains(&mut self, last: Block, frames: u64, kept: u64) {
        assert_eq!(self.take_counts().0.drains, 0);
        self.free(last);
        let (counts, left) = self.take_counts();
        assert_eq!(counts.drains, 1);
        assert_eq!(counts.frames_drained, frames);
        assert_eq!(left, kept);
    }
}

fn bench(body: impl FnOnce(&mut Bench<'_>)) {
    let ranges = [FrameRange::new(Pfn(0), 1 << 14)];
    on_cpus("pcp-buddy+batch=32+high=1024", &ranges, |system, [cpu]| {
        body(&mut Bench { system, cpu });
        system.check(cpu).unwrap();
    });
}

#[test]
fn a_run_of_frees_returns_all_but_a_batch_and_a_refill_takes_back_the_parts() {
    bench(|bench| {
        let held = bench.take_frames(1024);
        assert_eq!(bench.take_counts().0.frames_refilled, 1024);
        bench.free_frames(&held[..1023]);
        // The run has 1024 frees, so 32 frames may stay and 16 must: 512, 256, 128, 64 and 32 frames leave.
        bench.drains(Block::new(held[1023], Order::ZERO), 992, 32);
        // The others of their page block are taken back, and no page block is claimed.
        bench.take_frames(33);
        let (counts, kept) = bench.take_counts();
        assert_eq!(counts.refills, 1);
        assert_eq!(counts.frames_refilled, 480);
        assert_eq!(kept, 479);
    });
}

#[test]
fn a_request_halves_the_run_of_frees() {
    bench(|bench| {
        let mut held = bench.take_frames(1024);
        bench.free_frames(&held.split_off(600));
        // Nine requests end the run of 424 frees, and 415 frames stay. 609 frees follow: 415 frames may stay, and 208
        // must, so 512 and 256 frames leave.
        held.extend(bench.take_frames(9));
        bench.take_counts();
        bench.free_frames(&held[1..]);
        bench.drains(Block::new(held[0], Order::ZERO), 768, 256);
    });
    bench(|bench| {
        let held = bench.take_frames(512);
        bench.free_frames(&held[..500]);
        // A request that misses is one, too: 250 remain, and 20 frames are freed after it. 754 frames may stay.
        bench.take_counts();
        let block = bench.take(order(3));
        assert_eq!(bench.take_counts().0.refills, 1);
        bench.free_frames(&held[500..]);
        bench.drains(block, 512, 512);
    });
}

#[test]
fn a_run_of_frees_counts_no_more_than_the_high_watermark() {
    bench(|bench| {
        let blocks = [(); 3].map(|()| bench.take(order(9)));
        let frames = bench.take_frames(512);
        bench.free(blocks[0]);
        bench.take_counts();
        // As for single frames, 32 frames stay.
        bench.drains(blocks[1], 992, 32);
        // The run has 1024 frees already. Two requests leave 256 of them.
        bench.free(blocks[2]);
        bench.take_frames(2);
        bench.free_frames(&frames[..481]);
        // 738 frees: 286 frames may stay, and 143 must, so 512 and 256 frames leave.
        bench.drains(Block::new(frames[481], Order::ZERO), 768, 256);
    });
}
