"""Tests are the same in every run: what Hypothesis tries is derived from the test, not from chance (`make soak` explores)."""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
