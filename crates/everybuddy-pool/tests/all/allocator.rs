//! Collections in a pool.

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use everybuddy_pool::Pool;

#[test]
fn vectors_grow_and_shrink_in_a_pool() {
    let pool = Pool::builder(32 << 20).tokens(1).build().unwrap();
    let mut bytes: Vec<u8, &Pool> = Vec::new_in(&pool);
    pool.check(0).unwrap();
    for index in 0..3_000_000u32 {
        bytes.push(index as u8);
    }
    assert!(pool.contains(bytes.as_ptr()));
    bytes.truncate(1_000_000);
    bytes.shrink_to_fit();
    assert!(
        bytes
            .iter()
            .enumerate()
            .all(|(index, byte)| index as u8 == *byte)
    );
    pool.check(1_000_000_u64.div_ceil(4096)).unwrap();
    bytes.truncate(0);
    bytes.shrink_to_fit();
    pool.check(0).unwrap();
    // A vector that owns a handle keeps the pool.
    let (mut kept, weak) = (Vec::new_in(pool.clone()), pool.downgrade());
    kept.extend([1u64; 600]);
    drop(bytes);
    drop(pool);
    assert_eq!(kept.iter().sum::<u64>(), 600);
    weak.upgrade().unwrap().check(2).unwrap();
    drop(kept);
    assert!(weak.upgrade().is_err());
}

#[test]
fn values_have_their_alignment() {
    #[repr(align(65536))]
    struct Aligned(u8);
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let _page = pool.allocate_pages(1).unwrap();
    let boxed = Box::new_in(Aligned(3), &pool);
    assert_eq!(std::ptr::from_ref(&*boxed).addr() % 65536, 0);
    assert_eq!(boxed.0, 3);
    let nothing = Box::new_in((), &pool);
    drop((boxed, nothing));
    pool.check(1).unwrap();
}

#[test]
fn a_full_pool_is_an_allocation_error() {
    let pool = Pool::builder(4 << 20).tokens(1).build().unwrap();
    let mut bytes: Vec<u8, &Pool> = Vec::new_in(&pool);
    assert!(bytes.try_reserve(5 << 20).is_err());
    assert!(bytes.try_reserve(4 << 20).is_ok());
    assert!(Box::try_new_in(0u8, &pool).is_err());
}
