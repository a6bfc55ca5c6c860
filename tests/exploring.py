"""How much the random tests try: a quarter in `make test`, all in `make test-slow`, both the same in each run, and in `make soak`
far more, by chance.

    pytestmark = pytest.mark.explored       # `make test-slow` and `make soak` run this module too
    @settings(max_examples=tries(60))
"""

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "few")
EXPLORING = PROFILE == "explore"
_TIMES = {"few": 1 / 4, "same": 1, "explore": 25}


def tries(usual: int) -> int:
    return max(1, round(usual * _TIMES[PROFILE]))
