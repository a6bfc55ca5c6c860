"""One's own page: the default pool, limits with what is used, notices, and tokens, whose text is shown once."""

import re
from pathlib import Path

from runrig.domain.access import role_named
from runrig.service.notices.webhook import Webhook
from tests.service.notices.receiver import HERE, receiving
from tests.web.visitor import fields_of, site, words_of

CLUSTER = (
    "pools: [{name: vision, quota: 4, user_gpus: 3, user_waiting: 5, gpus_per_workflow: 2}, {name: nlp, quota: 2}]"
)


def test_the_page_shows_limits_with_running_and_waiting_work(tmp_path: Path) -> None:
    with site(tmp_path, gpus=6, cluster=CLUSTER) as it:
        for _ in range(2):
            it.desk.submit("a", "vision", gpus=2)
        it.desk.service.settle()
        words = words_of(it.visitor().page("/me"))
        assert "GPUs at the same time in vision 2 of 3" in words
        assert "Waiting workflows in vision 1 of 5" in words
        assert "GPUs of one workflow in vision at most 2" in words
        assert "Your pools do not limit users." in words_of(it.person("eve", "nlp-user").page("/me"))


def test_the_default_pool_is_chosen_among_those_that_the_user_submits_to(tmp_path: Path) -> None:
    with site(tmp_path, cluster=CLUSTER.replace("]", ", {name: spare, quota: 0}]")) as it:
        eve = it.person("eve", "nlp-user", "spare-user", "vision-viewer")
        profile, pools = it.desk.service.access.profile, ["nlp", "spare", "vision"]
        assert re.findall("<option[^>]*>([^<]*)</option>", eve.page("/me/pool")) == ["None", "nlp", "spare"]
        assert eve.fill("/me/pool", pool="vision").status_code == 403
        assert eve.fill("/me/pool", pool="nlp").headers["location"] == "/me"
        assert profile("eve").default_of(pools) == "nlp"
        assert "<option selected>nlp</option>" in eve.page("/me/pool")
        assert eve.fill("/me/pool", pool="").status_code == 303
        assert profile("eve").default_of(pools) is None


