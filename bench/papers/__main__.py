"""`python -m bench.papers`: repeat the experiments of the papers.

The command is in another module, because a spawned worker process does not import a module named `__main__`.
"""

from bench.papers.command import app
from services.cli.main import main

if __name__ == "__main__":
    main(app, "python -m bench.papers")
