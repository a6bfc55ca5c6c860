"""Users' access tokens: queries, and commands that run one at a time."""

from collections.abc import Collection
from dataclasses import replace

from runrig.domain.access import DEFAULT_EXPIRY_S, Grant, Identity, RoleKind, TokenRow, User, token_name_problem
from runrig.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound, Problem
from runrig.domain.keep import KEEP, Keep
from runrig.domain.quantities import few
from runrig.domain.tags import Expected, check_unchanged
from runrig.domain.trail import AccessEventKind
from runrig.service.access.accounts import RESERVED, Accounts, MadeToken, check_user, hash_of
from runrig.service.access.authentication import TokenUses
from runrig.service.access.users import Users

LONGEST_EXPIRY_S = 10 * 366 * 86_400.0
TOLD_AGAIN_S = 600.0
"""Seconds for which a repeated request gets the same token again."""
LONGEST_DESCRIPTION = 200
MOST_TOKENS = 100
"""Maximum valid tokens of a user."""
_ANOTHERS_KEY = "this Idempotency-Key was used for another token. Use a new key for each token"


class Tokens:
    def __init__(self, accounts: Accounts, users: Users, uses: TokenUses) -> None:
        self._accounts = accounts
        self._users = users
        self._uses = uses

    def of(self, user: str, *, ended: bool = False) -> tuple[TokenRow, ...]:
        """Returns the tokens of *user*, oldest first. *ended*: include expired and revoked ones."""
        now = self._accounts.now()
        tokens = [token for token in self._accounts.rows.tokens_of(user) if ended or token.problem(now) is None]
        tokens.sort(key=lambda token: (token.created_at, token.id))
        return tuple(self._with_use(token) for token in tokens)

    def _with_use(self, token: TokenRow) -> TokenRow:
        return replace(token, last_used_at=self._uses.last(token))

    def get(self, id: str) -> TokenRow | None:
        return self._accounts.rows.tokens.get(id)

    def named(self, user: str, name: str) -> TokenRow:
        """Returns the valid token *name* of *user*. Raises NotFound."""
        good = {token.name: token for token in self.of(user)}
        if name not in good:
            raise NotFound(f"unknown token {name!r:.80} of {user} (tokens: {few(sorted(good)) or 'none'})")
        return good[name]

    def create(
        self,
        user: str,
        name: str,
        expires_in_s: float | None = DEFAULT_EXPIRY_S,
        *,
        actor: str,
        text: str | None = None,
        description: str = "",
        roles: Collection[Grant] | None = None,
        by: str = "",
    ) -> MadeToken:
        """*expires_in_s* None: it never expires. The first token of the owner of `up` turns the owner into a user with
        all permissions.

        *text*: of the token, if a repeated request must get the same one for some time. *roles*: the user's roles that
        it grants; None: all. *by*: id of the caller's token, which cannot create one with more permissions.
        """
        _check_new(name, expires_in_s, description)
        with self._accounts.changing(actor) as change:
            wanted = self._wanted(user, roles, by)
            if text is not None and (made := self._made_before(text, user, name, expires_in_s)) is not None:
                if (made.row.description, made.row.roles) != (description, wanted):
                    raise Conflict(_ANOTHERS_KEY)
                self._check_reached(made.row, by)
                return made
            owner = None if self._accounts.owner is None else self._accounts.owner.identity.user
            if user == actor == owner and user not in self._accounts.rows.users:
                check_user(user)
                change.user(User(user, (), change.now), AccessEventKind.USER_CREATED)
                change.grant(user, Grant(RoleKind.ADMIN))
            else:
                _check_may_have(self._users.get(user))
            self._check_room(user, name, change.now)
            if roles is not None:
                self._check_given(user, roles, by)
            return change.token(user, name, expires_in_s, text, description=description, roles=wanted)

    def change(
        self,
        user: str,
        name: str,
        *,
        actor: str,
        by: str,
        description: str | Keep = KEEP,
        roles: Collection[Grant] | Keep | None = KEEP,
        expected: Expected = None,
    ) -> TokenRow:
        """Returns the changed token, which takes effect with the next request. *roles*, *by*: as in `create`.

        Raises NotFound, NotAllowed, InvalidInput, Changed.
        """
        if not isinstance(description, Keep):
            InvalidInput.check(_description_problem(description), "description")
        with self._accounts.changing(actor) as change:
            before = self.named(user, name)
            self._check_reached(before, by)
            check_unchanged(expected, before, f"token {name} of {user}")
            after = before if isinstance(description, Keep) else replace(before, description=description)
            if not isinstance(roles, Keep):
                if roles is not None:
                    self._check_given(user, roles, by)
                after = replace(after, roles=self._wanted(user, roles, by))
            if after != before:
                change.changed(after)
            return after

    def _narrow(self, user: str, by: str) -> tuple[str, ...] | None:
        """Returns the roles to which the caller's token *by* is restricted; None: not restricted, or a token of another user."""
        asking = self.get(by)
        return None if asking is None or asking.user != user else asking.roles

    def _wanted(self, user: str, roles: Collection[Grant] | None, by: str) -> tuple[str, ...] | None:
        """Returns the names of *roles*; without any, those of the caller's token; None: all."""
        return self._narrow(user, by) if roles is None else tuple(sorted({str(each) for each in roles}))

    def _check_given(self, user: str, roles: Collection[Grant], by: str) -> None:
        """Raises InvalidInput for a role that *user*, or the caller's token, does not have."""
        there, narrow = self._accounts.rows.users.get(user), self._narrow(user, by)
        grants = (Grant(RoleKind.ADMIN),) if there is None else there.grants  # The owner of `up` becomes a user now.
        has = [str(each) for each in grants if narrow is None or str(each) in narrow]
        if missing := sorted({str(each) for each in roles} - {*has}):
            raise InvalidInput.one(
                f"{user} does not have the role {missing[0]}, so a token cannot grant it (roles: {few(has) or 'none'})",
                "roles",
            )

    def _check_reached(self, token: TokenRow, by: str) -> None:
        """Raises NotAllowed if *by* is another token of the same user with fewer permissions than *token*."""
        asking = self.get(by)
        if asking is None or asking.user != token.user:
            return
        grants = self._users.get(token.user).grants
        who = Identity(token.user, asking.gives(grants), by, narrowed=asking.narrowed(grants))
        if not who.reaches(token.roles):
            raise NotAllowed(
                f"token {token.name} of {token.user} grants more roles than {asking.name}, the token of this request. Use a token with at "
                "least the same roles to change, show or revoke it"
            )

    def _made_before(self, text: str, user: str, name: str, expires_in_s: float | None) -> MadeToken | None:
        """Returns the token *text* if it was created; None if not. Raises Conflict if it must not be shown again."""
        row, now = self._accounts.rows.by_hash.get(hash_of(text)), self._accounts.now()
        if row is None:
            return None
        lives_s = None if row.expires_at is None else row.expires_at - row.created_at
        same_end = (
            lives_s is expires_in_s if lives_s is None or expires_in_s is None else abs(lives_s - expires_in_s) < 1
        )
        if (row.user, row.name) != (user, name) or not same_end:
            raise Conflict(_ANOTHERS_KEY)
        if row.problem(now) is not None or now - row.created_at > TOLD_AGAIN_S:
            raise Conflict(
                f"token {name!r} of {user} was already created with this Idempotency-Key and cannot be shown again. Use a new key"
            )
        return MadeToken(self._with_use(row), text)

    def revoke(self, user: str, name: str, *, actor: str, by: str = "", expected: Expected = None) -> TokenRow:
        """Revokes the valid token *name* of *user*. *by*: id of the caller's token. Raises NotFound, NotAllowed, Changed."""
        with self._accounts.changing(actor) as change:
            token = self.named(user, name)
            self._check_reached(token, by)
            check_unchanged(expected, token, f"token {name} of {user}")
            change.revoke(token)
        return self._accounts.rows.tokens[token.id]

    def first_admin(self, name: str) -> str:
        """Returns a token for *name*, who becomes an admin. Only if no admin has a valid token, so that access can be
        recovered.

        Requires direct access to the database without a running server. Raises Conflict, InvalidInput.
        """
        with self._accounts.changing(RESERVED[1]) as change:
            check_user(name)
            able = {token.user for token in self._accounts.rows.tokens.values() if token.problem(change.now) is None}
            if admins := sorted(self._accounts.rows.admins() & able):
                raise Conflict(
                    f"there are already administrators with valid tokens ({few(admins)}). Ask one of them to run `runrig user create` "
                    "and `runrig token create`"
                )
            user = self._accounts.rows.users.get(name)
            if user is None:
                change.user(User(name, (), change.now), AccessEventKind.USER_CREATED)
            elif user.disabled:
                change.user(replace(user, disabled=False), AccessEventKind.USER_ENABLED)
            if user is None or Grant(RoleKind.ADMIN) not in user.grants:
                change.grant(name, Grant(RoleKind.ADMIN))
            return change.token(name, f"first-{change.now:.0f}", DEFAULT_EXPIRY_S).text

    def _check_room(self, user: str, name: str, now: float) -> None:
        good = [token.name for token in self._accounts.rows.tokens_of(user) if token.problem(now) is None]
        if name in good:
            raise Conflict(f"{user} already has a token {name!r}. Choose another name, or delete that token first")
        if len(good) >= MOST_TOKENS:
            raise Conflict(f"{user} has reached the limit of {MOST_TOKENS} tokens. Delete some first")


