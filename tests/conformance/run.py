"""One scenario through `simulate`, in this process: the object that it prints as a line of JSON."""

import json
from typing import Any

from runrig.domain.kueue import Settings
from runrig.service.simulate.simulate import Options
from runrig.wire.simulate import as_line
from tests.conformance import manifests, systems
from tests.conformance.cases import Case
from tests.service.simulate.simulations import outcome

Answer = dict[str, Any]


def answer(case: Case) -> Answer:
    return simulated(manifests.text(case), systems.settings(case), case.get("cycles", 1))


def simulated(text: str, settings: Settings, cycles: int = 1) -> Answer:
    made: Answer = json.loads(as_line(outcome(text, "case.yaml", Options(cycles, settings))))
    return made
