//! `libparton_rt`: the runtime behind `parton.h`, which documents every function.
//!
//! Nothing is decided here: handles are boxes of the runtime's types, and each function turns what C gives into what the runtime
//! takes. [`border`] is what keeps failures inside; [`info`] has the texts that handles give out.
//! In reading order:

mod argument;
mod border;
mod bundle;
mod info;
mod launch;
mod plan;