def _description_problem(description: str) -> str | None:
    if len(description) <= LONGEST_DESCRIPTION and description.isprintable():
        return None
    return f"invalid description {description!r:.80}. Use at most {LONGEST_DESCRIPTION} characters and no line breaks"


def _check_new(name: str, expires_in_s: float | None, description: str) -> None:
    found = {
        "name": token_name_problem(name),
        "expires_in_s": _expiry_problem(expires_in_s),
        "description": _description_problem(description),
    }
    problems = tuple(Problem(text, path) for path, text in found.items() if text is not None)
    if problems:
        raise InvalidInput(problems)


def _check_may_have(user: User) -> None:
    """Raises Conflict if *user* cannot have tokens."""
    if user.disabled:
        raise Conflict(f"user {user.name} is disabled. Enable it first: `runrig user enable {user.name}`")
    if user.account is not None:
        raise Conflict(
            f"{user.name} uses single sign-on and cannot have access tokens, because they would outlive the sign-in. "
            "For a program, an administrator can create a user with `runrig user create`"
        )


def _expiry_problem(expires_in_s: float | None) -> str | None:
    if expires_in_s is None or 0 < expires_in_s <= LONGEST_EXPIRY_S:
        return None
    return f"invalid token lifetime {expires_in_s:.15g} s. Use more than 0 and at most {LONGEST_EXPIRY_S:.0f} s (3660 days), or never"
