//! The random numbers of the GNU C library: the results of `rand` after `srand`.
//!
//! # Source
//! The additive feedback generator of `random(3)` of degree 31, `TYPE_3`: each number is the sum of the numbers 3 and
//! 31 places before it. The first 31 come from a linear congruential generator (Park and Miller's, by Schrage's
//! method), and 310 numbers are discarded.
//!
//! With the same seed, the program makes the same requests as the paper's program.
//!
//! # Invariants
//! `front` is 3 places ahead of `rear`, modulo 31.

/// The number of stored values.
const DEGREE: usize = 31;
/// The distance between the two addends.
const SEPARATION: usize = 3;

/// The generator.
#[derive(Clone, Debug)]
pub struct Rand {
    state: [u32; DEGREE],
    front: usize,
    rear: usize,
}

impl Rand {
    /// Starts like `srand(seed)`; a program that never calls it has seed 1. O(1).
    pub fn new(seed: u32) -> Self {
        let mut state = [0; DEGREE];
        // Seed 0 would produce zeros only.
        let mut word = seed.max(1) as i32;
        for own in &mut state {
            *own = word as u32;
            word = 16_807 * (word % 127_773) - 2_836 * (word / 127_773);
            if word < 0 {
                word += i32::MAX;
            }
        }
        let mut own = Self {
            state,
            front: SEPARATION,
            rear: 0,
        };
        for _ in 0..10 * DEGREE {
            own.next_number();
        }
        own
    }

    /// Returns the next number, from 0 to 2^31 - 1. O(1).
    pub fn next_number(&mut self) -> u32 {
        let sum = self.state[self.front].wrapping_add(self.state[self.rear]);
        self.state[self.front] = sum;
        self.front = (self.front + 1) % DEGREE;
        self.rear = (self.rear + 1) % DEGREE;
        // The lowest bit is the least random.
        sum >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For several seeds: the first five numbers and the 100,000th, as a C program prints them.
    #[rustfmt::skip]
    const KNOWN: [(u32, [u32; 5], u32); 4] = [
        (1, [1804289383, 846930886, 1681692777, 1714636915, 1957747793], 660658275),
        (2, [1505335290, 1738766719, 190686788, 260874575, 747983061], 834811707),
        (12345, [383100999, 858300821, 357768173, 455528251, 133005921], 101586848),
        (4000000000, [1111130805, 1380198982, 1306113867, 1557021840, 1956528986], 418433730),
    ];

    #[test]
    fn numbers_are_those_of_the_c_library() {
        for (seed, first, last) in KNOWN {
            let mut own = Rand::new(seed);
            let numbers: Vec<u32> = (0..100_000).map(|_| own.next_number()).collect();
            assert_eq!(numbers[..5], first, "seed {seed}");
            assert_eq!(numbers[99_999], last, "seed {seed}");
        }
    }

    #[test]
    fn seed_zero_is_seed_one() {
        assert_eq!(Rand::new(0).next_number(), Rand::new(1).next_number());
    }
}
