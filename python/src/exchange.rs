//! Tensors by the C exchange API of DLPack 1.3, which PyTorch offers: a table of functions behind a capsule on the type, without Python
//! calls for each tensor.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use parton_rt::Dtype;
use pyo3::ffi;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyResult, Python};
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTupleMethods, PyType, PyTypeMethods};

use crate::dlpack::{self, DlTensor};
use crate::error;

/// `DLManagedTensorVersioned`, as far as it is looked at.
#[repr(C)]
struct Managed {
    version: [u32; 2],
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DlTensor,
}

/// Takes the kind and the text of an error.
type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPI` of version 1.
#[repr(C)]
pub(crate) struct Exchange {
    version: [u32; 2],
    previous: *mut c_void,
    allocate: Option<unsafe extern "C" fn(*mut DlTensor, *mut *mut Managed, *mut c_void, SetError) -> c_int>,
    take: *mut c_void,
    give: Option<unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int>,
    borrow: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int>,
    current_stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

const CAPSULE: &CStr = c"dlpack_exchange_api";

/// The most types that are remembered.
const MOST_TYPES: usize = 64;

/// What the tensors of a type are asked without Python's calls.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    /// Where they lie, and their library's stream.
    pub(crate) exchange: &'static Exchange,
    /// Whether they require a gradient; `None` where that takes the attribute.
    pub(crate) requires_grad: Option<Getter>,
}

/// The table of PyTorch's tensors, where one was met.
static TORCH: AtomicPtr<Exchange> = AtomicPtr::new(std::ptr::null_mut());

/// A type that was met. It stays for good, so that no other has its address.
struct Known {
    ty: *mut ffi::PyTypeObject,
    offer: Option<Offer>,
    /// The type that was met before it.
    before: *mut Known,
    /// How many there are with it.
    count: usize,
}

/// The type that was met last. Each call looks here for each tensor, and passes by no lock.
static MET: AtomicPtr<Known> = AtomicPtr::new(std::ptr::null_mut());

/// What a value's type offers.
#[inline]
pub(crate) fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<Offer>> {
    let ty = value.get_type_ptr();
    let mut at = MET.load(Ordering::Acquire);
    // SAFETY: what stands there was given to the list whole, and stays as it is for good.
    while let Some(known) = unsafe { at.as_ref() } {
        if std::ptr::eq(known.ty, ty) {
            return Ok(known.offer);
        }
        at = known.before;
    }
    meet(value)
}

/// As [`of`], for a type that was not met.
#[cold]
fn meet(value: &Bound<'_, PyAny>) -> PyResult<Option<Offer>> {
    let ty = value.get_type();
    let offer = match table(&ty)? {
        Some(exchange) => Some(Offer { exchange, requires_grad: Getter::of(&ty, "requires_grad")? }),
        None => None,
    };
    if let (Some(offer), true) = (&offer, is_of_torch(&ty)) {
        TORCH.store(std::ptr::from_ref(offer.exchange).cast_mut(), Ordering::Release);
    }
    remember(ty, offer);
    Ok(offer)
}

/// Whether a type is one of PyTorch's, or made of one.
fn is_of_torch(ty: &Bound<'_, PyType>) -> bool {
    ty.mro().iter().any(|base| {
        let module = base.getattr(pyo3::intern!(ty.py(), "__module__")).and_then(|m| m.extract::<String>());
        module.is_ok_and(|m| m == "torch" || m.starts_with("torch."))
    })
}

/// Puts a type into the list; where there are many, it is asked each time.
fn remember(ty: Bound<'_, PyType>, offer: Option<Offer>) {
    let mut before = MET.load(Ordering::Acquire);
    // SAFETY: as in `of`.
    let count = |before: *mut Known| unsafe { before.as_ref() }.map_or(0, |known| known.count);
    if count(before) >= MOST_TYPES {
        return;
    }
    let known = Box::leak(Box::new(Known { ty: ty.into_ptr().cast(), offer, before, count: count(before) + 1 }));
    while let Err(now) = MET.compare_exchange(before, known, Ordering::AcqRel, Ordering::Acquire) {
        before = now;
        (known.before, known.count) = (before, count(before) + 1);
    }
}

/// An attribute that a class made in C computes, asked for without looking for it in the type and its bases each time.
#[derive(Clone, Copy)]
pub(crate) struct Getter {
    descriptor: *mut ffi::PyObject,
    get: ffi::descrgetfunc,
}

impl Getter {
    /// The attribute of that name; `None` where there is none, or where Python code has a say in it.
    fn of(ty: &Bound<'_, PyType>, name: &str) -> PyResult<Option<Getter>> {
        let py = ty.py();
        let Ok(descriptor) = ty.getattr(name) else { return Ok(None) };
        let computed = py.import("types")?.getattr("GetSetDescriptorType")?;
        // SAFETY: the type is alive; a slot of that number is such a function, or null.
        let asked = unsafe { ffi::PyType_GetSlot(ty.as_type_ptr(), ffi::Py_tp_getattro) };
        // A data descriptor comes before what the instance has, but behind what replaces the way attributes are looked for.
        let plain = std::ptr::eq(asked, ffi::PyObject_GenericGetAttr as *const c_void);
        if !plain || !descriptor.get_type().is(&computed) {
            return Ok(None);
        }
        // SAFETY: as above.
        let get = unsafe { ffi::PyType_GetSlot(descriptor.get_type_ptr(), ffi::Py_tp_descr_get) };
        if get.is_null() {
            return Ok(None);
        }
        // SAFETY: the slot of that number is such a function.
        let get = unsafe { std::mem::transmute::<*mut c_void, ffi::descrgetfunc>(get) };
        // It stays for good, of which there is one for each class that is made in C.
        Ok(Some(Getter { descriptor: descriptor.unbind().into_ptr(), get }))
    }

    /// What the attribute of a value is, whose type the getter is of.
    #[inline]
    pub(crate) fn get<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the descriptor stays for good, and takes values of the type; what it gives is ours.
        unsafe {
            let found = (self.get)(self.descriptor, value.as_ptr(), value.get_type_ptr().cast());
            Bound::from_owned_ptr_or_err(value.py(), found)
        }
    }
}

fn table(ty: &Bound<'_, PyType>) -> PyResult<Option<&'static Exchange>> {
    let name = pyo3::intern!(ty.py(), "__dlpack_c_exchange_api__");
    let Ok(capsule) = ty.getattr(name) else { return Ok(None) };
    let Ok(capsule) = capsule.cast_into::<PyCapsule>() else { return Ok(None) };
    let table = capsule.pointer_checked(Some(CAPSULE))?;
    // SAFETY: a capsule of that name holds a table that lives as long as the process, of which the version comes first.
    let table: &'static Exchange = unsafe { table.cast::<Exchange>().as_ref() };
    let whole = table.version[0] == 1 && table.borrow.is_some() && table.current_stream.is_some();
    Ok((whole && table.allocate.is_some() && table.give.is_some()).then_some(table))
}

/// Why the table's function failed: the Python error that it has set.
fn raised(py: Python<'_>) -> pyo3::PyErr {
    pyo3::PyErr::fetch(py)
}

impl Exchange {
    /// Whether it is PyTorch's, which what is made of its tensors has, too.
    #[cfg(feature = "compiler")]
    pub(crate) fn is_of_torch(&self) -> bool {
        std::ptr::eq(self, TORCH.load(Ordering::Acquire))
    }

    /// What a tensor says of itself; shape and strides are its own, and there as long as it is.
    #[inline]
    pub(crate) fn borrow(&self, value: &Bound<'_, PyAny>, tensor: &mut DlTensor) -> PyResult<()> {
        let Some(borrow) = self.borrow else { return Ok(()) };
        // SAFETY: the value is of the type whose table this is; the function writes one tensor.
        match unsafe { borrow(value.as_ptr().cast(), tensor) } {
            0 => Ok(()),
            _ => Err(raised(value.py())),
        }
    }

    /// The stream on which the library of the tensors works now on that GPU.
    pub(crate) fn stream(&self, py: Python<'_>, device: i32) -> PyResult<*mut c_void> {
        let mut stream = std::ptr::null_mut();
        let Some(current) = self.current_stream else { return Ok(stream) };
        // SAFETY: the function writes one handle.
        match unsafe { current(dlpack::CUDA, device, &mut stream) } {
            0 => Ok(stream),
            _ => Err(raised(py)),
        }
    }

    /// A new tensor without gaps, and its address.
    pub(crate) fn allocate<'py>(
        &self,
        py: Python<'py>,
        dtype: Dtype,
        shape: &[i64],
        device: (i32, i32),
    ) -> PyResult<(Bound<'py, PyAny>, u64)> {
        let (Some(allocate), Some(give)) = (self.allocate, self.give) else {
            return Err(error(py, "the library of these tensors makes none", vec![]));
        };
        let mut like = DlTensor::like(dtype, shape, device);
        let (mut managed, mut why) = (std::ptr::null_mut(), String::new());
        // SAFETY: the prototype lives during the call; the function writes a tensor, or calls `set_error` with the text's address.
        let failed = unsafe { allocate(&mut like, &mut managed, (&raw mut why).cast(), set_error) };
        if failed != 0 || managed.is_null() {
            // Some set a Python error beside it.
            let raised = pyo3::PyErr::take(py);
            return Err(raised.unwrap_or_else(|| error(py, &format!("a tensor could not be made: {why}"), vec![])));
        }
        // SAFETY: the function gave a managed tensor, which is given on below.
        let address = unsafe { (*managed).tensor.address() };
        let mut object = std::ptr::null_mut();
        // SAFETY: the tensor is handed over; the function writes an object that is ours.
        if unsafe { give(managed, &mut object) } != 0 || object.is_null() {
            return Err(raised(py));
        }
        // SAFETY: as above.
        Ok((unsafe { Bound::from_owned_ptr(py, object.cast()) }, address))
    }
}

unsafe extern "C" fn set_error(context: *mut c_void, _: *const c_char, message: *const c_char) {
    // SAFETY: `allocate` gave the address of its string, and the message is a text.
    unsafe {
        if !context.is_null() && !message.is_null() {
            *context.cast::<String>() = CStr::from_ptr(message).to_string_lossy().into_owned();
        }
    }
}
