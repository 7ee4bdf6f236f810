"""How Hypothesis runs here: no deadlines, a blob to replay a failure, the same examples every time under CI. And what Ctrl-C means to
processes that tests start."""

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

# Whoever starts tests in the background may have it ignored, and so would all that they start: what is to end by Ctrl-C would not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A worker that has run thousands of tests holds millions of objects: to look through all of them as often as Python does by itself takes
# a tenth of the time.
gc.set_threshold(50_000, 20, 50)
