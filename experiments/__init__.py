"""What is tried and trained with this package, and is not part of it."""
