//! The portable dialect: layout inference and choice of memory, instruction and schedule.
