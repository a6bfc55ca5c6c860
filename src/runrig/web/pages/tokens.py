"""Tokens: forms for one's own, and for administrators those of others. The text of a token is shown once."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Request, Response

from runrig.domain.access import Permission, role_named
from runrig.domain.errors import InvalidInput
from runrig.domain.instants import UNITS_S
from runrig.domain.keep import KEEP
from runrig.http.permissions import needs
from runrig.http.routing import Found
from runrig.web.asking import Form, filled
from runrig.web.routes import form

LIFETIMES = ("7d", "30d", "90d", "365d", "never")
_OWN = [needs(Permission.OWN_TOKENS)]
_ACCESS = [needs(Permission.ACCESS)]
_ALL = "all"


def page_of(user: str) -> str:
    return f"/access/user/{quote(user, safe='')}"


@dataclass(frozen=True, slots=True)
class _Form:
    """A form about tokens. *user*: whose; "": one's own."""

    it: Form
    user: str

    @property
    def owner(self) -> str:
        return self.user or self.it.user

    @property
    def back(self) -> str:
        return page_of(self.user) if self.user else "/me"


async def _of(request: Request) -> _Form:
    it, user = await filled(request), request.path_params.get("user")
    return _Form(it, "" if user is None else it.service.access.users.get(user).name)


Tokens = Annotated[_Form, Found(_of)]


@form("/me/token", dependencies=_OWN)
@form("/access/user/{user}/token", dependencies=_ACCESS)
async def create(of: Tokens) -> Response:
    it, access = of.it, of.it.service.access

    typed = it.typed(name="", description="", expires="90d", roles="")
    draw = partial(it.shown, "me_token.html", typed, whose=of.user, back=of.back, lifetimes=LIFETIMES)

    def do() -> Response:
        lifetime, roles = it.fields.get("expires", ""), it.words("roles")
        if lifetime not in LIFETIMES:
            raise InvalidInput.one("choose a lifetime from the list", "expires")
        made = access.tokens.create(
            of.owner,
            it.field("name"),
            None if lifetime == "never" else float(int(lifetime[:-1]) * UNITS_S["d"]),
            actor=it.user,
            text=access.authentication.derived(it.user, it.key),
            description=it.field("description"),
            roles=[role_named(each) for each in roles] if roles else None,
            by=it.asker.identity.token,
        )
        says = ["Copy it now: it is not shown again."]
        return it.done(f"Created token {made.row.name}", says, made.text, back=of.back)

    return await it.shown_once(draw, do)


@form("/me/change/{name}", dependencies=_OWN)
@form("/access/user/{user}/change/{name}", dependencies=_ACCESS)
async def change(of: Tokens, name: str) -> Response:
    """Changes the roles and the description of a token."""
    it, tokens = of.it, of.it.service.access.tokens

    def draw(**more: Any) -> Response:
        row = tokens.named(of.owner, name)
        typed = it.typed(roles=_in_words(row.roles), description=row.description)
        return it.shown("me_change.html", typed, row=row, back=of.back, **more)

    def do() -> None:
        roles = it.words("roles")
        same = roles == _in_words(tokens.named(of.owner, name).roles).split()
        if not roles and not same:
            raise InvalidInput.one("name roles, or all", "roles")
        tokens.change(
            of.owner,
            name,
            actor=it.user,
            by=it.asker.identity.token,
            description=it.field("description"),
            roles=KEEP if same else None if roles == [_ALL] else [role_named(each) for each in roles],
        )

    return await it.answered(draw, do, of.back)


@form("/me/revoke/{name}", dependencies=_OWN)
@form("/access/user/{user}/revoke/{name}", dependencies=_ACCESS)
async def revoke(of: Tokens, name: str) -> Response:
    it, tokens = of.it, of.it.service.access.tokens
    does = f"Revoke token {name}{f' of {of.user}' if of.user else ''}"
    says = "Programs that use it lose access, and every browser that signed in with it is signed out."
    do = partial(tokens.revoke, of.owner, name, actor=it.user, by=it.asker.identity.token)
    return await it.sure(does, says, do, of.back, partial(tokens.named, of.owner, name))


def _in_words(roles: tuple[str, ...] | None) -> str:
    return _ALL if roles is None else " ".join(roles)
