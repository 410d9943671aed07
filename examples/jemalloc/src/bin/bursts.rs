//! A program whose memory grows and rests: with jemalloc, which returns free memory by its decay, and with a pool that
//! a timer empties, or the program itself after each burst.
//!
//! Both return memory to the operating system some time after it was freed. The sooner, the less memory is resident,
//! and the more pages are faulted again. Each row is a process of its own that makes the same calls: sizes, order and
//! pauses are the same, and all memory is written.
//!
//! The sizes of the bursts are those of public reports about guests that give memory back. In vm0-ai/vm0#34723, 512 MiB
//! are allocated in 505 ms, kept and freed, and a round takes 921 ms. In TencentCloud/CubeSandbox#1758, a burst grows
//! from 78 MiB to 1,610 MiB. Not in the reports, and so assumed: the lengths of runs, that half of the rest of a round
//! passes before the memory is freed, and that one of 78 MiB of small objects is replaced for 2,000 pages of a burst.
//!
//! ```sh
//! cargo run --release --manifest-path examples/jemalloc/Cargo.toml --bin bursts
//! ```

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use everybuddy_example_jemalloc::{Arena, Buffer};
use everybuddy_pool::everybuddy::systems::{Bs, Everybuddy};
use everybuddy_pool::everybuddy::{Order, System};
use everybuddy_pool::{OwnedPages, Pool};

const PAGE: usize = Buffer::PAGE;
const MIB: usize = (1 << 20) / PAGE;

/// Small objects that live long, in pages.
const BASE: usize = 78 * MIB;
const ROUND: usize = 512 * MIB;
const ROUNDS: usize = 12;
const BURST: usize = (1610 - 78) * MIB;
/// How long a MiB takes to grow: 512 MiB in 505 ms.
const MIB_MICROSECONDS: u64 = 986;
/// Half of what the rest of a round takes.
const PAUSE: Duration = Duration::from_millis(208);
/// Longer than the longest delay.
const REST: Duration = Duration::from_secs(15);
/// Pages of a burst for which an object of the base is replaced.
const REPLACED: usize = 2000;
/// The lengths of runs, in pages.
const LENGTHS: [usize; 10] = [1, 1, 1, 1, 2, 3, 4, 16, 64, 256];

/// How memory is returned.
#[derive(Clone, Copy)]
enum Source {
    /// By the decay of jemalloc, whose settings these are.
    Jemalloc(&'static str),
    /// By a timer, in blocks of an order.
    Pool(u8),
    /// As above, with the system `bs`, which allocates what was freed last.
    Lists(u8),
    /// jemalloc returns extents to a pool immediately, and the timer returns single pages to the operating system.
    Both,
}

struct Row {
    /// The name of the row in documents.
    name: &'static str,
    /// The decay, or the time between two calls of the timer, in milliseconds. A pool with 0 is emptied by the program
    /// after each burst.
    delay: u64,
    source: Source,
}

const fn row(name: &'static str, delay: u64, source: Source) -> Row {
    Row {
        name,
        delay,
        source,
    }
}

const fn jemalloc(delay: u64, settings: &'static str) -> Row {
    row("jemalloc", delay, Source::Jemalloc(settings))
}

/// The address space of a pool. The program needs 1,610 MiB.
const POOL: usize = 2 << 30;

/// Three run side by side.
const ROWS: [Row; 12] = [
    jemalloc(0, "dirty_decay_ms:0,background_thread:true"),
    row("pool", 1000, Source::Pool(9)),
    row("pool", 10_000, Source::Pool(9)),
    row("pool", 0, Source::Pool(9)),
    jemalloc(1000, "dirty_decay_ms:1000,background_thread:true"),
    row("pool:bs", 1000, Source::Lists(9)),
    // The decay is the default.
    jemalloc(10_000, "dirty_decay_ms:10000,background_thread:true"),
    row("pool+order=0", 1000, Source::Pool(0)),
    row("pool:bs+order=0", 1000, Source::Lists(0)),
    row("jemalloc-in-pool", 1000, Source::Both),
    // The default of jemalloc in all respects.
    row(
        "jemalloc+thread=none",
        10_000,
        Source::Jemalloc("dirty_decay_ms:10000"),
    ),
    row("pool:bs", 10_000, Source::Lists(9)),
];

/// Memory of a row. Each value is freed when it is dropped.
enum Run<S: System + 'static> {
    Jemalloc(Buffer),
    Pool(OwnedPages<S>),
}

/// A run, and what was written to it.
type Stamped<S> = (Run<S>, u64);

