"""What the documents say, run."""
