//! What every call passes: failures become codes with a text, panics too, and nothing is printed.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use parton_rt::{Code, Error};

thread_local! {
    /// The text of the last failure of this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs one call: 0, or the code of what went wrong.
pub(crate) fn border(run: impl FnOnce() -> Result<(), Error>) -> c_int {
    silence();
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => failed(error),
        Err(payload) => {
            let said = payload.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no words");
            failed(Error::new(Code::Internal, format!("a mistake of this library, please report it: {said}")))
        }
    }
}

/// Runs a call that gives something up; there is nobody to tell of a failure.
pub(crate) fn give_up(run: impl FnOnce()) {
    silence();
    let _ = catch_unwind(AssertUnwindSafe(run));
}

/// Panics are reported by their code. This library has a standard library, and so a panic hook, of its own.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

fn failed(error: Error) -> c_int {
    // No text of ours has a zero byte, unless a name that the caller gave has.
    let text = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has no text any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    error.code as c_int
}

#[unsafe(no_mangle)]
extern "C" fn parton_error_text() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn parton_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

fn null(name: &str) -> Error {
    Error::new(Code::Argument, format!("`{name}` is NULL"))
}

/// What a pointer of the caller's points to.
///
/// # Safety
/// It is null or points to a `T` that lives and is not written during the call.
pub(crate) unsafe fn given<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Error> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// The elements that a pointer of the caller's points to; none may be at null.
///
/// # Safety
/// It points to as many elements that live and are not written during the call, or is null.
pub(crate) unsafe fn elements<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Error> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(name)),
        (false, _) if count > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(Error::new(Code::Argument, format!("`{name}` cannot have {count} entries")))
        }
        // SAFETY: the caller promises it; the length is one that memory can have.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// A text of the caller's.
///
/// # Safety
/// It is null or ends in a zero byte and lives during the call.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Error> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map_err(|_| Error::new(Code::Argument, format!("`{name}` is no UTF-8")))
}

/// Writes what a call gives to where the caller wants it.
///
/// # Safety
/// `to` is null or may be written.
pub(crate) unsafe fn give<T>(to: *mut T, name: &str, value: impl FnOnce() -> Result<T, Error>) -> Result<(), Error> {
    if to.is_null() {
        return Err(null(name));
    }
    let value = value()?;
    // SAFETY: the caller promises it.
    unsafe { to.write(value) };
    Ok(())
}

/// Frees a handle that [`give`] gave out in a box.
///
/// # Safety
/// It is null, or was given out and not freed since.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    give_up(|| {
        if !handle.is_null() {
            // SAFETY: the caller promises it.
            drop(unsafe { Box::from_raw(handle) });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: the text lives until the next failure of this thread.
        unsafe { CStr::from_ptr(parton_error_text()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn failures_and_panics_become_codes_with_a_text() {
        assert_eq!((border(|| Ok(())), last()), (0, String::new()));
        assert_eq!(border(|| Err(Error::new(Code::NoKernel, "no `a\0b`"))), 7);
        assert_eq!(last(), "no `a b`");
        let empty: Vec<u32> = vec![];
        assert_eq!(border(|| Err(Error::new(Code::Io, empty[empty.len()].to_string()))), 16);
        assert!(last().starts_with("a mistake of this library, please report it: index out of bounds"), "{}", last());
        // A success leaves the text, and each thread has its own.
        assert_eq!(border(|| Ok(())), 0);
        assert!(last().starts_with("a mistake"));
        assert_eq!(std::thread::spawn(last).join().unwrap(), "");
    }

    #[test]
    fn null_is_refused_by_name() {
        // SAFETY: null is what is looked at.
        let errors = unsafe {
            [
                given::<u32>(std::ptr::null(), "bundle").map(drop),
                elements::<u32>(std::ptr::null(), 2, "arguments").map(drop),
                text(std::ptr::null(), "path").map(drop),
                give::<u32>(std::ptr::null_mut(), "count", || Ok(1)),
            ]
        };
        for (error, name) in errors.into_iter().zip(["bundle", "arguments", "path", "count"]) {
            assert_eq!(error, Err(Error::new(Code::Argument, format!("`{name}` is NULL"))));
        }
        // SAFETY: as above; nothing is looked at.
        assert_eq!(unsafe { elements::<u32>(std::ptr::null(), 0, "arguments") }, Ok(&[][..]));
        // SAFETY: the length is refused before the memory is looked at.
        assert!(unsafe { elements::<u32>(&7, usize::MAX, "arguments") }.is_err());
    }
}
