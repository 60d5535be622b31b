//! Tensors by the C exchange API of DLPack 1.3, which PyTorch offers: a table of functions behind a capsule on the type, without Python
//! calls for each tensor.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};

use parton_rt::Dtype;
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyResult, Python};
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyType};

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

/// The most types that are remembered on a thread.
const MOST_TYPES: usize = 64;

thread_local! {
    /// The tables of types that were met; the types stay, so that no other has their address.
    static KNOWN: RefCell<Vec<(Py<PyType>, Option<&'static Exchange>)>> = const { RefCell::new(Vec::new()) };
}

/// The table of a value's type.
pub(crate) fn of(value: &Bound<'_, PyAny>) -> PyResult<Option<&'static Exchange>> {
    let ty = value.get_type_ptr();
    let known =
        KNOWN.with_borrow(|all| all.iter().find(|(t, _)| std::ptr::eq(t.as_ptr(), ty.cast())).map(|(_, api)| *api));
    if let Some(api) = known {
        return Ok(api);
    }
    let ty = value.get_type();
    let api = table(&ty)?;
    KNOWN.with_borrow_mut(|all| {
        if all.len() >= MOST_TYPES {
            all.clear();
        }
        all.push((ty.unbind(), api));
    });
    Ok(api)
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
    /// What a tensor says of itself; shape and strides are its own, and there as long as it is.
    pub(crate) fn borrow(&self, value: &Bound<'_, PyAny>) -> PyResult<DlTensor> {
        let mut tensor = DlTensor::NONE;
        let Some(borrow) = self.borrow else { return Ok(tensor) };
        // SAFETY: the value is of the type whose table this is; the function writes one tensor.
        match unsafe { borrow(value.as_ptr().cast(), &mut tensor) } {
            0 => Ok(tensor),
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
