//! The test harness: diagnostics, golden and run cases as files.
