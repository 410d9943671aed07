//! Independent work on several threads of the host.
//!
//! Cells do not depend on each other, so each CPU of the host can simulate one.
//!
//! # Invariants
//! Work is begun in the order of its numbers. So the error that is returned, that of the smallest number, does not
//! depend on the number of threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use everybuddy_measure::Error;

/// Does `work` for the numbers from 0 to `count - 1` on at most `jobs` threads. Calls `done` with each result, in the
/// order in which they end, on the calling thread.
///
/// # Errors
/// The error of `done`, or that of the work with the smallest number. No more work is begun after an error, and what
/// was begun ends.
pub fn each<T: Send>(
    jobs: NonZero<usize>,
    count: usize,
    work: impl Fn(usize) -> Result<T, Error> + Sync,
    done: &mut dyn FnMut(usize, T) -> Result<(), Error>,
) -> Result<(), Error> {
    let work = |number, ended: &mut dyn FnMut(T) -> bool| {
        ended(work(number)?);
        Ok(())
    };
    each_of_several(jobs, count, work, done)
}

/// Does work that has any number of results: passes each to a function, which returns whether to go on. It does not go
/// on after an error of `done`, or of work with a smaller number. Otherwise this is [`each`].
///
/// # Errors
/// Those of [`each`].
pub(crate) fn each_of_several<T: Send>(
    jobs: NonZero<usize>,
    count: usize,
    work: impl Fn(usize, &mut dyn FnMut(T) -> bool) -> Result<(), Error> + Sync,
    done: &mut dyn FnMut(usize, T) -> Result<(), Error>,
) -> Result<(), Error> {
    // Work with this number or a larger one does not go on: work with the smallest number of all errors does.
    let (next, end) = (AtomicUsize::new(0), AtomicUsize::new(count));
    let mut failed: Option<(usize, Error)> = None;
    let mut refused = Ok(());
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..jobs.get().min(count) {
            let (sender, next, end, work) = (sender.clone(), &next, &end, &work);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut ended = |value| {
                        let is_sent = sender.send((number, Ok(value))).is_ok();
                        is_sent && number < end.load(Ordering::Relaxed)
                    };
                    if let Err(error) = work(number, &mut ended) {
                        end.fetch_min(number, Ordering::Relaxed);
                        // The other end is there until all threads have ended.
                        let _ = sender.send((number, Err(error)));
                    }
                }
            });
        }
        drop(sender);
        for (number, result) in results {
            match result {
                Ok(value) if refused.is_ok() => refused = done(number, value),
                Ok(_) => {}
                Err(error) if failed.as_ref().is_none_or(|known| number < known.0) => {
                    failed = Some((number, error));
                }
                Err(_) => {}
            }
            if refused.is_err() {
                end.store(0, Ordering::Relaxed);
            }
        }
    });
    refused?;
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::time::Duration;

    use super::*;

    fn jobs(jobs: usize) -> NonZero<usize> {
        NonZero::new(jobs).unwrap()
    }

    #[test]
    fn all_work_is_done_once_by_any_number_of_threads() {
        for threads in [1, 2, 7, 100] {
            let mut results = vec![None; 40];
            each(
                jobs(threads),
                40,
                |number| Ok(number * number),
                &mut |number, value| {
                    assert_eq!(results[number].replace(value), None);
                    Ok(())
                },
            )
            .unwrap();
            let squares: Vec<Option<usize>> = (0..40).map(|number| Some(number * number)).collect();
            assert_eq!(results, squares);
        }
        each(jobs(2), 0, |_| Ok(()), &mut |_, ()| Ok(())).unwrap();
    }

    #[test]
    fn the_first_error_is_the_same_for_any_number_of_threads() {
        for threads in [1, 2, 5] {
            let (begun, mut ended) = (Mutex::new(0), 0);
            let work = |number| {
                *begun.lock().unwrap() += 1;
                match number {
                    3 | 4 => Err(Error::usage(number.to_string())),
                    number => Ok(number),
                }
            };
            let error = each(jobs(threads), 1000, work, &mut |_, _| {
                ended += 1;
                Ok(())
            });
            assert_eq!(error.unwrap_err().to_string(), "3");
            let begun = *begun.lock().unwrap();
            assert!(ended >= 3 && begun < 1000, "{threads}: {ended} of {begun}");
            assert!(threads > 1 || begun == 4, "{begun}");
        }
    }

    #[test]
    fn the_first_error_is_that_of_the_smallest_number_whichever_ends_first() {
        for late in [0, 1] {
            let both = Barrier::new(2);
            let work = |number: usize| -> Result<(), Error> {
                both.wait();
                if number == late {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(Error::usage(number.to_string()))
            };
            let error = each(jobs(2), 2, work, &mut |_, ()| Ok(()));
            assert_eq!(error.unwrap_err().to_string(), "0");
        }
    }

    #[test]
    fn work_with_several_results_goes_on_only_if_no_earlier_work_has_failed() {
        for threads in [1, 2, 4] {
            let seen = Mutex::new(vec![0; 4]);
            // With several threads, number 1 has an error before number 0 has one.
            let both = Barrier::new(threads.min(2));
            let work = |number: usize, ended: &mut dyn FnMut(usize) -> bool| {
                if threads > 1 && number < 2 {
                    both.wait();
                }
                for at in 0..10 {
                    seen.lock().unwrap()[number] += 1;
                    if !ended(at) {
                        return Ok(());
                    }
                    if number == 0 {
                        thread::sleep(Duration::from_millis(3));
                    }
                    if (number, at) == (1, 2) {
                        return Err(Error::usage("1"));
                    }
                }
                match number {
                    0 => Err(Error::usage("0")),
                    _ => Ok(()),
                }
            };
            let mut results = 0;
            let error = each_of_several(jobs(threads), 4, work, &mut |_, _| {
                results += 1;
                Ok(())
            });
            assert_eq!(error.unwrap_err().to_string(), "0", "{threads} threads");
            assert_eq!(
                seen.into_inner().unwrap()[0],
                10,
                "an error of number 1 does not end number 0"
            );
            assert!(results >= 10, "{results}");
        }
        // What cannot be stored ends work between two results.
        let work = |_, ended: &mut dyn FnMut(usize) -> bool| {
            for _ in 0..2000 {
                if !ended(0) {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(1));
            }
            panic!("the work goes on");
        };
        let error = each_of_several(jobs(2), 2, work, &mut |_, _| Err(Error::usage("full")));
        assert_eq!(error.unwrap_err().to_string(), "full");
    }

    #[test]
    fn what_cannot_be_stored_ends_the_work() {
        let mut ended = 0;
        let error = each(jobs(2), 1000, Ok, &mut |_, _| {
            ended += 1;
            Err(Error::usage("full"))
        });
        assert_eq!(
            (error.unwrap_err().to_string().as_str(), ended),
            ("full", 1)
        );
    }
}
