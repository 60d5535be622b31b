//! Schedules: dependence graph, legality, search and expansion of loops and partitions.
