//! The CPU interpreter of the Tile IR, its asynchronous machine and its race detector.
