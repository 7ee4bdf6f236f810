"""What README's figures come from: `python -m bench`, or `make bench`."""
