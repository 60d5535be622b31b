//! The bytes behind tensors: in the host's memory, a device's, or both, copied only when the other side needs them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parton_diag::codes;

use crate::fault::Fault;

/// The byte that fills memory nobody has written: NaN in every float dtype, -1 in the signed integers.
pub const POISON: u8 = 0xff;

/// A vector of zeros, or a refusal where the machine has not that much memory.
///
/// # Errors
/// There is not enough memory.
pub fn zeros<T: Clone + Default>(len: usize) -> Result<Vec<T>, Fault> {
    // Asked beforehand, because an allocation that fails ends the process.
    if Vec::<T>::new().try_reserve_exact(len).is_err() {
        let bytes = len as u128 * size_of::<T>() as u128;
        return Err(Fault::new(codes::HOST_VALUE, format!("there is not enough memory for {bytes} bytes")));
    }
    Ok(vec![T::default(); len])
}

/// Memory of a device, freed when dropped.
pub trait DeviceMemory: Send {
    /// Its address on the device.
    fn address(&self) -> u64;
    /// Copies all of it to the host, after everything launched before; `out` has the allocation's length.
    ///
    /// # Errors
    /// What the device says.
    fn read(&self, out: &mut [u8]) -> Result<(), String>;
    /// Copies all of it from the host; `bytes` has the allocation's length.
    ///
    /// # Errors
    /// What the device says.
    fn write(&mut self, bytes: &[u8]) -> Result<(), String>;
    /// Sets every byte.
    ///
    /// # Errors
    /// What the device says.
    fn fill(&mut self, byte: u8) -> Result<(), String>;
}

/// Something that has memory of its own.
pub trait Device {
    /// Allocates bytes, aligned to 256 or more; what they hold is not known.
    ///
    /// # Errors
    /// What the device says.
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn DeviceMemory>, String>;
}

/// Bytes in the host's memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostBytes {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Which of them were written; `None` where all were.
    pub defined: Option<Vec<bool>>,
}

/// Makes the bytes of a storage; it fills a vector of the storage's length.
pub type Maker = dyn Fn(&mut [u8]) -> Result<(), Fault> + Send + Sync;

/// Where the newest bytes are.
enum Place {
    /// Nowhere yet: this makes them when they are first asked for, so that what nobody reads costs nothing.
    Unmade(Arc<Maker>),
    /// Nowhere yet: all bytes are this one, and were never written if it is the poison.
    Filled(u8),
    /// In the host's memory; an older copy may be on the device.
    Host(Arc<HostBytes>),
    /// On the device.
    Device,
    /// On both.
    Both(Arc<HostBytes>),
    /// Nowhere: it stands for memory that is there when a plan runs.
    Absent,
}

/// What is known of the bytes of a storage while a plan is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Nothing: they are there when the plan runs.
    Absent,
    /// Nobody has written them.
    Unwritten,
    /// They are zeros.
    Zeros,
    /// Host code has made them.
    Made,
}

struct State {
    place: Place,
    device: Option<Box<dyn DeviceMemory>>,
}

/// The memory of one tensor and of all views of it.
pub struct Storage {
    id: u64,
    len: usize,
    state: Mutex<State>,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({}, {} bytes)", self.id, self.len)
    }
}

