"""Tokens: forms for one's own, and for administrators those of others. The text of a token is shown once."""

from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Response

from runrig.domain.access import Permission, role_named
from runrig.domain.errors import InvalidInput
from runrig.domain.instants import UNITS_S
from runrig.domain.keep import KEEP
from runrig.http.permissions import needs
from runrig.http.routing import Route
from runrig.web.asking import Filled, Form, form

router = APIRouter(route_class=Route, include_in_schema=False)

LIFETIMES = ("7d", "30d", "90d", "365d", "never")
_OWN = [needs(Permission.OWN_TOKENS)]
_ACCESS = [needs(Permission.ACCESS)]
_ALL = "all"


def page_of(user: str) -> str:
    return f"/access/user/{quote(user, safe='')}"


@form(router, "/me/token", dependencies=_OWN)
async def token(it: Filled) -> Response:
    return await _Forms(it).create()


@form(router, "/me/change/{name}", dependencies=_OWN)
async def change(it: Filled, name: str) -> Response:
    return await _Forms(it).change(name)


@form(router, "/me/revoke/{name}", dependencies=_OWN)
async def revoke(it: Filled, name: str) -> Response:
    return await _Forms(it).revoke(name)


@form(router, "/access/user/{user}/token", dependencies=_ACCESS)
async def token_of(it: Filled, user: str) -> Response:
    return await _Forms(it, it.service.access.users.get(user).name).create()


@form(router, "/access/user/{user}/change/{name}", dependencies=_ACCESS)
async def change_of(it: Filled, user: str, name: str) -> Response:
    return await _Forms(it, it.service.access.users.get(user).name).change(name)


@form(router, "/access/user/{user}/revoke/{name}", dependencies=_ACCESS)
async def revoke_of(it: Filled, user: str, name: str) -> Response:
    return await _Forms(it, it.service.access.users.get(user).name).revoke(name)


@dataclass(frozen=True, slots=True)
class _Forms:
    """*user*: whose tokens; "": one's own."""

    it: Form
    user: str = ""

    @property
    def _owner(self) -> str:
        return self.user or self.it.user

    @property
    def _back(self) -> str:
        return page_of(self.user) if self.user else "/me"

    async def create(self) -> Response:
        it, access = self.it, self.it.service.access

        typed = it.typed(name="", description="", expires="90d", roles="")
        draw = partial(it.shown, "me_token.html", typed, whose=self.user, back=self._back, lifetimes=LIFETIMES)

        def do() -> Response:
            lifetime, roles = it.fields.get("expires", ""), it.words("roles")
            if lifetime not in LIFETIMES:
                raise InvalidInput.one("choose a lifetime from the list", "expires")
            made = access.tokens.create(
                self._owner,
                it.field("name"),
                None if lifetime == "never" else float(int(lifetime[:-1]) * UNITS_S["d"]),
                actor=it.user,
                text=access.authentication.derived(it.user, it.key),
                description=it.field("description"),
                roles=[role_named(each) for each in roles] if roles else None,
                by=it.asker.identity.token,
            )
            says = ["Copy it now: it is not shown again."]
            return it.done(f"Created token {made.row.name}", says, made.text, back=self._back)

        return await it.shown_once(draw, do)

    async def change(self, name: str) -> Response:
        """Changes the roles and the description of a token."""
        it, tokens = self.it, self.it.service.access.tokens

        def draw(**more: Any) -> Response:
            row = tokens.named(self._owner, name)
            typed = it.typed(roles=_in_words(row.roles), description=row.description)
            return it.shown("me_change.html", typed, row=row, back=self._back, **more)

        def do() -> None:
            roles = it.words("roles")
            same = roles == _in_words(tokens.named(self._owner, name).roles).split()
            if not roles and not same:
                raise InvalidInput.one("name roles, or all", "roles")
            tokens.change(
                self._owner,
                name,
                actor=it.user,
                by=it.asker.identity.token,
                description=it.field("description"),
                roles=KEEP if same else None if roles == [_ALL] else [role_named(each) for each in roles],
            )

        return await it.answered(draw, do, self._back)

    async def revoke(self, name: str) -> Response:
        it, tokens = self.it, self.it.service.access.tokens
        does = f"Revoke token {name}{f' of {self.user}' if self.user else ''}"
        says = "Programs that use it lose access, and every browser that signed in with it is signed out."
        do = partial(tokens.revoke, self._owner, name, actor=it.user, by=it.asker.identity.token)
        return await it.sure(does, says, do, self._back, partial(tokens.named, self._owner, name))


def _in_words(roles: tuple[str, ...] | None) -> str:
    return _ALL if roles is None else " ".join(roles)
