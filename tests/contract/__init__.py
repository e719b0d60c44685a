"""What every algorithm must keep, with every loss; the twins it is held against are elsewhere."""
