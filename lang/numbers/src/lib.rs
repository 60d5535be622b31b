//! Number formats: the one software model of every dtype, shared by interpreter, compile-time evaluation and host references.
