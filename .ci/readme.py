"""The README of a package on an index, where nothing of the repository is beside it: a hook of hatchling."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https://)[^)]*\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https://)[^)]*\)")
_LINKS = re.compile(r"^## Learn more\n.*?(?=^Apache License)", re.MULTILINE | re.DOTALL)


class Readme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": of_index(text)}


def of_index(text: str) -> str:
    """Returns *text* without pictures of the repository, and with the words of links into it only."""
    return _LINK.sub(r"\1", _PICTURE.sub("", _LINKS.sub("", text)))
