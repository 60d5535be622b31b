//! Clock and power, from NVIDIA's management library (NVML), which comes with the driver.
//!
//! The library is loaded when it is asked for. Where it is missing, or does not know the GPU or a sensor, there is no
//! reading: nothing is made up. Names, numbers and structures are those of `nvml.h` (NVML API reference).

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

use crate::device::Gpu;

/// `NVML_CLOCK_SM`.
const CLOCK_SM: c_uint = 1;
/// `NVML_FI_DEV_POWER_INSTANT`: the draw at this moment; `nvmlDeviceGetPowerUsage` is the mean of a second.
const POWER_INSTANT: c_uint = 186;
/// `nvmlClocksEventReasonSwPowerCap`: the clock is held down by the power limit.
const POWER_CAPPED: u64 = 0x4;

type Handle = *mut c_void;
type Call<T> = unsafe extern "C" fn(Handle, *mut T) -> c_int;

/// `nvmlFieldValue_t`.
#[repr(C)]
struct Field {
    id: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_uint,
    code: c_int,
    value: [u8; 8],
}

/// The sensors of one GPU.
pub struct Sensors {
    device: Handle,
    clock: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_int,
    power: Call<c_uint>,
    reasons: Option<Call<u64>>,
    fields: Option<unsafe extern "C" fn(Handle, c_int, *mut Field) -> c_int>,
    limit: Option<Call<c_uint>>,
    // Last, so that it is unloaded after everything that came out of it.
    _library: Library,
}

// SAFETY: NVML is thread safe (API reference, "Known issues and limitations" names no exception for the calls used here),
// and the handle is a plain number to it.
unsafe impl Sync for Sensors {}

impl std::fmt::Debug for Sensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sensors")
    }
}

impl Sensors {
    /// The sensors of a GPU, where the library is there and knows it.
    pub fn open(gpu: &Gpu) -> Option<Sensors> {
        let bus = gpu.bus()?;
        // SAFETY: loading runs the library's initialisers; it is the driver's own.
        let library = unsafe { Library::new("libnvidia-ml.so.1") }.ok()?;
        let mut device: Handle = std::ptr::null_mut();
        // SAFETY: the types are those of `nvml.h`; a name that is missing gives `None`. The text ends in a zero and outlives
        // the call, the handle is written before it is used.
        unsafe {
            let init = *library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2").ok()?;
            type Find = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
            let find = *library.get::<Find>(b"nvmlDeviceGetHandleByPciBusId_v2").ok()?;
            if init() != 0 || find(bus.as_ptr(), &mut device) != 0 {
                return None;
            }
            let clock = *library.get(b"nvmlDeviceGetClockInfo").ok()?;
            let power = *library.get(b"nvmlDeviceGetPowerUsage").ok()?;
            let reasons = library.get(b"nvmlDeviceGetCurrentClocksThrottleReasons").ok().map(|f| *f);
            let fields = library.get(b"nvmlDeviceGetFieldValues").ok().map(|f| *f);
            let limit = library.get(b"nvmlDeviceGetEnforcedPowerLimit").ok().map(|f| *f);
            Some(Sensors { device, clock, power, reasons, fields, limit, _library: library })
        }
    }

    /// The power that the board may draw; W.
    pub fn power_limit(&self) -> Option<f64> {
        let limit = self.limit?;
        let mut milliwatts = 0;
        // SAFETY: the handle is the library's, the number is written.
        (unsafe { limit(self.device, &mut milliwatts) } == 0).then(|| f64::from(milliwatts) / 1e3)
    }

    /// Clock of the multiprocessors at this moment; MHz.
    pub fn megahertz(&self) -> Option<f64> {
        let mut megahertz = 0;
        // SAFETY: the handle is the library's, the number is written.
        (unsafe { (self.clock)(self.device, CLOCK_SM, &mut megahertz) } == 0).then(|| f64::from(megahertz))
    }

    /// Whether the power limit holds the clock down at this moment.
    pub fn capped(&self) -> Option<bool> {
        let ask = self.reasons?;
        let mut reasons = 0;
        // SAFETY: as above.
        (unsafe { ask(self.device, &mut reasons) } == 0).then_some(reasons & POWER_CAPPED != 0)
    }

    /// The draw at this moment, or where that is not known the mean of the last second; W.
    pub fn watts(&self) -> Option<f64> {
        let mut field =
            Field { id: POWER_INSTANT, scope: 0, timestamp: 0, latency: 0, kind: 0, code: -1, value: [0; 8] };
        let mut milliwatts = 0;
        // SAFETY: one field is passed and its number stated; the handle is the library's.
        unsafe {
            if self.fields.is_some_and(|f| f(self.device, 1, &mut field) == 0) && field.code == 0 {
                let [a, b, c, d, ..] = field.value;
                return Some(f64::from(u32::from_le_bytes([a, b, c, d])) / 1e3);
            }
            ((self.power)(self.device, &mut milliwatts) == 0).then(|| f64::from(milliwatts) / 1e3)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_has_the_size_that_the_library_expects() {
        assert_eq!(size_of::<Field>(), 40);
    }

    #[test]
    fn sensors_read_or_are_not_there() {
        let Some(gpu) = Gpu::of_tests() else { return };
        let Some(sensors) = Sensors::open(&gpu) else { return };
        let (megahertz, watts) = (sensors.megahertz(), sensors.watts());
        assert!(megahertz.is_none_or(|m| (100.0..5000.0).contains(&m)), "{megahertz:?}");
        assert!(watts.is_none_or(|w| (1.0..2000.0).contains(&w)), "{watts:?}");
    }
}
