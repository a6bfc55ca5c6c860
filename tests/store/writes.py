"""One of several processes that write to one store: ``writes.py URL NAME COMMITS`` prints what became of its commits, as JSON.

Each commit puts one node and logs it, on top of the revision that was read just before, until COMMITS of them have been stored.
"""

import json
import sys
from collections import Counter

from runrig.domain.errors import Unavailable
from runrig.domain.nodes import Node
from runrig.domain.plan import PutNode
from runrig.store import SqlStore

from .values import commit, put


def main(url: str, name: str, commits: int) -> None:
    store = SqlStore.open(url)
    became = Counter[str]()
    while became["stored"] < commits:
        node = Node(f"{name}-{became['stored']}", {"gpu": 1})
        revision = store.load().revision + 1
        try:
            commit(revision, (PutNode(node),), put(node)).to(store)
            became["stored"] += 1
        except Unavailable as error:
            if "another server wrote to it" not in error.message:
                raise
            became["overtaken"] += 1
    print(json.dumps(became))
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
