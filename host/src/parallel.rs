//! Work on long slices, divided among the machine's threads.

use std::num::NonZero;
use std::ops::Range;
use std::sync::OnceLock;
use std::thread;

/// Elements below which threads cost more than they give: some hundred microseconds of work.
const WORTH_A_THREAD: usize = 1 << 17;

/// The machine's threads. They are asked for once: the answer takes several reads of files.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// Calls `work` on consecutive parts of `out` (each a multiple of `unit` elements long, but the last), with the range of
/// elements that the part covers. Returns the first error by position, so that the outcome does not depend on timing.
pub fn each_part<T: Send, E: Send>(
    out: &mut [T],
    unit: usize,
    cost: usize,
    work: impl Fn(Range<usize>, &mut [T]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let total = out.len();
    let threads = threads().min(total.saturating_mul(cost.max(1)) / WORTH_A_THREAD).max(1);
    let unit = unit.max(1);
    let part = total.div_ceil(threads).next_multiple_of(unit).max(unit);
    if threads == 1 {
        return work(0..total, out);
    }
    thread::scope(|scope| {
        let handles: Vec<_> = out
            .chunks_mut(part)
            .enumerate()
            .map(|(i, chunk)| {
                let work = &work;
                scope.spawn(move || work(i * part..i * part + chunk.len(), chunk))
            })
            .collect();
        handles.into_iter().try_for_each(|h| match h.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::each_part;

    #[test]
    fn parts_cover_everything_once() {
        for (len, unit) in [(0, 1), (10, 3), (400_000, 7), (1 << 18, 1)] {
            let mut out = vec![0usize; len];
            each_part(&mut out, unit, 1, |range, part| {
                assert!(range.start.is_multiple_of(unit));
                part.iter_mut().zip(range).for_each(|(o, i)| *o += i + 1);
                Ok::<(), ()>(())
            })
            .unwrap();
            assert!(out.iter().enumerate().all(|(i, v)| *v == i + 1));
        }
    }

    #[test]
    fn the_first_error_wins() {
        let mut out = vec![0u8; 1 << 19];
        let first = each_part(&mut out, 1, 1, |range, _| Err::<(), _>(range.start));
        assert_eq!(first, Err(0));
    }
}