impl<S: System + 'static> Run<S> {
    fn new(pool: Option<&Pool<S>>, pages: usize, stamp: u64) -> Result<Self, Box<dyn Error>> {
        Ok(match pool {
            None => {
                let mut buffer = Buffer::new(pages).ok_or("jemalloc has no memory")?;
                buffer.write(stamp);
                Self::Jemalloc(buffer)
            }
            Some(pool) => {
                let mut run = pool.allocate_pages(pages)?.into_owned();
                for page in run.chunks_exact_mut(PAGE) {
                    page[..8].copy_from_slice(&stamp.to_ne_bytes());
                }
                Self::Pool(run)
            }
        })
    }

    /// Frees the memory, which must have what was written.
    fn free(self, stamp: u64) -> Result<(), String> {
        let found = match &self {
            Self::Jemalloc(buffer) => buffer.read(),
            Self::Pool(run) => run[..8].try_into().map_or(0, u64::from_ne_bytes),
        };
        match found == stamp {
            true => Ok(()),
            false => Err(format!("{found:#x} in memory of {stamp:#x}")),
        }
    }
}

/// What the kernel says of this process.
fn counters() -> Result<(u64, u64), Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in brackets, may have spaces.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or_default();
    // Minor faults, and time in the kernel in hundredths of a second.
    Ok((field(10).parse()?, field(15).parse()?))
}

/// Returns the resident MiB of this process.
fn resident() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = text.split_whitespace().nth(1).ok_or("statm")?.parse()?;
    Ok(pages as f64 / MIB as f64)
}

/// The parts of a run.
const START: u8 = 0;
const CHURN: u8 = 1;
const GROW: u8 = 2;
const RESTING: u8 = 3;

/// Allocates and frees as all rows do.
struct Program<'p, S: System + 'static> {
    pool: Option<&'p Pool<S>>,
    base: Vec<Stamped<S>>,
    random: u64,
    stamp: u64,
    replaced: usize,
    /// A pool that is emptied after each burst.
    emptied: Option<&'p Pool<S>>,
}

impl<S: System + 'static> Program<'_, S> {
    /// Returns a number that is hard to predict (xorshift).
    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 12) as usize % limit
    }

    fn allocate(&mut self, pages: usize) -> Result<Stamped<S>, Box<dyn Error>> {
        self.stamp += 1;
        Ok((Run::new(self.pool, pages, self.stamp)?, self.stamp))
    }

    /// Allocates runs of this many pages, at the speed of the reports.
    fn grow(&mut self, pages: usize) -> Result<Vec<Stamped<S>>, Box<dyn Error>> {
        let start = Instant::now();
        let (mut runs, mut grown) = (Vec::new(), 0);
        while grown < pages {
            let which = self.below(LENGTHS.len());
            let length = LENGTHS[which].min(pages - grown);
            runs.push(self.allocate(length)?);
            grown += length;
            self.replaced += length;
            if self.replaced >= REPLACED {
                self.replaced -= REPLACED;
                let which = self.below(self.base.len());
                let new = self.allocate(1)?;
                let (old, stamp) = std::mem::replace(&mut self.base[which], new);
                old.free(stamp)?;
            }
            let due = Duration::from_micros((grown / MIB) as u64 * MIB_MICROSECONDS);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
        Ok(runs)
    }

    fn burst(&mut self, pages: usize, pause: Duration) -> Result<(), Box<dyn Error>> {
        let runs = self.grow(pages)?;
        thread::sleep(pause);
        for (run, stamp) in runs {
            run.free(stamp)?;
        }
        if let Some(pool) = self.emptied {
            pool.release_free()?;
        }
        Ok(())
    }
}

/// Runs a row in this process.
fn enter(row: &Row) -> Result<(), Box<dyn Error>> {
    match row.source {
        Source::Jemalloc(_) => run::<Everybuddy>(row, None, None),
        Source::Both => {
            // Large extents have a page more than a power of two, and runs are aligned to the next one.
            let builder = Pool::builder(2 * POOL).release_order(Order::ZERO);
            let pool = builder.build()?;
            let arena = Arena::new(Some(&pool))?;
            arena.keep_free_extents(0)?;
            arena.enter()?;
            run(row, None, Some(&pool))
        }
        Source::Pool(order) => {
            let order = Order::new(order).ok_or("an order")?;
            let pool = Pool::builder(POOL).release_order(order).build()?;
            run(row, Some(&pool), Some(&pool))
        }
        Source::Lists(order) => {
            let order = Order::new(order).ok_or("an order")?;
            let builder = Pool::builder(POOL).release_order(order);
            let pool = builder.system::<Bs>().build()?;
            run(row, Some(&pool), Some(&pool))
        }
    }
}

