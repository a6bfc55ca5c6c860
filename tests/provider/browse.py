"""A browser as a program, for $BROWSER: ``python -m tests.provider.browse USER URL``."""

import sys
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests.provider.running import Browser


def main() -> None:
    user, url = sys.argv[1:]
    back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
    httpx2.get(Browser(user).open(url, back)).raise_for_status()


if __name__ == "__main__":
    main()
