"""The osmo client's `config update POOL NAME`: the changed settings, under their osmo names.

Maps are merged; a list replaces the old one. The result is read as a pool of a cluster file, with the same rules.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from runrig.api.osmo import models
from runrig.api.osmo.shaped import settings
from runrig.domain.errors import Changed, InvalidInput, Problem
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import Said
from runrig.domain.settings import SETTINGS
from runrig.domain.tags import Expected, tag_of
from runrig.osmo.pools import NO_LIMIT
from runrig.service.queries.resource_queries import PoolView
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.spec.export import amount_text, pool_settings
from runrig.spec.labels import read_tags
from runrig.spec.pools import pool_from_json

LONGEST_DESCRIPTION = 1000
PATH = "configs_dict"
_RENAMED = (
    "pools cannot be renamed, because workflows, roles and the audit trail refer to the name. Create another pool"
)
_OF_COMMANDS = {
    "closed_by": "use `runrig pool close` and `runrig pool open`",
    "closed_reason": "`runrig pool close` shows it",
    "paused_by": "use `runrig pool pause` and `runrig pool resume`",
    "paused_reason": "`runrig pool pause` sets it",
    "paused_until": "`runrig pool pause --until` sets it",
}
_FIXED = {
    "name": _RENAMED,
    "subpool_name": _RENAMED,
    "enable_maintenance": "maintenance mode is not supported. `runrig pool delete` lets running workflows finish and accepts no new ones",
    "platforms": "platforms are the flavors of the cluster file. Change them with `runrig apply`",
    "backend": "the backend of a server cannot change",
    **_OF_COMMANDS,
    **{each.name: f"use {each.reference} instead" for each in SETTINGS if each.reference},
}
_NOT_KEPT = "runrig has no such setting"
_AS_ASKED = {each.reference or each.name: each.asked for each in SETTINGS if each.name != "default_exit_actions"}
"""Osmo fields → fields of a cluster file. Maps are merged field by field."""
_SETTABLE = {*_AS_ASKED, "default_exit_actions", "resources", "quotas"}
_OUTCOMES = {"status", "state", "subpool_state", *_OF_COMMANDS}
MOST_TRIES = 20
"""Maximum times an edit is merged again after concurrent changes."""


def said_with(body: models.SaidRequest | None) -> Said:
    """Returns description and tags of a change. Raises InvalidInput."""
    text = ("" if body is None else body.description or "").strip()
    if len(text) > LONGEST_DESCRIPTION or not text.replace("\n", "").isprintable():
        raise InvalidInput.one(f"use at most {LONGEST_DESCRIPTION} printable characters", "description")
    return Said(text, read_tags(body.tags or () if body is not None else ()))


def patched(service: Service, user: str, asker: Asker, name: str, body: models.PoolPatchRequest) -> PoolView:
    """Returns the pool after the edit. Raises NotFound, NotAllowed, InvalidInput with all problems, and Changed after
    too many concurrent changes.
    """
    said = said_with(body)
    tries_left = MOST_TRIES
    while True:
        after, expected = _changed(service, asker, name, body.configs_dict, whole=False)
        tries_left -= 1
        try:
            return service.declarations.put_pools([(after, expected)], user=user, said=said)[0]
        except Changed:  # The edit contains only changes, so it is merged with the pool's new state.
            if not tries_left:
                raise


def put(service: Service, user: str, asker: Asker, body: models.PoolsPutRequest) -> None:
    """Changes many pools, or none. Raises as `patched`; the message names the pool.

    The client sends everything it was shown. Inherited settings of subpools, and results of other commands, are
    ignored.
    """
    said = said_with(body)
    edits = []
    for name in sorted(body.configs):
        try:
            edits.append(_changed(service, asker, name, _own(name, body.configs), whole=True))
        except InvalidInput as error:
            problems = (Problem(f"pool {name}: {each.message}", f"configs.{name}") for each in error.problems)
            raise InvalidInput(tuple(problems)) from None
    service.declarations.put_pools(edits, user=user, said=said)


def _own(name: str, configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns which of the settings sent for *name* belong to this pool itself."""
    sent = configs[name]
    parent, delimiter, _ = name.partition(SUBPOOL_DELIMITER)
    above = configs.get(parent, {}) if delimiter else {}

    twice = {each.name for each in SETTINGS if each.reference in sent}
    if delimiter and "resources" in sent:
        twice.add("quotas")
    own = {key: value for key, value in sent.items() if key not in _OUTCOMES | twice}
    inherited = {key for key, value in own.items() if key != "resources" and above.get(key, _NOT_KEPT) == value}
    gpu, usual = (_of_gpus(each) for each in (own, above))
    if gpu and usual and gpu.get("weight") == usual.get("weight"):
        own["resources"] = {GPU: {key: value for key, value in gpu.items() if key != "weight"}}
    return {key: value for key, value in own.items() if key not in inherited}


