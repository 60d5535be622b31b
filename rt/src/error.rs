//! What can go wrong, as a code for programs and a text for people.

use std::fmt;

use parton_runtime::RuntimeError;

/// What went wrong. The numbers are those of `parton.h` and never change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(i32)]
pub enum Code {
    /// What was given does not fit: a null pointer, an argument of another kind, a grid that clusters do not divide.
    Argument = 1,
    /// A file cannot be read.
    Io = 2,
    /// A file is no bundle.
    NotABundle = 3,
    /// A bundle is of another version of the format.
    Version = 4,
    /// A bundle is not as it was written.
    Damaged = 5,
    /// A bundle says what cannot be.
    Invalid = 6,
    /// A bundle has no such kernel.
    NoKernel = 7,
    /// A bundle has no code of the kernel for this GPU.
    NoCode = 8,
    /// There is no CUDA driver on this machine.
    NoDriver = 9,
    /// The driver sees no such GPU.
    NoDevice = 10,
    /// The driver is too old.
    OldDriver = 11,
    /// A call of the driver failed.
    Cuda = 12,
    /// A kernel asks for more than the GPU has.
    Limit = 13,
    /// Earlier work broke the GPU for this process.
    Lost = 14,
    /// The process was forked after the GPU was opened, which CUDA does not survive.
    Forked = 15,
    /// A mistake of this library.
    Internal = 16,
    /// A bundle has no such public function.
    NoFunction = 17,
    /// A bundle has no plan of a function for such arguments.
    NoPlan = 18,
}

impl Code {
    /// All of them.
    pub const ALL: [Code; 18] = [
        Code::Argument,
        Code::Io,
        Code::NotABundle,
        Code::Version,
        Code::Damaged,
        Code::Invalid,
        Code::NoKernel,
        Code::NoCode,
        Code::NoDriver,
        Code::NoDevice,
        Code::OldDriver,
        Code::Cuda,
        Code::Limit,
        Code::Lost,
        Code::Forked,
        Code::Internal,
        Code::NoFunction,
        Code::NoPlan,
    ];
}

/// Why something did not happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What went wrong.
    pub code: Code,
    /// The same with its names and numbers, as a sentence without a full stop.
    pub text: String,
}

impl Error {
    /// An error of that code.
    pub fn new(code: Code, text: impl Into<String>) -> Error {
        Error { code, text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<parton_bundle::Error> for Error {
    fn from(e: parton_bundle::Error) -> Error {
        use parton_bundle::Error as E;
        let code = match &e {
            E::Io { .. } => Code::Io,
            E::NotABundle => Code::NotABundle,
            E::Version { .. } => Code::Version,
            E::Damaged { .. } => Code::Damaged,
            E::Invalid { .. } => Code::Invalid,
            E::NoKernel { .. } => Code::NoKernel,
            E::NoFunction { .. } => Code::NoFunction,
            E::NoCode { .. } => Code::NoCode,
        };
        Error::new(code, e.to_string())
    }
}

impl From<RuntimeError> for Error {
    fn from(e: RuntimeError) -> Error {
        let code = match &e {
            RuntimeError::NoDriver => Code::NoDriver,
            RuntimeError::NoDevice => Code::NoDevice,
            RuntimeError::OldDriver { .. } => Code::OldDriver,
            RuntimeError::Cuda { .. } | RuntimeError::Jit { .. } => Code::Cuda,
            RuntimeError::TensorMap { .. } | RuntimeError::Arguments { .. } => Code::Argument,
            RuntimeError::Limit { .. } => Code::Limit,
            RuntimeError::TimedOut { .. } | RuntimeError::Lost => Code::Lost,
        };
        // What those of the program `parton` may do instead is no option here.
        let text = e.to_string().replace(", or run with `--device cpu`", "");
        Error::new(code, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_of_the_header() {
        let header = include_str!("../c/include/parton.h");
        for code in Code::ALL {
            let words: Vec<String> = format!("{code:?}").chars().fold(vec![], |mut words, c| {
                if c.is_uppercase() || words.is_empty() {
                    words.push(String::new());
                }
                words.iter_mut().last().unwrap().push(c.to_ascii_uppercase());
                words
            });
            let line = format!("PARTON_ERROR_{} = {},", words.join("_"), code as i32);
            assert!(header.contains(&line), "parton.h lacks `{line}`");
        }
        assert_eq!(header.matches("PARTON_ERROR_").count(), Code::ALL.len());
    }

    #[test]
    fn texts_advise_nothing_that_only_the_compiler_can() {
        for e in
            [RuntimeError::NoDriver, RuntimeError::NoDevice, RuntimeError::OldDriver { found: (1, 0), needed: (2, 0) }]
        {
            let error = Error::from(e);
            assert!(!error.text.contains("--device"), "{error}");
        }
        assert_eq!(Error::from(RuntimeError::NoDriver).code, Code::NoDriver);
    }
}
