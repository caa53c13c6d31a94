"""Train and test networks one after another: resumable, shared among processes, each once."""
