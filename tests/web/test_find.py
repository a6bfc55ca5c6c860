"""The field at the top of every page."""

from pathlib import Path

from tests.web.visitor import site, words_of


def test_a_name_or_an_only_hit_opens_its_page_and_several_are_listed(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        for name in ("train", "train", "eval"):
            it.desk.submit(name, gpus=1)
        it.desk.submit("other", "pool2", gpus=1)
        visitor, eve = it.visitor(), it.person("eve", "pool1-user")
        found = {
            word: visitor.get(f"/find?q={word}").headers.get("location")
            for word in ("train-2", "eva", "pool1", "n0", "ann", "ol2", "by:ann")
        }
        assert found == {
            "train-2": "/workflow/train-2",
            "eva": "/workflow/eval-1",
            "pool1": "/pool/pool1",
            "n0": "/node/n0",
            "ann": "/workflows?q=by%3Aann",
            "ol2": "/pool/pool2",
            "by:ann": "/workflows?q=by%3Aann",
        }
        page = visitor.page("/find?q=TRAIN")
        assert "Workflows train-2 train-1" in words_of(page)
        assert 'href="/submit"' in page
        assert "Pools pool1 pool2" in words_of(visitor.page("/find?q=pool"))
        for word in ("other-1", "other", "pool2"):
            assert "Nothing that you can see" in words_of(eve.page(f"/find?q={word}"))
        assert 'href="/submit"' not in it.person("nina", "pool1-viewer").page("/find?q=train")
        assert visitor.get(f"/find?q={'x' * 300}").status_code == 422
