"""Any values, as JSON and YAML have them."""

from typing import Any

from hypothesis import strategies as st


def values(*words: str) -> st.SearchStrategy[Any]:
    """Values of every kind. *words*: texts that the reader may take for something."""
    scalars = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(words)
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    )


def replace_one(tree: Any, by: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """Replaces one value of *tree*, mostly a deep one, so that in time every field gets values of every kind."""
    while True:
        key = data.draw(st.sampled_from(list(tree) if isinstance(tree, dict) else list(range(len(tree)))))
        if not (isinstance(tree[key], dict | list) and tree[key] and data.draw(st.integers(0, 5))):
            tree[key] = data.draw(by)
            return
        tree = tree[key]
