//! The page cache of a small store, with its buffers in a pool, with a mapping per buffer, and with a list of freed
//! buffers for each length.
//!
//! Prints the time of each for the same reads, in alternating rounds, and the median of the ratios. Times depend on the
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

use sources::{Lists, Pooled, Unpooled};
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
    let lists = Lists::default();
    let mut ratios = [Vec::new(), Vec::new()];
    let mut counts = Reads::default();
    for round in 0..=ROUNDS {
        let seed = 1000 * (round + 1);
        let mut times = [0.0; 3];
        // Which one is first alternates.
        for turn in round..round + 3 {
            let which = (turn % 3) as usize;
            let (time, reads) = match which {
                0 => time(&store, &pool, threads, seed)?,
                1 => time(&store, &Unpooled, threads, seed)?,
                _ => time(&store, &lists, threads, seed)?,
            };
            times[which] = time.as_secs_f64() * 1e3;
            counts = reads;
        }
        let [pooled, mapped, listed] = times;
        // The first round reads the file and the pool's pages for the first time.
        if round > 0 {
            ratios[0].push(mapped / pooled);
            ratios[1].push(listed / pooled);
            println!(
                "round {round:2}: pool {pooled:7.1} ms, mmap {mapped:7.1} ms, lists {listed:7.1} ms"
            );
        }
    }
    println!(
        "threads: {threads}; {} hits and {} misses in the last round",
        counts.hits, counts.misses
    );
    let names = ["with mmap and munmap", "lists behind locks:"];
    for (what, mut ratios) in names.into_iter().zip(ratios) {
        ratios.sort_by(f64::total_cmp);
        let [least, median, most] = [0, ratios.len() / 2, ratios.len() - 1].map(|at| ratios[at]);
        println!("{what} it takes {median:.2} times as long (median; {least:.2} to {most:.2})");
    }
    println!("{}", pool.0.statistics()?);
    let released = pool.0.release_free()?;
    println!("returned to the operating system: {released}");
    Ok(())
}
