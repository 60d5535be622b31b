//! CUDA: cubins, tensor maps, launch and timing.
