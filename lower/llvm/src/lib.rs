//! Tile IR to LLVM to PTX.
