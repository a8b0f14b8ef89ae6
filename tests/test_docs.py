"""What the documents say can be done as they say it: commands parse, links lead somewhere, keys of --config are there."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from rungproof.cli import parser
from rungproof.config.sections import Run

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("config/*.md"), *ROOT.glob("envs/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def fenced(page: Path) -> Iterator[list[str]]:
    """The words of each line in a code block of a page; comments are no words."""
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.strip().startswith("```"):
            inside = not inside
        elif inside and re.match(r"\s*(\.venv/bin/)?(rungproof|snakemake) [a-z]", line):
            yield shlex.split(line, comments=True)


CALLS = [(page.relative_to(ROOT).as_posix(), words) for page in PAGES for words in fenced(page)]


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", head.lower()).replace(" ", "-") for head in heads}


def test_there_are_commands() -> None:
    """The README alone shows most of them."""
    assert len([words for page, words in CALLS if page == "README.md"]) >= 8


@pytest.mark.parametrize(("page", "words"), [c for c in CALLS if c[1][0].endswith("rungproof")])
def test_every_command_is_one(page: str, words: list[str]) -> None:
    """A line of a code block is a line that the parser takes, up to its redirection."""
    upto = next((i for i, word in enumerate(words) if word in (">", "|", "&&")), len(words))
    assert callable(parser().parse_args(words[1:upto]).run), page


@pytest.mark.parametrize(("page", "words"), [c for c in CALLS if c[1][0].endswith("snakemake")])
def test_every_setting_is_one(page: str, words: list[str]) -> None:
    """What stands after --config is a key of the configuration."""
    if "--config" not in words:
        return
    for word in words[words.index("--config") + 1 :]:
        if word.startswith("-"):
            break
        assert word.partition("=")[0] in Run.model_fields, f"{page}: {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    """Files and headings that a page links to are there; addresses elsewhere are not asked."""
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        to = page.parent / path if path else page
        assert to.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(to), f"{page.name}: {link}"
