"""Whatever roles somebody has and whatever has happened: no answer about what waits, and what would be if, names what they do not see.

Over HTTP, with the real application.  Every name that somebody gave is drawn so that it occurs in no other word.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from runrig.domain.access import Identity, Permission, allows, role_named
from tests.api.client import Api, api
from tests.exploring import tries
from tests.worlds.crowded import NODES, Names, use
from tests.worlds.told import Asked, answered, questions

pytestmark = pytest.mark.explored

NAMES = Names(
    cohorts=("zq-cohort-1", "zq-cohort-2"),
    pools=("zq-pool-1", "zq-pool-2", "zq-pool-3", "zq-pool-4"),
    people=("zq-user-1", "zq-user-2", "zq-user-3", "zq-user-4"),
    work="zq-work-",
)
OWNERS = dict(zip(NAMES.pools, NAMES.people, strict=True))
"""Each pool has one who works in it, and who may have roles on others."""


def hire(it: Api, chance: random.Random) -> Iterator[tuple[Identity, dict[str, str]]]:
    """Everybody with their headers, after each has got one or two roles on pools at random."""
    access = it.desk.service.access
    for user in NAMES.people:
        pools = chance.sample(NAMES.pools, chance.choice([1, 1, 2]))
        roles = [role_named(f"{pool}-{chance.choice(['user', 'user', 'viewer', 'admin'])}") for pool in pools]
        access.users.create(user, roles, actor="ann")
        token = access.tokens.create(user, "laptop", actor=user).text
        yield Identity(user, tuple(roles)), {"Authorization": f"Bearer {token}"}


def foreign(it: Api, identity: Identity) -> Iterator[str]:
    """Names that they must not read: of pools that they do not see, of their cohorts unless one of their own is in it, and of
    the work and the people in them."""
    loaded = it.desk.store.load()
    seen = {pool.name for pool in loaded.pools if allows(identity, Permission.READ_POOL, pool=pool.name)}
    tops = {name.partition("--")[0] for name in seen}
    yield from (pool for pool in NAMES.pools if pool not in tops)
    above = {pool.cohort for pool in loaded.pools if pool.name in tops}
    yield from (cohort for cohort in NAMES.cohorts if cohort not in above)
    yield from (owner for pool, owner in OWNERS.items() if pool not in tops and owner != identity.user)
    yield from (each.id for each in loaded.workflows if each.pool not in seen)


@pytest.mark.parametrize("seed", range(tries(12)))
def test_no_response_names_hidden_objects(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with api(tmp_path, nodes=NODES, cluster=None) as it:
        use(it.desk, chance, NAMES, owners=OWNERS)
        if chance.random() < 0.5:
            it.desk.submit("zq-work-late", chance.choice(NAMES.pools))  # so that the next cycle makes a decision
        asked = list(questions(it))
        for identity, headers in hire(it, chance):
            hidden = sorted(set(foreign(it, identity)))
            statuses = Counter[str]()
            for each in asked:
                told = answered(it, each, headers)
                statuses[told[:3]] += 1
                leaks = [name for name in hidden if name in told and name not in spoken(each)]
                assert leaks == [], (identity, each, told)
            assert statuses["200"]
            assert statuses["404"]


def spoken(asked: Asked) -> str:
    """What the one who asks has said: an answer may repeat it."""
    return f"{asked.path} {asked.body}"


def test_user_who_sees_everything_gets_everything(tmp_path: Path) -> None:
    """So the questions of the other test have answers with names in them."""
    with api(tmp_path, nodes=NODES, cluster=None) as it:
        use(it.desk, random.Random(1), NAMES, owners=OWNERS)
        foreign_to_others = [*NAMES.pools, *NAMES.cohorts]
        told = [(spoken(each), answered(it, each)) for each in questions(it)]
        assert {name for name in foreign_to_others for said, text in told if name in text and name not in said} == {
            *foreign_to_others
        }
