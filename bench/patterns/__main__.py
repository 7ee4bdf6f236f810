"""`python -m bench.patterns`: check the promises on scenarios that were drawn by number."""

from bench.patterns.command import app
from services.cli.main import main

if __name__ == "__main__":
    main(app, "python -m bench.patterns")
