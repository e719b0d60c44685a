"""Mutated lines, numbers, frames and files, in short; tools/fuzz hunts with the same at length."""
