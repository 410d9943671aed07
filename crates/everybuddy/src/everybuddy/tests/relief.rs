//! When a shortage ends after memory was full, and that it serves while memory is nearly full.

use super::*;
use crate::Block;

const FRAMES: u32 = 1 << 18;

/// Memory that was filled to 99.9 %, and emptied at random to a level. Blocks of 1 to 16 frames replace each other.
struct Relieved<'s> {
    system: &'s OwnedTrees<'s, Native>,
    cpu: Cpu,
    held: Vec<Block>,
    used: u32,
    random: Random,
    refused: u32,
}

impl Relieved<'_> {
    fn is_above(&self, per_mille: u32) -> bool {
        u64::from(self.used) * 1000 >= u64::from(FRAMES) * u64::from(per_mille)
    }

    fn allocate(&mut self) {
        let order = Order::new(self.random.below(5) as u8).unwrap();
        match self.system.allocate(&mut self.cpu, Request::order(order)) {
            Ok(start) => {
                self.held.push(Block::new(start, order));
                self.used += order.frames();
            }
            Err(_) => self.refused += 1,
        }
    }

    fn empty_to(&mut self, per_mille: u32) {
        while self.is_above(per_mille) {
            let block = self.random.below(self.held.len() as u32);
            let block = self.held.swap_remove(block as usize);
            self.system
                .free(&mut self.cpu, Release::block(block))
                .unwrap();
            self.used -= block.order.frames();
        }
    }

    /// Replaces blocks. Returns the share of replacements after which the CPU was in a shortage, in percent.
    fn replace(&mut self, per_mille: u32, pairs: u32) -> u32 {
        let mut short = 0;
        for _ in 0..pairs {
            self.empty_to(per_mille);
            self.allocate();
            let is_on = self.system.local(CpuId(0)).unwrap().fitting.is_on();
            short += u32::from(is_on);
        }
        short * 100 / pairs
    }
}

fn with_relieved(per_mille: u32, body: impl FnOnce(&mut Relieved<'_>)) {
    with_system((FRAMES, 0), 1, (None, 10), |system| {
        let mut relieved = Relieved {
            system,
            cpu: NativeCpus::new(1).claim(CpuId(0)).unwrap(),
            held: Vec::new(),
            used: 0,
            random: Random(1),
            refused: 0,
        };
        while !relieved.is_above(999) {
            relieved.allocate();
        }
        relieved.empty_to(per_mille);
        relieved.refused = 0;
        body(&mut relieved);
        system.check(&mut relieved.cpu).unwrap();
    });
}

#[test]
fn a_shortage_ends_soon_after_memory_was_full() {
    for per_mille in [700, 800, 900] {
        with_relieved(per_mille, |relieved| {
            // Also one that a refusal began at the last moment.
            let local = relieved.system.local(CpuId(0)).unwrap();
            local.choose_by_fit(&relieved.system.shared);
            relieved.replace(per_mille, 2000);
            let short = relieved.replace(per_mille, 20_000);
            assert!(short <= 15, "{per_mille}: in a shortage for {short} %");
            assert_eq!(relieved.refused, 0, "{per_mille}");
        });
    }
}

#[test]
fn nothing_is_refused_in_memory_that_stays_nearly_full() {
    for per_mille in [980, 990] {
        with_relieved(per_mille, |relieved| {
            let short = relieved.replace(per_mille, 20_000);
            assert_eq!(relieved.refused, 0, "{per_mille}");
            assert!(short >= 90, "{per_mille}: in a shortage for {short} %");
        });
    }
}

/// Of more words than a request may read, the first ones have pairs, and one has a single frame.
#[test]
fn a_request_reads_a_bounded_number_of_words() {
    for (pairs, is_found) in [(1000, true), (1100, false)] {
        with_system((FRAMES, 0), 1, (Some(4096), 10), |system| {
            let mut cpu: Cpu = NativeCpus::new(1).claim(CpuId(0)).unwrap();
            while system.allocate(&mut cpu, Request::FRAME).is_ok() {}
            let words = (0..pairs).map(|word| (word * 64, 2));
            for (start, frames) in words.chain([(pairs * 64, 1)]) {
                free_into_tree(system, &mut cpu, start, frames);
            }
            let expected = if is_found { pairs * 64 } else { 0 };
            let frame = system.allocate(&mut cpu, Request::FRAME);
            assert_eq!(frame, Ok(Index(expected)), "{pairs} words");
        });
    }
}
