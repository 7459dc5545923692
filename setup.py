"""The one thing that setup.cfg cannot say: the README as a package index shows it.

Its links are relative, which is right in a clone and dead elsewhere. They lead to the repository if
setup.cfg names one (`url`); without one they are names of files in the source distribution."""

import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import setup


LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


def readme(text: str, url: str | None) -> str:
    """The text with links that work where its files are not."""

    def link(found: re.Match[str]) -> str:
        picture, title, target = found.groups()
        if url is None:
            return f"{title} (`{target}`)"
        return f"{picture}[{title}]({url.rstrip('/')}/{'raw' if picture else 'blob'}/main/{target})"

    return LINK.sub(link, text)


if __name__ == "__main__":
    here = Path(__file__).parent
    config = ConfigParser()
    config.read(here / "setup.cfg", encoding="utf-8")
    url = config.get("metadata", "url", fallback=None)
    setup(long_description=readme((here / "README.md").read_text(encoding="utf-8"), url))
