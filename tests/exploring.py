"""How much Hypothesis tries: the same little in each `make test`, much more, by chance, in `make soak`.

pytestmark = pytest.mark.explored       # `make soak` runs this module too
@settings(max_examples=tries(60))
"""

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
EXPLORING = PROFILE == "explore"
_MORE = 25


def tries(usual: int) -> int:
    return usual * _MORE if EXPLORING else usual
