//! jemalloc with the extents of an arena in a pool, and with mappings of the operating system.
//!
//! The same program runs in both arenas, in alternating rounds: threads build an index of words, sort it, merge what
//! others built, and throw it away. Free extents are returned immediately, so that extents come and go. The results are
//! compared, and finally every page of the pool must be free. Times are printed; they depend on the machine.
//!
//! ```sh
//! cargo run --release --manifest-path examples/jemalloc/Cargo.toml [THREADS]
//! ```

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use everybuddy_example_jemalloc::{Arena, Jemalloc};
use everybuddy_pool::Pool;

#[global_allocator]
static GLOBAL: Jemalloc = Jemalloc;

/// Freed extents go back to the pool, or to the operating system by `munmap`; otherwise jemalloc would keep addresses,
/// and request few large extents.
// SAFETY: no other symbol of the program has this name, and jemalloc reads it as a pointer to a string.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURATION: &[u8; 13] = b"retain:false\0";

const ROUNDS: u64 = 10;
const DOCUMENTS: u64 = 40;
const WORDS: u64 = 4000;

type Index = HashMap<String, Vec<u32>>;

/// Returns numbers that are hard to predict (xorshift).
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state >> 12)
    })
}

/// Indexes one document: few words are frequent, most are rare.
fn index(document: u64, into: &mut Index) {
    let text: Vec<String> = numbers(document + 1)
        .take(WORDS as usize)
        .map(|number| match number % 4 {
            0 => format!("word-{}", number / 4 % 50),
            _ => format!("rare-{:x}", number / 4 % 20_000),
        })
        .collect();
    // A large buffer that grows, as a reader of files has it.
    let joined = text.join(" ");
    for (place, word) in joined.split(' ').enumerate() {
        into.entry(word.to_owned()).or_default().push(place as u32);
    }
}

/// Builds indexes with several threads, merges them, and returns a digest of the result.
fn program(arena: Arena, threads: u64) -> Result<u64, Box<dyn Error>> {
    let (out, received) = mpsc::channel();
    thread::scope(|scope| {
        for thread in 0..threads {
            let out = out.clone();
            scope.spawn(move || {
                let result = arena.enter().map(|()| {
                    let mut own = Index::new();
                    for document in 0..DOCUMENTS {
                        index(document * threads + thread, &mut own);
                    }
                    own
                });
                // The receiver lives longer than this thread.
                let _ = out.send(result);
            });
        }
        drop(out);
        // Another thread of the same arena merges, and frees what the others allocated.
        let merger = scope.spawn(move || {
            arena.enter()?;
            let mut merged: BTreeMap<String, Vec<u32>> = BTreeMap::new();
            for own in received {
                for (word, places) in own? {
                    merged.entry(word).or_default().extend(places);
                }
            }
            let digest = merged.iter_mut().fold(0u64, |digest, (word, places)| {
                places.sort_unstable();
                let bytes = word.bytes().map(u64::from);
                let sum = bytes.chain(places.iter().map(|place| u64::from(*place)));
                sum.fold(digest, |digest, value| {
                    digest.wrapping_mul(31).wrapping_add(value)
                })
            });
            Ok::<u64, String>(digest)
        });
        Ok(merger.join().map_err(|_| "a thread panicked")??)
    })
}

fn time(arena: Arena, threads: u64) -> Result<(Duration, u64), Box<dyn Error>> {
    let started = Instant::now();
    let digest = program(arena, threads)?;
    Ok((started.elapsed(), digest))
}

fn main() -> Result<(), Box<dyn Error>> {
    let threads = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let pool = Pool::new(1 << 30)?;
    let (pooled, mapped) = (Arena::new(Some(&pool))?, Arena::new(None)?);
    for keep in [0, 10_000] {
        pooled.keep_free_extents(keep)?;
        mapped.keep_free_extents(keep)?;
        let mut ratios = Vec::new();
        for round in 0..=ROUNDS {
            let (a, b) = if round % 2 == 0 {
                let first = time(pooled, threads)?;
                (first, time(mapped, threads)?)
            } else {
                let first = time(mapped, threads)?;
                (time(pooled, threads)?, first)
            };
            if a.1 != b.1 {
                return Err("the results differ: two objects share memory".into());
            }
            // The first round touches the pages of the pool for the first time.
            if round > 0 {
                ratios.push(b.0.as_secs_f64() / a.0.as_secs_f64());
            }
        }
        ratios.sort_by(f64::total_cmp);
        let (least, median, most) = (
            ratios[0],
            ratios[ratios.len() / 2],
            ratios[ratios.len() - 1],
        );
        println!(
            "free extents kept for {keep:5} ms: with mappings it takes {median:.2} times as long as with a pool \
             (median of {ROUNDS}; {least:.2} to {most:.2})"
        );
    }
    println!(
        "jemalloc's default on 64-bit Linux keeps addresses (`retain:true`); both arenas run without it"
    );
    let statistics = pool.statistics()?;
    println!("{statistics}");
    if statistics.allocations < 100 {
        return Err("jemalloc did not use the pool".into());
    }
    // SAFETY: everything that the threads of the arena allocated was dropped, and the threads have ended.
    unsafe { pooled.destroy() }?;
    let statistics = pool.statistics()?;
    if statistics.free_pages != statistics.pages as u64 || statistics.refused_frees > 0 {
        return Err(format!("pages of the pool were lost:\n{statistics}").into());
    }
    println!(
        "all pages are free again; returned to the operating system: {}",
        pool.release_free()?
    );
    Ok(())
}