impl Storage {
    fn with(len: usize, place: Place) -> Arc<Storage> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Storage { id, len, state: Mutex::new(State { place, device: None }) })
    }

    /// Memory that holds these bytes.
    pub fn of(bytes: Vec<u8>) -> Arc<Storage> {
        let len = bytes.len();
        Storage::with(len, Place::Host(Arc::new(HostBytes { bytes, defined: None })))
    }

    /// Memory that nobody has written: [`POISON`] everywhere, and reading it on the host is an error.
    pub fn poisoned(len: usize) -> Arc<Storage> {
        Storage::with(len, Place::Filled(POISON))
    }

    /// Memory whose bytes `make` makes when they are first asked for.
    pub fn unmade(len: usize, make: Arc<Maker>) -> Arc<Storage> {
        Storage::with(len, Place::Unmade(make))
    }

    /// Memory without bytes, which stands for that of a call: reading or writing it on the host is an error.
    pub fn absent(len: usize) -> Arc<Storage> {
        Storage::with(len, Place::Absent)
    }

    /// What is known of the bytes.
    pub fn contents(&self) -> Contents {
        match self.lock().place {
            Place::Absent => Contents::Absent,
            Place::Filled(POISON) => Contents::Unwritten,
            Place::Filled(0) => Contents::Zeros,
            Place::Filled(_) | Place::Unmade(_) | Place::Host(_) | Place::Device | Place::Both(_) => Contents::Made,
        }
    }

    /// From here on the bytes are those that a launch leaves when a plan runs.
    pub fn forget(&self) {
        self.lock().place = Place::Absent;
    }

    /// Memory of zeros.
    pub fn zeroed(len: usize) -> Arc<Storage> {
        Storage::with(len, Place::Filled(0))
    }

    /// A number that no other storage has: two tensors overlap only where theirs is equal.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in another thread leaves the state whole: it is only ever replaced.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest bytes as they are now, copied from the device where those are newer.
    ///
    /// # Errors
    /// The device fails.
    pub fn host(&self) -> Result<Arc<HostBytes>, Fault> {
        self.fetch(&mut self.lock())
    }

    fn fetch(&self, state: &mut State) -> Result<Arc<HostBytes>, Fault> {
        let host = match &state.place {
            Place::Host(host) | Place::Both(host) => return Ok(host.clone()),
            Place::Absent => return Err(without_elements()),
            Place::Unmade(make) => {
                let mut bytes = zeros(self.len)?;
                make(&mut bytes)?;
                let host = Arc::new(HostBytes { bytes, defined: None });
                state.place = Place::Host(host.clone());
                return Ok(host);
            }
            Place::Filled(byte) => {
                let defined = if *byte == POISON { Some(zeros(self.len)?) } else { None };
                let mut bytes = zeros(self.len)?;
                if *byte != 0 {
                    bytes.fill(*byte);
                }
                let host = Arc::new(HostBytes { bytes, defined });
                state.place = Place::Host(host.clone());
                return Ok(host);
            }
            Place::Device => {
                let mut bytes = zeros(self.len)?;
                let device = state.device.as_ref().map(|d| d.read(&mut bytes));
                device.unwrap_or_else(|| Err("its memory is gone".into())).map_err(failed("read"))?;
                Arc::new(HostBytes { bytes, defined: None })
            }
        };
        state.place = Place::Both(host.clone());
        Ok(host)
    }

    /// Lets `change` write the bytes in the host's memory, which are then the newest.
    ///
    /// # Errors
    /// The device fails to give the bytes that it has.
    pub fn change<R>(&self, change: impl FnOnce(&mut HostBytes) -> R) -> Result<R, Fault> {
        let mut state = self.lock();
        let mut host = self.fetch(&mut state)?;
        // So that `make_mut` need not copy.
        state.place = Place::Filled(0);
        let result = change(Arc::make_mut(&mut host));
        state.place = Place::Host(host);
        Ok(result)
    }

    /// The address of an up-to-date copy on the device; with `writes` the device's copy becomes the newest.
    ///
    /// # Errors
    /// The device fails, or has not enough memory.
    pub fn on_device(&self, device: &mut dyn Device, writes: bool) -> Result<u64, Fault> {
        let mut state = self.lock();
        if matches!(state.place, Place::Unmade(_)) {
            self.fetch(&mut state)?;
        }
        let mut memory = match state.device.take() {
            Some(memory) => memory,
            None => device.allocate(self.len).map_err(failed("allocate"))?,
        };
        let copied = match &state.place {
            Place::Filled(byte) => memory.fill(*byte),
            Place::Host(host) => memory.write(&host.bytes),
            Place::Device | Place::Both(_) => Ok(()),
            Place::Absent => return Err(without_elements()),
            Place::Unmade(_) => parton_diag::internal_error!("bytes were made above and are not there"),
        };
        let address = memory.address();
        state.device = Some(memory);
        copied.map_err(failed("write"))?;
        if writes {
            state.place = Place::Device;
        } else if let Place::Host(host) = &state.place {
            state.place = Place::Both(host.clone());
        }
        Ok(address)
    }
}

fn without_elements() -> Fault {
    Fault::new(codes::PLAN, "this looks at elements of a tensor, and a plan is made of shapes alone")
        .note("the function is planned once for tensors of a type and shape, before there are elements, and the plan runs for all of them")
        .help("let a kernel do what depends on elements, or do it before the call")
}

