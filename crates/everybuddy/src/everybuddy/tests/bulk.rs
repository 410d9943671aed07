//! Many frames by one call.

use super::*;
use crate::error::BulkFreeError;
use crate::request::Flags;

impl Checked<'_, '_> {
    /// Allocates blocks of 1 to 128 frames in bulk. Other CPUs keep their trees, so the bulk may be short.
    pub(super) fn allocate_bulk(&mut self, random: &mut Random) {
        let cpu = random.below(self.cpus.len() as u32) as usize;
        let class = Class::ALL[random.below(4) as usize];
        let order = Order::new([0, 0, 1, 2, 3, 5, 6, 7][random.below(8) as usize]).unwrap();
        let order = order.min(self.system.max_order);
        let request = Request::order(order).with_flags(Flags::NO_WAIT.with_class(class));
        let mut out = vec![Index(u32::MAX); random.below(150) as usize];
        let result = self
            .system
            .allocate_bulk(&mut self.cpus[cpu], request, &mut out);
        let given = match result {
            Ok(given) => given,
            Err(AllocateError::Exhausted) => {
                assert!(!self.can_serve(order.frames()));
                0
            }
            Err(error) => {
                assert_eq!(error, AllocateError::Busy);
                0
            }
        };
        assert!(
            out.iter()
                .skip(given)
                .all(|index| *index == Index(u32::MAX))
        );
        for index in &out[..given] {
            self.set(index.0, order.frames(), Is::Free, Is::Allocated);
            self.held.push((index.0, order.frames()));
        }
    }

    /// Frees blocks in bulk, sometimes with a misuse among them: then the ones before it are freed.
    pub(super) fn free_bulk(&mut self, random: &mut Random) {
        if random.below(2) == 0 {
            self.held.sort_unstable();
        }
        let count = random.below(self.held.len().min(120) as u32 + 1) as usize;
        let from = self.held.len() - count;
        let by_order = random.below(2) == 0;
        let release = |(start, frames): &(u32, u32)| match frames {
            1 => Release::frame(Index(*start)),
            2.. if by_order && frames.is_power_of_two() && start % frames == 0 => {
                let order = Order::covering(*frames).unwrap();
                Release::block(crate::Block::new(Index(*start), order))
            }
            frames => Release::frames(Index(*start), *frames),
        };
        let mut releases: Vec<_> = self.held[from..].iter().map(release).collect();
        let mut expected = Ok(());
        let mut freed = count;
        // Without checks, a frame that is freed twice would be allocated twice.
        if count > 0 && random.below(3) == 0 {
            // A release that is repeated immediately, or at the end of the others.
            let first = random.below(count as u32) as usize;
            let again = match random.below(2) {
                0 => first + 1,
                _ => count,
            };
            releases.insert(again, releases[first]);
            let error = FreeError::NotAllocated;
            expected = Err(BulkFreeError {
                index: again,
                error,
            });
            freed = again;
        }
        let cpu = random.below(self.cpus.len() as u32) as usize;
        let result = self.system.free_bulk(&mut self.cpus[cpu], &releases);
        assert_eq!(result, expected);
        let kept = self.held.split_off(from + freed);
        for (start, frames) in self.held.split_off(from) {
            self.set(start, frames, Is::Allocated, Is::Free);
        }
        self.held.extend(kept);
    }
}

#[test]
fn a_bulk_takes_the_lowest_frames_of_the_tree() {
    with_cpus((1024, 0), (Some(256), 6), |system, [cpu]| {
        let mut out = [Index(0); 200];
        assert_eq!(system.allocate_bulk(cpu, Request::FRAME, &mut out), Ok(200));
        assert!(
            out.iter()
                .zip(0..)
                .all(|(index, frame)| *index == Index(frame))
        );
        // Frames of two words, and one of them twice: the others before it are freed.
        let freed = [3, 5, 4, 70, 69, 69, 6].map(|frame| Release::frame(Index(frame)));
        let error = FreeError::NotAllocated;
        let refused = BulkFreeError { index: 5, error };
        assert_eq!(system.free_bulk(cpu, &freed), Err(refused));
        assert_eq!(system.check(cpu).unwrap().allocated, 195);
        let mut out = [Index(0); 6];
        assert_eq!(system.allocate_bulk(cpu, Request::FRAME, &mut out), Ok(6));
        assert_eq!(out, [3, 4, 5, 69, 70, 200].map(Index));
        system.check(cpu).unwrap();
    });
}

#[test]
fn a_bulk_takes_no_whole_words_of_a_tree_of_the_other_kind() {
    with_cpus((512, 0), (Some(256), 6), |system, [cpu]| {
        let movable = Request::FRAME.with_class(Class::Movable);
        assert_eq!(system.allocate(cpu, movable), Ok(Index(0)));
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(256)));
        // The tree of frames that stay is full after 255 more. The others come from split words of the other tree
        // first, and only then from its whole words.
        let mut out = [Index(0); 255 + 63 + 1];
        let given = system.allocate_bulk(cpu, Request::FRAME, &mut out);
        assert_eq!(given, Ok(255 + 63 + 1));
        assert!(out[..255].iter().all(|index| index.0 > 256));
        assert!(out[255..255 + 63].iter().all(|index| index.0 < 64));
        system.check(cpu).unwrap();
    });
}

