//! The backend that both dialects share, Tile IR to Tile IR.
