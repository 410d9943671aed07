//! Trees of all sizes and blocks of all orders, in memory that is so large that the lists of CPUs have room for blocks.

use everybuddy::platform::NativeCpus;
use everybuddy::{AllocateError, Block, FrameRange, Index, Pfn, Release, Request, Setup};
use everybuddy_suite::model::Model;
use everybuddy_suite::{Cpu, Random, System, claim, on, order};

/// 1 GiB: a CPU with as much memory has lists for blocks of all orders up to 9.
const FRAMES_PER_CPU: u64 = 1 << 18;
/// The most frames that are in use.
const USED: u64 = 1 << 15;
const STEPS: u32 = 1500;

/// Allocates and frees random blocks by random CPUs, and checks each block against the model.
fn random_blocks(system: &System<'_>, cpus: &mut [Cpu], ranges: &[FrameRange], seed: u64) {
    let mut random = Random(seed);
    let mut model = Model::new(system.span(), ranges);
    let mut held: Vec<Block> = Vec::new();
    let mut used = 0;
    let largest = u64::from(system.max_order().get());
    for step in 0..STEPS {
        let index = random.below(cpus.len() as u64) as usize;
        if random.chance(10) {
            let other = (index + 1) % cpus.len();
            system.park(&mut cpus[other]);
        }
        let cpu = &mut cpus[index];
        if held.is_empty() || used < USED && random.chance(50) {
            let order = order(random.below(largest + 1) as u8);
            match system.allocate(cpu, Request::order(order)) {
                Ok(start) => {
                    assert!(start.is_aligned(order));
                    model.take(start, order.frames());
                    used += u64::from(order.frames());
                    held.push(Block::new(start, order));
                }
                Err(AllocateError::Exhausted) => assert!(!model.can_serve(order), "{order:?}"),
                // The other CPU does not answer.
                Err(error) => assert_eq!((error, cpus.len()), (AllocateError::Busy, 2)),
            }
        } else {
            let block = held.swap_remove(random.below(held.len() as u64) as usize);
            system.free(cpu, Release::block(block)).unwrap();
            model.give(block.start, block.order.frames());
            used -= u64::from(block.order.frames());
        }
        if step % 250 == 0 {
            assert_eq!(system.free_frames(), model.free_frames());
            system.check(&mut cpus[index]).unwrap();
        }
    }
    for block in held {
        let cpu = &mut cpus[random.below(cpus.len() as u64) as usize];
        system.free(cpu, Release::block(block)).unwrap();
    }
    cpus.iter_mut().for_each(|cpu| system.park(cpu));
    let frames = ranges.iter().map(|range| range.frames).sum::<u64>();
    assert_eq!(system.free_frames(), frames);
    let census = system.check(&mut cpus[0]).unwrap();
    assert_eq!((census.free, census.buffered), (frames, 0));
    let free_blocks = system.snapshot(&mut cpus[0]).free_blocks;
    let largest = u64::from(system.max_order().frames());
    assert_eq!(
        u64::from(free_blocks[system.max_order().index()]),
        frames / largest
    );
}

fn in_trees(names: impl IntoIterator<Item = String>) {
    for (name, seed) in names.into_iter().zip(0..) {
        for count in [1, 2] {
            let ranges = [FrameRange::new(Pfn(0), FRAMES_PER_CPU * u64::from(count))];
            on(&name, &Setup::new(&ranges, count), |system| {
                let set = NativeCpus::new(count);
                let mut cpus: Vec<Cpu> = (0..count).map(|id| claim(&set, id)).collect();
                random_blocks(system, &mut cpus, &ranges, seed);
            });
        }
    }
}

#[test]
fn blocks_of_all_orders_are_in_trees_of_all_sizes() {
    let sizes = ["256KiB", "512KiB", "1MiB", "2MiB", "4MiB", "8MiB", "16MiB"];
    let orders = |size| [9, 12].map(|order| format!("everybuddy+order={order}+tree={size}"));
    in_trees(sizes.into_iter().flat_map(orders));
}

#[test]
fn blocks_of_all_orders_are_in_trees_of_any_number_of_children() {
    let sizes = ["4MiB", "16MiB", "64MiB", "1GiB"];
    in_trees(sizes.map(|size| format!("llfree+tree={size}")));
}

/// A block of several trees is freed into all of them.
#[test]
fn a_block_that_is_larger_than_a_tree_enters_no_list() {
    let ranges = [FrameRange::new(Pfn(0), FRAMES_PER_CPU)];
    for (size, log) in [("256KiB", 6), ("512KiB", 7), ("1MiB", 8)] {
        on(
            &format!("everybuddy+tree={size}"),
            &Setup::new(&ranges, 1),
            |system| {
                let set = NativeCpus::new(1);
                let cpu = &mut claim(&set, 0);
                for order in (log + 1..=10).map(order) {
                    for _ in 0..3 {
                        let start = system.allocate(cpu, Request::order(order)).unwrap();
                        let block = Block::new(start, order);
                        system.free(cpu, Release::block(block)).unwrap();
                        assert_eq!(system.snapshot(cpu).buffered_frames, 0, "{order:?}");
                        let last = Index(start.0 + order.frames() - 1);
                        let range = FrameRange::new(Pfn(u64::from(last.0)), 1);
                        let taken = system.try_allocate_at(cpu, range);
                        assert_eq!(taken, Ok(last), "{order:?}");
                        system.free(cpu, Release::frame(last)).unwrap();
                        assert_eq!(system.free_frames(), FRAMES_PER_CPU);
                        system.check(cpu).unwrap();
                    }
                }
            },
        );
    }
}
