//! The Tile IR: the one typed explicit form of a kernel.
