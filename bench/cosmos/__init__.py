"""The reference workload: a text-to-video transformer of two towers, with random weights."""
