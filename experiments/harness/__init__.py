"""Networks trained and tested one after another: runs that go on where they were stopped, shared among processes, done once."""
