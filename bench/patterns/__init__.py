"""Check of Weir's promises on scenarios that a generator draws by number. `python -m bench.patterns` runs it in virtual time."""