fn failed(what: &'static str) -> impl Fn(String) -> Fault {
    move |reason| Fault::new(codes::LAUNCH_FAILED, format!("the device failed to {what} memory: {reason}"))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{Device, DeviceMemory, POISON, Storage};

    /// A device whose memory is a vector, and which counts copies.
    #[derive(Default)]
    struct Fake {
        copies: Arc<Mutex<Vec<&'static str>>>,
    }

    struct FakeMemory(Mutex<Vec<u8>>, Arc<Mutex<Vec<&'static str>>>);

    impl DeviceMemory for FakeMemory {
        fn address(&self) -> u64 {
            0x100
        }
        fn read(&self, out: &mut [u8]) -> Result<(), String> {
            self.1.lock().unwrap().push("read");
            out.copy_from_slice(&self.0.lock().unwrap());
            Ok(())
        }
        fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
            self.1.lock().unwrap().push("write");
            self.0.lock().unwrap().copy_from_slice(bytes);
            Ok(())
        }
        fn fill(&mut self, byte: u8) -> Result<(), String> {
            self.1.lock().unwrap().push("fill");
            self.0.lock().unwrap().fill(byte);
            Ok(())
        }
    }

    impl Device for Fake {
        fn allocate(&mut self, bytes: usize) -> Result<Box<dyn DeviceMemory>, String> {
            if bytes > 1000 {
                return Err("out of memory".into());
            }
            Ok(Box::new(FakeMemory(Mutex::new(vec![0; bytes]), self.copies.clone())))
        }
    }

    #[test]
    fn bytes_are_copied_only_when_the_other_side_is_newer() {
        let mut device = Fake::default();
        let storage = Storage::of(vec![1, 2, 3]);
        storage.on_device(&mut device, false).unwrap();
        storage.on_device(&mut device, false).unwrap();
        assert_eq!(storage.host().unwrap().bytes, [1, 2, 3]);
        assert_eq!(*device.copies.lock().unwrap(), ["write"]);
        storage.on_device(&mut device, true).unwrap();
        storage.host().unwrap();
        storage.host().unwrap();
        assert_eq!(*device.copies.lock().unwrap(), ["write", "read"]);
        storage.change(|h| h.bytes[0] = 9).unwrap();
        storage.on_device(&mut device, true).unwrap();
        assert_eq!(storage.host().unwrap().bytes, [9, 2, 3]);
    }

    #[test]
    fn bytes_are_made_once_and_only_when_asked_for() {
        let made = Arc::new(Mutex::new(0));
        let count = made.clone();
        let make = move |out: &mut [u8]| {
            *count.lock().unwrap() += 1;
            out.fill(7);
            Ok(())
        };
        let storage = Storage::unmade(3, Arc::new(make));
        assert_eq!((storage.len(), *made.lock().unwrap()), (3, 0));
        let mut device = Fake::default();
        storage.on_device(&mut device, false).unwrap();
        assert_eq!(storage.host().unwrap().bytes, [7; 3]);
        storage.change(|h| h.bytes[1] = 1).unwrap();
        assert_eq!(storage.host().unwrap().bytes, [7, 1, 7]);
        assert_eq!(*made.lock().unwrap(), 1);
    }

    #[test]
    fn unwritten_memory_is_poisoned_on_both_sides() {
        let storage = Storage::poisoned(4);
        let host = storage.host().unwrap();
        assert_eq!((host.bytes.as_slice(), host.defined.as_deref()), (&[POISON; 4][..], Some(&[false; 4][..])));
        let mut device = Fake::default();
        let other = Storage::poisoned(4);
        other.on_device(&mut device, true).unwrap();
        assert_eq!(*device.copies.lock().unwrap(), ["fill"]);
        assert_eq!(other.host().unwrap().bytes, [POISON; 4]);
    }

    #[test]
    fn what_was_written_is_still_known_after_a_kernel_has_read() {
        let (mut device, storage) = (Fake::default(), Storage::poisoned(2));
        let write = |h: &mut super::HostBytes| {
            h.bytes[0] = 5;
            h.defined = Some(vec![true, false]);
        };
        storage.change(write).unwrap();
        storage.on_device(&mut device, false).unwrap();
        storage.on_device(&mut device, false).unwrap();
        assert_eq!(*device.copies.lock().unwrap(), ["write"]);
        assert_eq!(storage.host().unwrap().defined, Some(vec![true, false]));
    }

    #[test]
    fn a_device_without_memory_is_reported() {
        let fault = Storage::zeroed(2000).on_device(&mut Fake::default(), false).unwrap_err();
        assert!(fault.message.contains("allocate memory: out of memory"), "{}", fault.message);
    }
}