/// Runs the program with memory of a pool, or of jemalloc, and prints what the parent reads. `released` is the pool
/// from which memory is returned.
fn run<S: System + 'static>(
    row: &Row,
    pool: Option<&Pool<S>>,
    released: Option<&Pool<S>>,
) -> Result<(), Box<dyn Error>> {
    if let Some(pool) = released.filter(|_| row.delay > 0).cloned() {
        let period = Duration::from_millis(row.delay);
        thread::spawn(move || {
            loop {
                thread::sleep(period);
                if let Err(error) = pool.release_free() {
                    eprintln!("{error}");
                }
            }
        });
    }
    let part = Arc::new(AtomicU8::new(START));
    let samples: Arc<Mutex<Vec<(u8, f64)>>> = Arc::default();
    {
        let (part, samples) = (Arc::clone(&part), Arc::clone(&samples));
        thread::spawn(move || {
            loop {
                if let (Ok(resident), Ok(mut samples)) = (resident(), samples.lock()) {
                    samples.push((part.load(Ordering::Relaxed), resident));
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
    }
    let mut program = Program {
        pool,
        base: Vec::new(),
        random: 0x9e37_79b9_7f4a_7c15,
        stamp: 0,
        replaced: 0,
        emptied: released.filter(|_| row.delay == 0),
    };
    for _ in 0..BASE {
        let object = program.allocate(1)?;
        program.base.push(object);
    }
    let (faults, kernel) = counters()?;
    let started = Instant::now();
    part.store(CHURN, Ordering::Relaxed);
    for _ in 0..ROUNDS {
        program.burst(ROUND, PAUSE)?;
        thread::sleep(PAUSE);
    }
    let churn = started.elapsed();
    let (churn_faults, _) = counters()?;
    part.store(GROW, Ordering::Relaxed);
    program.burst(BURST, Duration::ZERO)?;
    part.store(RESTING, Ordering::Relaxed);
    thread::sleep(REST);
    let end = resident()?;
    let (_, kernel_end) = counters()?;
    let samples = samples.lock().map_err(|_| "the sampler panicked")?;
    let mean = |part| {
        let of = samples.iter().filter(|sample| sample.0 == part);
        let (count, sum) = of.fold((0, 0.0), |(count, sum), sample| (count + 1, sum + sample.1));
        sum / f64::from(count.max(1))
    };
    println!(
        "{:.1} {} {:.1} {end:.1} {} {:.2}",
        mean(CHURN),
        churn_faults - faults,
        mean(RESTING),
        (kernel_end - kernel) * 10,
        churn.as_secs_f64()
    );
    for (object, stamp) in program.base.drain(..) {
        object.free(stamp)?;
    }
    Ok(())
}

/// Starts a row as a process of its own.
fn start(index: usize, row: &Row) -> Result<Child, Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?);
    child.arg(index.to_string()).stdout(Stdio::piped());
    let settings = match row.source {
        Source::Jemalloc(settings) => settings,
        Source::Pool(_) | Source::Lists(_) => "",
        // Otherwise jemalloc would keep the addresses.
        Source::Both => "retain:false",
    };
    child.env("_RJEM_MALLOC_CONF", settings);
    Ok(child.spawn()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(index) = std::env::args().nth(1) {
        let index: usize = index.parse()?;
        return enter(ROWS.get(index).ok_or("no such row")?);
    }
    println!(
        "{:<21} {:>8}  {:>22} {:>14}  {:>22} {:>10}  {:>9} {:>7}",
        "",
        "delay",
        "rounds: mean resident",
        "faults",
        "rest: mean resident",
        "at its end",
        "kernel",
        "rounds"
    );
    for group in 0..ROWS.len().div_ceil(3) {
        let rows = || ROWS.iter().enumerate().skip(3 * group).take(3);
        let mut children = Vec::new();
        for (index, row) in rows() {
            children.push(start(index, row)?);
            // So that their bursts are not at the same time.
            thread::sleep(Duration::from_millis(300));
        }
        for ((_, row), child) in rows().zip(children) {
            let output = child.wait_with_output()?;
            let text = String::from_utf8(output.stdout)?;
            let numbers: Vec<&str> = text.split_whitespace().collect();
            let [churn, faults, rest, end, kernel, seconds] = numbers[..] else {
                return Err(format!("{} with {} ms failed", row.name, row.delay).into());
            };
            println!(
                "{:<21} {:>5} ms  {churn:>18} MiB {faults:>14}  {rest:>18} MiB {end:>6} MiB  \
                 {kernel:>6} ms {seconds:>5} s",
                row.name, row.delay
            );
        }
    }
    Ok(())
}
