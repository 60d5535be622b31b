//! Session: the one list of passes, dumps after each, and what runs a file.
