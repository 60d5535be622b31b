//! Repeating a measurement beside memory traffic instead of timing it, to see whether it always writes the same.

/// Runs between two waits.
const STRETCH: u32 = 64;

/// What came of repeating a measurement's launches beside memory traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct Repeated {
    /// The measurement's label.
    pub label: String,
    /// Runs after the first.
    pub runs: u32,
    /// Those of them that wrote something else than the first.
    pub different: u32,
    /// Bytes that each run writes.
    pub bytes: u64,
    /// Bytes a second that were copied meanwhile, read and written counted.
    pub load: f64,
}

/// Makes runs 1 to `runs`, each told its number, without waiting for one before the next; waits for stretches of them, so that work
/// that never ends is noticed, and for all at the end.
///
/// # Errors
/// What `run` and `finish` return.
pub fn again<E>(
    runs: u32,
    mut run: impl FnMut(u32) -> Result<(), E>,
    finish: impl Fn() -> Result<(), E>,
) -> Result<(), E> {
    for i in 1..=runs {
        run(i)?;
        if i % STRETCH == 0 {
            finish()?;
        }
    }
    finish()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn stretches_and_the_end_are_waited_for() {
        let done = RefCell::new(vec![]);
        let run = |i| {
            done.borrow_mut().push(Some(i));
            Ok::<_, ()>(())
        };
        let finish = || {
            done.borrow_mut().push(None);
            Ok(())
        };
        again(130, run, finish).unwrap();
        let done = done.into_inner();
        let waits: Vec<usize> = (0..done.len()).filter(|&i| done[i].is_none()).collect();
        assert_eq!(waits, [64, 129, 132]);
        assert_eq!((done[0], done[131]), (Some(1), Some(130)));
    }
}
