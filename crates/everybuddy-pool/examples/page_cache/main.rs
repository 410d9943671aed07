//! The page cache of a small store, with its buffers in a pool, and with a mapping per buffer.
//!
//! Prints the time of both for the same reads, in alternating rounds, and the median of the ratios. Times depend on the
//! machine; the content of every record is checked.
//!
//! ```sh
//! cargo run --release -p everybuddy-pool --example page_cache [THREADS]
//! ```

mod sources;
mod store;

use std::error::Error;
use std::time::{Duration, Instant};

use everybuddy_pool::Pool;

use sources::{Pooled, Unpooled};
use store::{Cache, PAGE, Reads, Source, Store};

const RECORDS: usize = 20_000;
const READS: usize = 60_000;
const ROUNDS: u64 = 15;

fn time<S: Source>(
    store: &Store,
    source: &S,
    threads: u64,
    seed: u64,
) -> Result<(Duration, Reads), Box<dyn Error>> {
    // A quarter of the store fits.
    let cache = Cache::new(store, source, store.pages() / 4);
    let started = Instant::now();
    let reads = store::run(&cache, threads, READS, seed)?;
    Ok((started.elapsed(), reads))
}

fn main() -> Result<(), Box<dyn Error>> {
    let threads = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let path = std::env::temp_dir().join(format!("everybuddy-store-{}", std::process::id()));
    let store = Store::create(&path, RECORDS)?;
    let pool = Pooled(Pool::new(store.pages() / 2 * PAGE)?);
    let mut ratios = Vec::new();
    let mut counts = Reads::default();
    for round in 0..=ROUNDS {
        let seed = 1000 * (round + 1);
        // Which one is first alternates.
        let (pooled, mapped) = if round % 2 == 0 {
            let pooled = time(&store, &pool, threads, seed)?;
            (pooled, time(&store, &Unpooled, threads, seed)?)
        } else {
            let mapped = time(&store, &Unpooled, threads, seed)?;
            (time(&store, &pool, threads, seed)?, mapped)
        };
        // The first round reads the file and the pool's pages for the first time.
        if round > 0 {
            ratios.push(mapped.0.as_secs_f64() / pooled.0.as_secs_f64());
            println!(
                "round {round:2}: pool {:7.1} ms, mmap and munmap {:7.1} ms",
                pooled.0.as_secs_f64() * 1e3,
                mapped.0.as_secs_f64() * 1e3
            );
        }
        counts = pooled.1;
    }
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (
        ratios[0],
        ratios[ratios.len() / 2],
        ratios[ratios.len() - 1],
    );
    println!(
        "threads: {threads}; {} hits and {} misses in the last round",
        counts.hits, counts.misses
    );
    println!(
        "with mmap and munmap it takes {median:.2} times as long (median; {least:.2} to {most:.2})"
    );
    println!("{}", pool.0.statistics()?);
    let released = pool.0.release_free()?;
    println!("returned to the operating system: {released}");
    Ok(())
}
