"""What tests/bench/programs measures: each module has the rows of one kind of work."""
