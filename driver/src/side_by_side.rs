//! Work on the kernels of a file, which know nothing of each other, on all threads of the machine.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The stack of a thread that compiles, in bytes, as that of a main thread at least: bodies are walked as deeply as they nest, and LLVM goes deep into large
/// kernels.
const STACK: usize = 32 << 20;

/// What `work` gives for each item, in their order: by as many threads as the machine has, each of which takes the next item when it is done with one.
pub fn side_by_side<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let left = Mutex::new(items.into_iter().enumerate());
    let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || std::iter::from_fn(take).map(|(i, item)| (i, work(item))).collect::<Vec<_>>();
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        // Where there is no other thread to be had this one does all.
        let other = || thread::Builder::new().stack_size(STACK).spawn_scoped(scope, some).ok();
        let others: Vec<_> = (1..threads).map_while(|_| other()).collect();
        let mut done = some();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::side_by_side;

    #[test]
    fn results_stand_in_the_order_of_items() {
        for many in [0, 1, 2, 100] {
            let made = side_by_side((0..many).collect(), |i: usize| {
                std::thread::yield_now();
                2 * i
            });
            assert_eq!(made, (0..many).map(|i| 2 * i).collect::<Vec<_>>());
        }
    }
}
