"""Tokens: forms for one's own, and for administrators those of others. The text of a token is shown once."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from runrig.domain.access import Permission, role_named
from runrig.domain.errors import InvalidInput
from runrig.domain.instants import UNITS_S
from runrig.domain.keep import KEEP
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Route, Serving
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.web.asking import answered, form, form_shown, in_thread, once_shown, shown_once
from runrig.web.forms import key_of, sent
from runrig.web.pages.parts import Asked

router = APIRouter(route_class=Route, include_in_schema=False)

LIFETIMES = ("7d", "30d", "90d", "365d", "never")
_OWN = [needs(Permission.OWN_TOKENS)]
_ACCESS = [needs(Permission.ACCESS)]
_ALL = "all"


def page_of(user: str) -> str:
    return f"/access/user/{quote(user, safe='')}"


@form(router, "/me/token", dependencies=_OWN)
async def token(request: Asked, service: Serving, asker: Asking) -> Response:
    return await _Forms(request, service, asker).create()


@form(router, "/me/change/{name}", dependencies=_OWN)
async def change(request: Asked, service: Serving, asker: Asking, name: str) -> Response:
    return await _Forms(request, service, asker).change(name)


@form(router, "/me/revoke/{name}", dependencies=_OWN)
async def revoke(request: Asked, service: Serving, asker: Asking, name: str) -> Response:
    return await _Forms(request, service, asker).revoke(name)


@form(router, "/access/user/{user}/token", dependencies=_ACCESS)
async def token_of(request: Asked, service: Serving, asker: Asking, user: str) -> Response:
    return await _Forms(request, service, asker, service.access.users.get(user).name).create()


@form(router, "/access/user/{user}/change/{name}", dependencies=_ACCESS)
async def change_of(request: Asked, service: Serving, asker: Asking, user: str, name: str) -> Response:
    return await _Forms(request, service, asker, service.access.users.get(user).name).change(name)


@form(router, "/access/user/{user}/revoke/{name}", dependencies=_ACCESS)
async def revoke_of(request: Asked, service: Serving, asker: Asking, user: str, name: str) -> Response:
    return await _Forms(request, service, asker, service.access.users.get(user).name).revoke(name)


@dataclass(frozen=True, slots=True)
class _Forms:
    """*user*: whose tokens; "": one's own."""

    request: Request
    service: Service
    asker: Asker
    user: str = ""

    @property
    def _owner(self) -> str:
        return self.user or self.asker.identity.user

    @property
    def _back(self) -> str:
        return page_of(self.user) if self.user else "/me"

    def _shown(self, template: str, fields: tuple[str, ...] = (), **more: Any) -> Response:
        return form_shown(self.request, self.service, template, fields, whose=self.user, back=self._back, **more)

    async def create(self) -> Response:
        fields, who = await sent(self.request), self.asker.identity

        def draw(**more: Any) -> Response:
            typed = {"name": "", "description": "", "expires": "90d", "roles": ""} | dict(fields)
            return self._shown("me_token.html", tuple(typed), typed=typed, lifetimes=LIFETIMES, **more)

        def do() -> Response:
            lifetime, roles = fields.get("expires", ""), fields.get("roles", "").replace(",", " ").split()
            if lifetime not in LIFETIMES:
                raise InvalidInput.one("choose a lifetime from the list", "expires")
            made = self.service.access.tokens.create(
                self._owner,
                fields.get("name", "").strip(),
                None if lifetime == "never" else float(int(lifetime[:-1]) * UNITS_S["d"]),
                actor=who.user,
                text=self.service.access.authentication.derived(who.user, key_of(fields)),
                description=fields.get("description", "").strip(),
                roles=[role_named(each) for each in roles] if roles else None,
                by=who.token,
            )
            says = ["Copy it now: it is not shown again."]
            return once_shown(
                self.request, self.service, f"Created token {made.row.name}", says, made.text, back=self._back
            )

        return await shown_once(fields, draw, do)

    async def change(self, name: str) -> Response:
        """Changes the roles and the description of a token."""
        fields, who, tokens = await sent(self.request), self.asker.identity, self.service.access.tokens

        def draw(**more: Any) -> Response:
            row = tokens.named(self._owner, name)
            typed = {"roles": _in_words(row.roles), "description": row.description} | dict(fields)
            return self._shown("me_change.html", tuple(typed), row=row, typed=typed, **more)

        def do() -> None:
            roles = fields.get("roles", "").replace(",", " ").split()
            same = roles == _in_words(tokens.named(self._owner, name).roles).split()
            if not roles and not same:
                raise InvalidInput.one("name roles, or all", "roles")
            tokens.change(
                self._owner,
                name,
                actor=who.user,
                by=who.token,
                description=fields.get("description", "").strip(),
                roles=KEEP if same else None if roles == [_ALL] else [role_named(each) for each in roles],
            )

        return await answered(self.request, self.asker, fields, draw=draw, do=in_thread(do, self._back))

    async def revoke(self, name: str) -> Response:
        who, tokens = self.asker.identity, self.service.access.tokens

        def draw(**more: Any) -> Response:
            row = tokens.named(self._owner, name)
            says = "Programs that use it lose access, and every browser that signed in with it is signed out."
            act = f"revoke/{quote(row.name, safe='')}"
            does = f"Revoke token {row.name}{f' of {self.user}' if self.user else ''}"
            return self._shown("sure.html", does=does, says=says, address=self._back, act=act, **more)

        do = in_thread(lambda: tokens.revoke(self._owner, name, actor=who.user, by=who.token), self._back)
        return await answered(self.request, self.asker, await sent(self.request), draw=draw, do=do)


def _in_words(roles: tuple[str, ...] | None) -> str:
    return _ALL if roles is None else " ".join(roles)
