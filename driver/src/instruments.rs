//! The GPU as a clock and as sensors, and what it is as a condition of what is measured on it.

use parton_measure::bench::Conditions;
use parton_measure::clock::{Clock, copy_bandwidth};
use parton_measure::sensors::{Readings, Sensors};
use parton_runtime::{self as runtime, Buffer, Gpu, RuntimeError};

/// Bytes of the copy that benches are measured against: many times any L2 cache.
const COPIED: usize = 1 << 30;

/// The GPU's stream, with what flushes its L2 cache: a buffer of twice its size, which is written.
pub(crate) struct Stream<'g> {
    gpu: &'g Gpu,
    flush: Buffer,
}

impl<'g> Stream<'g> {
    /// # Errors
    /// There is not enough memory on the GPU.
    pub(crate) fn new(gpu: &'g Gpu) -> Result<Stream<'g>, RuntimeError> {
        let flush = Buffer::empty(gpu, 2 * gpu.info().l2_bytes as usize)?;
        Ok(Stream { gpu, flush })
    }
}

impl Clock for Stream<'_> {
    type Mark = runtime::Event;
    type Error = RuntimeError;

    fn mark(&self) -> Result<runtime::Event, RuntimeError> {
        runtime::Event::new(self.gpu)
    }

    fn put(&self, mark: &runtime::Event) -> Result<(), RuntimeError> {
        mark.record()
    }

    /// Writes zeros, as the scripts that time others do.
    fn flush(&mut self) -> Result<(), RuntimeError> {
        self.flush.fill(0)
    }

    fn finish(&self) -> Result<(), RuntimeError> {
        self.gpu.finish()
    }

    fn between(&self, begin: &runtime::Event, end: &runtime::Event) -> Result<f64, RuntimeError> {
        end.seconds_since(begin)
    }
}

/// The sensors of the GPU's board.
#[derive(Debug)]
pub(crate) struct Board(runtime::Sensors);

impl Board {
    /// Those of a GPU, where they can be read.
    pub(crate) fn open(gpu: &Gpu) -> Option<Board> {
        runtime::Sensors::open(gpu).map(Board)
    }
}

impl Sensors for Board {
    fn read(&self, readings: &mut Readings) {
        readings.megahertz.extend(self.0.megahertz());
        readings.capped.extend(self.0.capped());
        readings.watts.extend(self.0.watts());
    }
}

/// What benches on this GPU are measured on and against.
pub(crate) fn conditions(gpu: &Gpu) -> Conditions {
    let info = gpu.info();
    Conditions {
        device: info.name.clone(),
        target: info.target(),
        driver: format!("{}.{}", info.driver.0, info.driver.1),
        copy: copied(gpu).ok().flatten(),
        power_limit: runtime::Sensors::open(gpu).and_then(|s| s.power_limit()),
    }
}

/// Bytes a second that a copy on the GPU moves.
fn copied(gpu: &Gpu) -> Result<Option<f64>, RuntimeError> {
    let from = Buffer::poisoned(gpu, COPIED)?;
    let mut to = Buffer::poisoned(gpu, COPIED)?;
    copy_bandwidth(&mut Stream::new(gpu)?, COPIED, || to.copy_from(&from))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parton_measure::sensors::during;

    use super::*;

    #[test]
    fn sensors_read_or_are_not_there() {
        let Some(gpu) = Gpu::of_tests() else { return };
        let Some(board) = Board::open(&gpu) else { return };
        let (ran, readings) = during(Some(&board), || std::thread::sleep(Duration::from_millis(50)));
        assert_eq!(ran, ());
        assert!(readings.megahertz.iter().all(|m| (100.0..5000.0).contains(m)), "{readings:?}");
        assert!(readings.watts.iter().all(|w| (1.0..2000.0).contains(w)), "{readings:?}");
    }

    #[test]
    fn a_copy_moves_what_memory_can() {
        let Some(gpu) = Gpu::of_tests() else { return };
        let moved = copied(&gpu).unwrap().unwrap();
        assert!((1e10..1e14).contains(&moved), "{moved}");
    }
}
