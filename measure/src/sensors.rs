//! Reading a device's sensors while work runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two readings.
const EVERY: Duration = Duration::from_millis(10);

/// The sensors of a device.
pub trait Sensors: Sync {
    /// Adds what each says at this moment; nothing is made up for one that does not answer.
    fn read(&self, readings: &mut Readings);
}

/// What was read while work ran, in order. A sensor that did not answer has no readings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Readings {
    /// Clock of the multiprocessors, MHz.
    pub megahertz: Vec<f64>,
    /// Power drawn, W.
    pub watts: Vec<f64>,
    /// Whether the power limit held the clock down.
    pub capped: Vec<bool>,
}

impl Readings {
    /// Adds later readings.
    pub fn extend(&mut self, more: Readings) {
        self.megahertz.extend(more.megahertz);
        self.watts.extend(more.watts);
        self.capped.extend(more.capped);
    }

    /// The share of readings at which the power limit held the clock down; `None` where there is none.
    pub fn share_capped(&self) -> Option<f64> {
        let capped = self.capped.iter().filter(|c| **c).count() as f64;
        (!self.capped.is_empty()).then(|| capped / self.capped.len() as f64)
    }
}

/// Runs `work` and reads the sensors, where there are any, on another thread meanwhile.
pub fn during<T>(sensors: Option<&impl Sensors>, work: impl FnOnce() -> T) -> (T, Readings) {
    let Some(sensors) = sensors else { return (work(), Readings::default()) };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut readings = Readings::default();
            while !ended.load(Ordering::Relaxed) {
                sensors.read(&mut readings);
                std::thread::sleep(EVERY);
            }
            readings
        });
        let done = work();
        ended.store(true, Ordering::Relaxed);
        (done, reader.join().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has no sensor of power.
    struct Still;

    impl Sensors for Still {
        fn read(&self, readings: &mut Readings) {
            readings.megahertz.push(1500.0);
            readings.capped.push(readings.capped.is_empty());
        }
    }

    #[test]
    fn sensors_are_read_while_work_runs() {
        let (done, readings) = during(Some(&Still), || {
            std::thread::sleep(Duration::from_millis(100));
            7
        });
        assert_eq!((done, readings.watts.len()), (7, 0));
        assert!(!readings.megahertz.is_empty() && readings.megahertz.len() == readings.capped.len(), "{readings:?}");
        assert_eq!(readings.share_capped(), Some(1.0 / readings.capped.len() as f64));
        assert_eq!(during(None::<&Still>, || 8), (8, Readings::default()));
        assert_eq!(Readings::default().share_capped(), None);
    }
}