def test_a_token_is_shown_once_and_a_repeated_form_creates_no_second_one(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        eve = it.person("eve", "pool1-user")
        form = fields_of(eve.page("/me/token")) | {"name": "ci", "roles": "pool1-user", "expires": "7d"}
        texts = [words_of(eve.post("/me/token", form).text) for _ in range(2)]
        assert texts[0] == texts[1]
        row = it.desk.service.access.tokens.named("eve", "ci")
        assert row.expires_at is not None
        assert (row.roles, int(row.expires_at - row.created_at)) == (("pool1-user",), 7 * 86_400)
        (secret,) = [each for each in texts[0].split() if len(each) == 43]
        assert it.visitor(secret).get("/").status_code == 200
        assert secret not in eve.page("/me")
        for typed, said in (
            ({"name": "ci"}, "already has a token"),
            ({"name": "a b"}, "a b"),
            ({"name": "x", "expires": "1s"}, "choose a lifetime"),
        ):
            refused = eve.fill("/me/token", **typed)
            assert refused.status_code in (409, 422)
            assert said in words_of(refused.text)
        assert eve.fill("/me/revoke/ci").headers["location"] == "/me"
        assert [each.name for each in it.desk.service.access.tokens.of("eve")] == ["t"]
        assert eve.get("/me/revoke/ci").status_code == 404


def test_a_token_changes_its_roles_and_its_description(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        eve, tokens = it.person("eve", "pool1-user", "pool2-user"), it.desk.service.access.tokens
        tokens.create("eve", "ci", actor="eve", roles=[role_named("pool1-user")])
        assert fields_of(eve.page("/me/change/ci"))["roles"] == "pool1-user"
        for typed, roles in (
            ({"roles": "pool2-user, pool1-user", "description": "the <b> nightly run"}, ("pool1-user", "pool2-user")),
            ({"roles": "all"}, None),
            ({"roles": "pool2-user"}, ("pool2-user",)),
        ):
            assert eve.fill("/me/change/ci", **typed).headers["location"] == "/me"
            row = tokens.named("eve", "ci")
            assert (row.roles, row.description) == (roles, "the <b> nightly run")
        for typed, said in (
            ({"roles": ""}, "name roles, or all"),
            ({"roles": "pool3-user"}, "does not have the role pool3-user"),
            ({"description": "a\nb"}, "no line breaks"),
        ):
            wrong = eve.fill("/me/change/ci", **typed)
            assert (wrong.status_code, said in words_of(wrong.text)) == (422, True)
        assert tokens.named("eve", "ci") == row
        tokens.change("eve", "ci", actor="eve", by="", roles=[])
        assert eve.fill("/me/change/ci", description="none").status_code == 303
        assert tokens.named("eve", "ci").roles == (), "an untouched field changes no role"


def test_credentials_are_created_replaced_and_deleted_and_no_page_shows_a_value(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor, access = it.visitor(), it.desk.service.access.credentials
        key = "-----BEGIN KEY-----\nhunter2\n-----END KEY-----"
        answers = [
            visitor.fill("/me/credential", name="wandb", type="GENERIC", values="api_key: hunter2\nuser: ann"),
            visitor.fill("/me/credential", name="a b", values="api_key: hunter2"),
            visitor.fill("/me/credential", name="other", values="hunter2"),
            visitor.fill("/me/credential", name="other", values="key: [hunter2]"),
            visitor.fill("/me/credential", name="other", values="key: {hunter2"),
            visitor.fill("/me/credential", name="other", type="DATA", values="access_key: hunter2"),
            visitor.fill("/me/credential", name="other", type="<b>", values="key: hunter2"),
            visitor.fill("/me/credential", name="other", values=""),
            visitor.fill("/me/credential", name="other", values="key: hunter2\nkey: hunter3"),
        ]
        assert [each.status_code for each in answers] == [303, *[422] * 8]
        assert [each.name for each in access.of("ann")] == ["wandb"]
        assert access.opened("ann", "wandb") == {"api_key": "hunter2", "user": "ann"}
        assert "wandb GENERIC api_key, user" in words_of(visitor.page("/me"))
        indented = key.replace("\n", "\n  ")
        assert visitor.fill("/me/credential?of=wandb", values=f"pem: |\n  {indented}").headers["location"] == "/me"
        assert access.opened("ann", "wandb") == {"pem": key}
        shown = [each.text for each in answers] + [visitor.page(path) for path in ("/me", "/me/credential?of=wandb")]
        assert not [each for each in shown if "hunter2" in each]
        assert visitor.get("/me/credential?of=nothing").status_code == 404
        gone = visitor.page("/me/credential/delete/wandb")
        assert "tasks that start later fail without it" in words_of(gone)
        assert visitor.fill("/me/credential/delete/wandb").headers["location"] == "/me"
        assert access.of("ann") == ()
        assert visitor.get("/me/credential/delete/wandb").status_code == 404


def test_administrators_grant_and_revoke_roles(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        ann, eve, users = it.visitor(), it.person("eve", "pool1-user"), it.desk.service.access.users
        assert ("/access" in ann.page("/me"), "/access" in eve.page("/me")) == (True, False)
        paths = ("/access", "/access/grant", "/access/revoke/eve/pool1-user")
        assert [eve.get(path).status_code for path in paths] == [403] * 3
        assert ann.fill("/access/grant", user="eve", role="pool2-viewer").headers["location"] == "/access/user/eve"
        assert users.get("eve").roles == ("pool1-user", "pool2-viewer")
        assert "eve pool1-user ann" in words_of(ann.page("/access?q=eve"))
        assert "No users match this filter" in words_of(ann.page("/access?q=%3Cb%3E"))
        for typed, status in (
            ({"user": "eve", "role": "boss"}, 422),
            ({"user": "", "role": "admin"}, 422),
            ({"user": "<b>", "role": "admin"}, 404),
            ({"user": "eve", "role": "nowhere-user"}, 404),
        ):
            assert ann.fill("/access/grant", **typed).status_code == status, typed
        path = "/access/revoke/eve/pool1-user"
        assert "Revoke pool1-user of eve?" in words_of(ann.page(path))
        assert users.get("eve").roles == ("pool1-user", "pool2-viewer"), "nothing has changed yet"
        assert ann.fill(path).headers["location"] == "/access/user/eve"
        assert users.get("eve").roles == ("pool2-viewer",)
        assert ann.get(path).status_code == 404


def test_administrators_create_users_with_tokens_and_disable_them(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        ann, eve, users = it.visitor(), it.person("eve", "pool1-user"), it.desk.service.access.users
        page = "/access/user/bo"
        assert ann.fill("/access/create", user=" bo ", roles="pool1-user, viewer").headers["location"] == page
        assert users.get("bo").roles == ("pool1-user", "viewer")
        for typed, status in (
            ({"user": "bo"}, 409),
            ({"user": ""}, 422),
            ({"user": "<b>"}, 422),
            ({"user": "cy", "roles": "boss"}, 422),
            ({"user": "cy", "roles": "nowhere-user"}, 404),
        ):
            assert ann.fill("/access/create", **typed).status_code == status, typed
        assert users.known("cy") is None
        made = words_of(ann.fill(f"{page}/token", name="laptop", description="of <b>").text)
        (secret,) = [each for each in made.split() if len(each) == 43]
        bo = it.visitor(secret)
        assert ann.fill(f"{page}/change/laptop", roles="viewer").headers["location"] == page
        shown = words_of(ann.page(page))
        assert "laptop of <b> viewer" in shown
        assert "token created laptop ann" in shown
        assert "Their tokens stop working" in words_of(ann.page(f"{page}/disable"))
        assert ann.fill(f"{page}/disable").headers["location"] == page
        assert bo.get("/me").status_code == 303
        assert "bo disabled" in words_of(ann.page(page))
        assert ann.fill(f"{page}/enable").headers["location"] == page
        assert it.visitor(secret).get("/me").status_code == 200
        assert ann.fill(f"{page}/revoke/laptop").headers["location"] == page
        assert it.desk.service.access.tokens.of("bo") == ()
        forms = ("", "/token", "/disable", "/enable", "/change/laptop", "/revoke/laptop")
        assert [eve.get(f"{page}{each}").status_code for each in forms] == [403] * 6
        assert eve.get("/access/create").status_code == 403
        assert [ann.get(f"/access/user/none{each}").status_code for each in forms] == [404] * 6


def test_notices_are_turned_on_tested_and_turned_off(tmp_path: Path) -> None:
    with receiving(tmp_path) as (receiver, trusts), site(tmp_path) as it:
        it.desk.service.notices._webhook = Webhook(HERE, trusts)
        visitor, to = it.visitor(), f"{receiver.url}?<b>"
        made = words_of(visitor.fill("/me/notices", to=to, min_run="10m").text)
        setting = it.desk.store.notices.settings()[0]
        assert (setting.to, setting.when, setting.min_run_s) == (to, ("fail", "preempt"), 600)
        assert setting.secret in made
        page = visitor.page("/me")
        assert (setting.secret in page, "?<b>" in page, "fail, preempt: " in words_of(page)) == (False, False, True)
        assert fields_of(visitor.page("/me/notices"))["min_run"] == "10m"
        assert setting.secret not in visitor.fill("/me/notices", start="on").text, "the same address keeps its secret"
        assert "The test notice arrived" in words_of(visitor.post("/me/notices/test", fields_of(page)).text)
        assert [each["event"] for each in receiver.documents] == ["test"]
        for typed, said in (
            ({"to": "http://a.example.org"}, "https"),
            ({"min_run": "soon"}, "'soon' is not a duration"),
        ):
            wrong = visitor.fill("/me/notices", **typed)
            assert (wrong.status_code, said in words_of(wrong.text)) == (422, True)
        assert visitor.fill("/me/notices/off").headers["location"] == "/me"
        assert it.desk.store.notices.settings() == ()
        failed = words_of(visitor.post("/me/notices/test", fields_of(page)).text)
        assert "The test notice did not arrive Notices are off." in failed


def test_a_narrowed_token_cannot_change_settings_shared_by_all_tokens(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.person("eve", "pool1-user", "pool2-user")
        made = it.desk.service.access.tokens.create("eve", "ci", actor="eve", roles=[role_named("pool1-user")])
        narrow = it.visitor(made.text)
        assert "Turn on" not in narrow.page("/me")
        assert [narrow.get(path).status_code for path in ("/me/pool", "/me/notices", "/me/notices/off")] == [403] * 3
