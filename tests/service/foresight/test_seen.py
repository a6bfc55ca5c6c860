"""A user who does not see a pool learns amounts of a plan, and no name."""

from pathlib import Path

from runrig.domain.access import Grant, Identity, RoleKind
from runrig.domain.gangs import Priority
from runrig.domain.shown.plans import PlanUnseen
from runrig.service.commands.edits import PoolEdit
from runrig.service.commands.submission import Submission, read
from runrig.service.foresight.questions import OfEdit, OfSubmission
from runrig.service.foresight.seen import seen
from runrig.service.mirror.leaving import Leaving
from runrig.service.queries.redaction import ANOTHER
from runrig.service.queries.visibility import ALL, Visibility
from tests.worlds.edits import amounts
from tests.worlds.service import desk, one_task

TOM = Visibility(Identity("tom", (Grant(RoleKind.POOL_USER, "pool2"),)))


def test_preview_of_a_preempting_submission_has_the_number_and_not_the_names(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        for at in range(4):
            it.submit(f"secret{at}", "pool1", Priority.LOW)
        it.service.settle()
        question = OfSubmission(read(Submission(one_task("mine", gpus=2), "pool2", "tom")))
        whole = it.service.plans.plan(question, user="tom", visibility=ALL, leaving=Leaving())
        assert len(whole.preempted) == 2
        found = it.service.plans.plan(question, user="tom", visibility=TOM, leaving=Leaving())
        assert "secret" in repr(whole)
        assert "secret" not in repr(found)
        assert found.others == {"preempted": PlanUnseen(2, 2)}
        assert [each.gang for each in found.starts] == ["mine-?"]
        assert [each.pool for each in found.pools] == ["pool2"]


def test_owner_does_not_learn_which_hidden_work_preempted_theirs(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("mine", "pool2", Priority.LOW, gpus=4)
        it.service.settle()
        it.submit("secret", "pool1", gpus=2)
        quota = OfEdit("pool1", PoolEdit(amounts(quota=1)))
        found = it.service.plans.plan(quota, user="ada", visibility=ALL, leaving=Leaving())
        (spared,) = seen(found, TOM).spared
        assert (spared.gang, spared.by) == ("mine-1", ANOTHER)
