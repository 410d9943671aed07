//! The page cache of the example `page_cache`, with a pool that is hardly large enough.

#[path = "../../examples/page_cache/sources.rs"]
mod sources;
#[path = "../../examples/page_cache/store.rs"]
mod store;

use everybuddy_pool::Pool;
use sources::{Lists, Pooled, Unpooled};
use store::{Cache, PAGE, Store};

#[test]
fn a_page_cache_reads_the_same_from_a_pool_as_from_mappings() {
    let name = format!("everybuddy-cache-{}", std::process::id());
    let store = Store::create(&std::env::temp_dir().join(name), 1200).unwrap();
    let limit = store.pages() / 4;
    // A quarter more than the cache uses, since runs are aligned; and fewer tokens than threads.
    let bytes = limit * 5 / 4 * PAGE;
    let pool = Pooled(Pool::builder(bytes).tokens(2).build().unwrap());
    let cache = Cache::new(&store, &pool, limit);
    let pooled = store::run(&cache, 4, 4000, 1).unwrap();
    assert_eq!(pooled.hits + pooled.misses, 16_000);
    drop(cache);
    pool.0.check(0).unwrap();
    // One thread reads the same records in the same order from both.
    let one = |reads| store::run(reads, 1, 4000, 7).unwrap();
    let pooled = one(&Cache::new(&store, &pool, limit));
    let mapped = Cache::new(&store, &Unpooled, limit);
    assert_eq!(store::run(&mapped, 1, 4000, 7).unwrap(), pooled);
    let lists = Lists::default();
    let listed = Cache::new(&store, &lists, limit);
    assert_eq!(store::run(&listed, 1, 4000, 7).unwrap(), pooled);
    assert!(pooled.misses > 1000 && pooled.hits > 1000, "{pooled:?}");
}
