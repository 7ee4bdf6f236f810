"""Settings of all tests. Hypothesis has no time limit, prints how to repeat a failure, and tests the same examples in each CI run.

Ctrl-C also ends the processes that tests have started.
"""

import gc
import os
import signal

from hypothesis import settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    max_examples=60,
    print_blob=True,
)
settings.load_profile("default")

# If a shell starts tests in the background, they and their child processes ignore SIGINT, so Ctrl-C would not end them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A process that has run thousands of tests has millions of objects.
# With Python's default thresholds, garbage collection would take a tenth of the time of the tests.
gc.set_threshold(50_000, 20, 50)
