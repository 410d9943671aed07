//! Listing 1: the main loop.
//!
//! # Source
//! \[Serewa\] section 3.
//!
//! It stands alone, as it was printed.
//!
//! # Invariants
//! The numbers that are drawn depend on the seed and on which requests were refused, and on nothing else.

use crate::emulation::function::Function;
use crate::emulation::manager::Manager;
use crate::emulation::rand::Rand;
use crate::emulation::store::Store;
use crate::emulation::watch::Watch;

/// Places for blocks: the paper's `MAXV`.
pub const PLACES: usize = 1000;
/// Iterations of the paper's program.
pub const ITERATIONS: u32 = 1000 * PLACES as u32;
/// Requests are smaller than this number of bytes.
const BYTES: u32 = 65_535;

/// Runs the main loop the given number of times. What the paper's counts as `uErrors` the manager counts:
/// [`refused`](crate::emulation::manager::Work::refused).
///
/// # Errors
/// A block could not be released: the manager is broken.
pub fn run<S: Store, W: Watch>(
    manager: &mut Manager<S, W>,
    seed: u32,
    iterations: u32,
) -> Result<(), String> {
    manager.inside(Function::Test, |manager| {
        let mut rand = Rand::new(seed);
        let mut places = [None; PLACES];
        for _ in 0..iterations {
            let place = &mut places[rand.next_number() as usize % PLACES];
            match place.take() {
                None => {
                    let bytes = rand.next_number() % BYTES;
                    *place = manager.allocate(bytes);
                }
                Some(unit) => {
                    if !manager.free(unit) {
                        return Err(format!("unit {unit} could not be released"));
                    }
                }
            }
        }
        Ok(())
    })
}