#[test]
fn a_bulk_takes_and_frees_blocks_word_by_word() {
    with_cpus((1024, 0), (Some(256), 6), |system, [cpu]| {
        let four = order(2);
        let block = |start: u32| Release::block(crate::Block::new(Index(start), four));
        let mut out = [Index(0); 40];
        let request = Request::order(four);
        assert_eq!(system.allocate_bulk(cpu, request, &mut out), Ok(40));
        assert!((0..).zip(out).all(|(at, start)| start == Index(4 * at)));
        // Blocks of one word are freed together, up to the one that is named twice.
        let mut two = [Index(0); 3];
        let request = Request::order(order(1));
        assert_eq!(system.allocate_bulk(cpu, request, &mut two), Ok(3));
        assert_eq!(two, [160, 162, 164].map(Index));
        let two = |start: u32| Release::block(crate::Block::new(Index(start), order(1)));
        let freed = [
            two(162),
            two(160),
            block(132),
            block(128),
            block(132),
            two(164),
        ];
        let error = FreeError::NotAllocated;
        let refused = BulkFreeError { index: 4, error };
        assert_eq!(system.free_bulk(cpu, &freed), Err(refused));
        let check = system.check(cpu).unwrap();
        assert_eq!((check.allocated, check.free), (154, 870));
        // A block that starts at no multiple of its size has no head, whatever its bits are.
        let misaligned = [two(164), two(191)];
        let refused = system
            .free_bulk(cpu, &misaligned)
            .map_err(|error| error.index);
        assert_eq!(refused, Err(1));
        let mut out = [Index(0); 4];
        let request = Request::order(four);
        assert_eq!(system.allocate_bulk(cpu, request, &mut out), Ok(4));
        assert_eq!(out, [128, 132, 160, 164].map(Index));
        system.check(cpu).unwrap();
    });
}

/// The first word of the current tree with a free frame has no pair, and the next one has. So has a lower tree.
#[test]
fn a_bulk_does_not_leave_a_tree_whose_first_word_has_no_such_block() {
    with_cpus((1024, 0), (Some(256), 6), |system, [cpu]| {
        let mut out = [Index(0); 256 + 128];
        let all = out.len();
        assert_eq!(system.allocate_bulk(cpu, Request::FRAME, &mut out), Ok(all));
        let pair = Request::order(order(1));
        assert_eq!(system.allocate(cpu, pair), Ok(Index(256 + 128)));
        // Freed next to each other, and not into a list.
        let freed = [10, 11, 256 + 3, 256 + 5].map(|frame| Release::frame(Index(frame)));
        system.free_bulk(cpu, &freed).unwrap();
        let mut out = [Index(0); 40];
        assert_eq!(system.allocate_bulk(cpu, pair, &mut out), Ok(40));
        assert!(out.iter().all(|start| start.0 > 256 + 128), "{out:?}");
        system.check(cpu).unwrap();
    });
}

#[test]
fn a_bulk_of_blocks_of_several_trees_takes_none_from_the_current_tree() {
    let tree = LARGEST_TREE;
    with_cpus((8 * tree, 0), (Some(tree), 13), |system, [cpu]| {
        let word = order(6);
        let start = system.allocate(cpu, Request::order(word)).unwrap();
        let block = Release::block(crate::Block::new(start, word));
        system.free(cpu, block).unwrap();
        let mut out = [Index(1); 5];
        let request = Request::order(order(13));
        assert_eq!(system.allocate_bulk(cpu, request, &mut out), Ok(4));
        assert_eq!(out[..4], [0, 2, 4, 6].map(|first| Index(first * tree)));
        assert_eq!(system.check(cpu).unwrap().free, 0);
    });
}

#[test]
fn a_frame_that_is_freed_with_no_other_one_of_its_word_enters_the_list() {
    with_cpus((1024, 0), (Some(256), 6), |system, [cpu]| {
        let mut out = [Index(0); 200];
        assert_eq!(system.allocate_bulk(cpu, Request::FRAME, &mut out), Ok(200));
        let freed = [3, 70, 71, 135].map(|frame| Release::frame(Index(frame)));
        system.free_bulk(cpu, &freed).unwrap();
        assert!(
            system.locals[0]
                .listed()
                .eq([3, 135].map(|frame| (frame, Order::ZERO)))
        );
    });
}

#[test]
fn blocks_of_whole_words_are_allocated_and_freed_together() {
    let tree = 1024;
    with_cpus((4 * tree, 0), (Some(tree), 10), |system, [cpu, _]| {
        let six = Request::order(order(6));
        let mut out = [Index(0); 20];
        assert_eq!(system.allocate_bulk(cpu, six, &mut out), Ok(20));
        // The second tree follows when the first one is used up.
        assert!((0..20).all(|at| out[at] == Index(at as u32 * WORD)));
        let block = |start| Release::block(crate::Block::new(start, order(6)));
        let mut refused = |releases: &[Release]| {
            let refused = system.free_bulk(cpu, releases).unwrap_err();
            system.check(cpu).unwrap();
            (refused.index, refused.error)
        };
        let twice = [out[0], out[1], out[1], out[2]].map(block);
        assert_eq!(refused(&twice), (2, FreeError::NotAllocated));
        let wrong = Release::block(crate::Block::new(out[4], order(5)));
        let error = FreeError::WrongOrder {
            allocated: order(6),
        };
        let others = [block(out[2]), block(out[3]), wrong, block(out[5])];
        assert_eq!(refused(&others), (2, error));
        // The last ones lie in another tree.
        let rest: Vec<_> = out[4..].iter().map(|start| block(*start)).collect();
        assert_eq!(system.free_bulk(cpu, &rest), Ok(()));
        system.park(cpu);
        assert_eq!(system.check(cpu).unwrap().free, u64::from(4 * tree));
    });
}
