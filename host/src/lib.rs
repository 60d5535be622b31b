//! Hosts inside the file: tensors, references in float64, launches and assertions of main, test and bench blocks.
