"""How Hypothesis runs here: no deadlines, a blob to replay a failure, the same examples every time under CI."""

import os

from hypothesis import settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    max_examples=60,
    print_blob=True,
)
settings.load_profile("default")
