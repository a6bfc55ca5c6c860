"""The mirror plans what the server would, byte for byte, in a process with another seed of hashes."""

from pathlib import Path

import pytest

from runrig.domain.gangs import Priority
from runrig.service.commands.edits import PoolEdit
from runrig.service.commands.submission import Submission, read
from runrig.service.foresight.questions import OfDrain, OfEdit, OfFile, OfSubmission, Question
from runrig.service.mirror.answering import Question as Asking
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp
from runrig.service.queries.visibility import ALL
from tests.service.mirror.questions import revision
from tests.service.mirror.test_mirror import mirrored, told
from tests.worlds.edits import amounts
from tests.worlds.service import Desk, one_task


def _plans(it: Desk) -> list[str]:
    asked: tuple[Question, ...] = (
        OfEdit("pool1", PoolEdit(amounts(quota=1))),
        OfFile("pools: [{name: pool2, quota: 3}]"),
        OfDrain(("n0",), force=True, user="ann"),
        OfSubmission(read(Submission(one_task("mine", gpus=2), "pool2", "tom"))),
    )
    return [repr(it.service.plans.plan(each, user="u", visibility=ALL, leaving=Leaving())) for each in asked]


def test_mirror_gives_the_same_plans_as_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mirrored(tmp_path) as (it, mirror):
        for at in range(4):
            it.submit(f"low{at}", "pool1", Priority.LOW)
        it.service.settle()
        by_server = _plans(it)
        told(mirror, Asking(revision, ()))
        monkeypatch.setattr(it.service.asker, "_mirror", mirror)
        monkeypatch.setattr(it.service._transactor, "copies", None)  # the server is not to answer
        assert _plans(it) == by_server
        gone = Leaving()
        gone.leave()
        with pytest.raises(GivenUp):
            it.service.plans.plan(OfEdit("pool1", PoolEdit(amounts(quota=1))), user="u", visibility=ALL, leaving=gone)