def _of_gpus(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns ``resources.gpu``; empty if it is missing or not a mapping."""
    resources = settings.get("resources")
    gpu = resources.get(GPU) if isinstance(resources, Mapping) and set(resources) == {GPU} else None
    return gpu if isinstance(gpu, Mapping) else {}


def _changed(
    service: Service, asker: Asker, name: str, config: Mapping[str, Any], *, whole: bool
) -> tuple[Pool, Expected]:
    """Returns (the pool with the changes in *config*, the current pool). *whole*: a map replaces the old one instead of
    being merged.
    """
    before = service.queries.pool(name, asker.visibility)
    shown = settings(before, service.backend_name)
    changes = {key: value for key, value in config.items() if shown.get(key, _NOT_KEPT) != value}
    problems = tuple(_problems(before.pool, changes))
    if problems:
        raise InvalidInput(problems)
    if before.pool.parent is None:
        after = pool_from_json(_merged(before.pool, shown, changes, whole=whole), service.declarations.kinds(), PATH)
    else:
        after = _of_subpool(before.pool, shown, changes)
    changed = {each.asked for each in SETTINGS if getattr(before.pool, each.name) != getattr(after, each.name)}
    changed |= set() if before.pool.quotas == after.quotas else {"quota"}
    asker.check_promise(name, changed)
    return after, frozenset((tag_of(before.pool),))


def _problems(pool: Pool, changes: Mapping[str, Any]) -> Iterator[Problem]:
    for key in changes:
        if key not in _SETTABLE:
            yield Problem(f"{key}: {_FIXED.get(key, _NOT_KEPT)}", f"{PATH}.{key}")
        elif pool.parent is not None and key != "resources":
            text = f"{key}: a subpool can only set resources.gpu.guarantee and inherits the rest from {pool.parent}"
            yield Problem(text, f"{PATH}.{key}")


def _merged(pool: Pool, shown: Mapping[str, Any], changes: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
    """Returns the pool with *changes*, as a cluster file would declare it. *whole*: as in `_changed`."""
    merged = pool_settings(pool, (), ())
    merged |= {_AS_ASKED[key]: None if value == "" else value for key, value in changes.items() if key in _AS_ASKED}
    if "default_exit_actions" in changes:
        codes = _mapping(changes["default_exit_actions"], "default_exit_actions")
        merged["default_exit_actions"] = {**({} if whole else shown["default_exit_actions"]), **codes}
    kept = {} if whole and "quotas" in changes else merged.get("quota", {})
    quota = {flavor: dict(each) for flavor, each in kept.items()}
    if "quotas" in changes:
        for flavor, each in _mapping(changes["quotas"], "quotas").items():
            for resource, limits in _mapping(each, f"quotas.{flavor}").items():
                before = quota.get(flavor, {}).get(resource, {})
                texts = {
                    name: _text(resource, value)
                    for name, value in _mapping(limits, f"quotas.{flavor}.{resource}").items()
                }
                quota.setdefault(flavor, {})[resource] = before | texts
    if "resources" in changes:
        gpu = _countable(shown, changes)
        quota |= _gpu_quota(pool, quota, gpu)
        if gpu["weight"] != shown["resources"]["gpu"]["weight"]:
            merged["weight"] = gpu["weight"]
    return merged | {"quota": quota}


def _text(resource: str, value: Any) -> Any:
    """Formats an amount in the smallest unit, as in a file."""
    return amount_text(resource, value) if isinstance(value, int) and not isinstance(value, bool) else value


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput.one(f"{path}: expected a mapping, got {value!r:.60}", f"{PATH}.{path}")
    return value


def _countable(shown: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, int]:
    """Returns guarantee, maximum and weight of resources.gpu. Raises InvalidInput."""
    resources = _mapping(changes["resources"], "resources")
    for name in resources:
        if name != GPU:
            raise InvalidInput.one(
                f"resources.{name}: only gpu is supported here. Use quotas for other resources",
                f"{PATH}.resources.{name}",
            )
    sent = _mapping(resources.get(GPU, {}), "resources.gpu")
    usual: dict[str, int] = shown["resources"][GPU]
    for name, value in sent.items():
        path = f"resources.gpu.{name}"
        least = NO_LIMIT if name == "maximum" else 0
        if name not in usual:
            raise InvalidInput.one(f"{path}: expected {', '.join(usual)}", f"{PATH}.{path}")
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidInput.one(f"{path}: {value!r:.60} is not a whole number of at least {least}", f"{PATH}.{path}")
    return {**usual, **sent}


def _gpu_quota(pool: Pool, quota: Mapping[str, Any], gpu: Mapping[str, int]) -> dict[str, Any]:
    """Returns the flavor whose GPUs *gpu* counts, with its quota. Raises InvalidInput."""
    flavors = [flavor for flavor, each in quota.items() if GPU in each] or list(pool.flavors) or ["default"]
    if len(flavors) != 1:
        text = f"resources.gpu: {pool.name} has GPUs of {', '.join(flavors)}, so one number is ambiguous. Change quotas instead"
        raise InvalidInput.one(text, f"{PATH}.resources.gpu")
    limit = gpu["maximum"] - gpu["guarantee"]
    if gpu["maximum"] != NO_LIMIT and limit < 0:
        text = f"resources.gpu: the maximum of {gpu['maximum']} is below the guarantee of {gpu['guarantee']}"
        raise InvalidInput.one(f"{text}. Raise it, or set {NO_LIMIT} for no limit", f"{PATH}.resources.gpu.maximum")
    (flavor,) = flavors
    own = dict(quota.get(flavor, {}))
    kept = {name: value for name, value in own.get(GPU, {}).items() if name == "lending_limit"}
    limits = {} if gpu["maximum"] == NO_LIMIT else {"borrowing_limit": limit}
    return {flavor: own | {GPU: {"nominal": gpu["guarantee"], **limits, **kept}}}


def _of_subpool(pool: Pool, shown: Mapping[str, Any], changes: Mapping[str, Any]) -> Pool:
    if "resources" not in changes:
        return pool
    gpu = _countable(shown, changes)
    for name in ("maximum", "weight"):
        if gpu[name] != shown["resources"][GPU][name]:
            text = f"resources.gpu.{name}: a subpool can only set a guarantee and inherits the rest from {pool.parent}"
            raise InvalidInput.one(text, f"{PATH}.resources.gpu.{name}")
    flavors = sorted({key.flavor for key in pool.quotas if key.resource == GPU})
    if len(flavors) != 1:
        text = f"resources.gpu: {pool.name} has GPUs of {', '.join(flavors) or 'no flavor'}, so one number is ambiguous"
        raise InvalidInput.one(
            f"{text}: use `runrig pool subpool update`, which accepts one per flavor", f"{PATH}.resources.gpu"
        )
    return replace(pool, quotas={**pool.quotas, FlavorResource(flavors[0], GPU): Quota(gpu["guarantee"])})
