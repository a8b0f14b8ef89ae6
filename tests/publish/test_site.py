"""The site over published packs: true order and states, the same bytes twice, nothing dead, nothing obeyed, light with 500 packs."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

import pytest

from publish.parsed import Page
from publish.sample import HOSTILE
from publish.site_kit import happened, pack, published, summary
from rungproof.publish.pages.text import visible
from rungproof.publish.site import build_site
from rungproof.publish.site.listing import PAGE_ROWS, page_of
from rungproof.records.codec import canonical
from rungproof.records.plan import GateKind
from rungproof.records.standing import Standing

ATOM = "{http://www.w3.org/2005/Atom}"
MANY = 500


def files(reports: Path) -> dict[str, bytes]:
    """The site's own files by path."""
    own = [reports / name for name in ("index.html", "index.json", "index.csv", "feed.xml")] + sorted(
        (reports / "_site").iterdir()
    )
    return {path.relative_to(reports).as_posix(): path.read_bytes() for path in own}


def page(reports: Path, name: str = "index.html") -> Page:
    """One page taken apart."""
    return Page((reports / name).read_text(encoding="utf-8"))


def rows(of: Page) -> list[str]:
    """Text of each row of the list."""
    return [e.text for e in of.all("tr") if e.inside("tbody")]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site over 500 packs that all differ, of 300 studies, 25 models, 3 engines and 7 hosts."""
    reports = tmp_path_factory.mktemp("many")
    ids = published(reports, [(f"s{i % 300}", summary(i)) for i in range(MANY)])
    assert len(set(ids)) == MANY
    build_site(reports)
    return reports


def test_five_hundred_packs_stay_light(many: Path) -> None:
    """No page is above 150 kB, every pack is in index.json, and every arm that stands is in exactly one row of the whole list."""
    made = files(many)
    assert max(len(data) for name, data in made.items() if name.endswith(".html")) < 150_000
    assert len(json.loads(made["index.json"])["packs"]) == MANY
    last = -(-600 // PAGE_ROWS)
    parts = ["index.html", *(f"_site/all.{n}.html" for n in range(2, last + 1))]
    links = [
        e.attributes["href"]
        for name in parts
        for e in page(many, name).all("a")
        if e.inside("th") and e.inside("small") is None
    ]
    assert len(links) == 600 and len({href.removeprefix("../") for href in links}) == 300
    assert not (many / f"_site/all.{last + 1}.html").exists()


def test_every_link_of_every_page_leads_somewhere(many: Path) -> None:
    """Pages, packs, feeds: no link is dead, and every page is whole."""
    for name in files(many):
        if not name.endswith(".html"):
            continue
        made = page(many, name)
        assert not made.faults, name
        for element in made.all("a") + made.all("link"):
            href = unquote(element.attributes["href"])
            if not href.startswith("#"):
                assert (many / name).parent.joinpath(href).resolve().exists(), (name, href)


def test_a_facet_has_its_own_page_with_its_rows_alone(many: Path) -> None:
    """Each value of each facet: as many rows as it says, none of another value, over all its pages."""
    index = page(many)
    for name, cell in (("model-7", "model-7"), ("llama.cpp", "llama.cpp"), ("Host 3", "host3")):
        link = next(e for e in index.all("a") if e.text == name and e.inside("dd"))
        at = next(i for i, e in enumerate(index.elements) if e is link)
        count = int(next(e for e in index.elements[at:] if e.tag == "small").text)
        first, found, number = link.attributes["href"], [], 1
        while (many / (part := first if number == 1 else first.replace(".html", f".{number}.html"))).exists():
            found += rows(page(many, part))
            number += 1
        assert len(found) == count > 0 and all(cell in text for text in found)


def test_a_facet_of_many_values_has_a_page_that_lists_them_all(tmp_path: Path) -> None:
    """60 models: the index names 40 of them and leads to all, so each has a way to its page."""
    arms = {i: tuple(replace(a, model=f"m-{i:03d}") for a in summary(i).arms) for i in range(60)}
    published(tmp_path, [(f"s{i}", summary(i, arms=arms[i])) for i in range(60)])
    build_site(tmp_path)
    link = next(e for e in page(tmp_path).all("a") if e.text == "all 60")
    names = [e.text for e in page(tmp_path, link.attributes["href"]).all("a") if e.inside("ul")]
    assert names == [f"m-{i:03d}" for i in range(60)]


def test_a_pack_whose_names_no_file_system_takes_stops_no_other(tmp_path: Path) -> None:
    """It is listed as damaged, with what the system says of it."""
    published(tmp_path, [("a", summary(1))])
    first, *others = summary(2).arms
    pack(tmp_path, "long", summary(2, arms=(replace(first, model="m" * 300), *others)))
    made = build_site(tmp_path)
    assert (made.packs, made.damaged) == (1, 1)
    assert "File name too long" in page(tmp_path).all("main")[0].text


def test_a_site_that_cannot_be_moved_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted between the two moves, too."""
    published(tmp_path, [("a", summary(1))])
    build_site(tmp_path)
    before = files(tmp_path)
    rename = Path.rename

    def interrupted(path: Path, to: Path) -> Path:
        if path.parent.name.startswith(".site-") and path.name == "_site":
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_site(tmp_path)
    assert files(tmp_path) == before


def test_the_same_packs_give_the_same_bytes(many: Path, tmp_path: Path) -> None:
    """Twice over the same folder, whatever was there before: pages of what is gone vanish."""
    before = files(many)
    (many / "_site/model-gone.html").write_text("stale")
    build_site(many)
    assert files(many) == before


def test_only_what_is_qualified_is_ranked(tmp_path: Path) -> None:
    """A withheld arm that is faster than all comes after every qualified one, and its rate stands nowhere."""
    fast = summary(1)
    headline = replace(fast.headlines[0], center=98765.4, servers=(("a", 98765.4),), state="withheld", k=11)
    published(
        tmp_path,
        [("a", summary(2)), ("b", replace(fast, headlines=(headline, *fast.headlines[1:]))), ("c", summary(70))],
    )
    build_site(tmp_path)
    made = page(tmp_path)
    values = [float(e.attributes["value"]) for e in made.all("data") if e.attributes["data-claim"].endswith("/center")]
    assert values == sorted(values, reverse=True) and len(values) == 5
    assert "none claimed" in rows(made)[-1] and "withheld" in rows(made)[-1] and "11 of 12" in rows(made)[-1]
    assert not [name for name, data in files(tmp_path).items() if b"98765" in data]


def test_each_rate_carries_the_claim_it_comes_from(tmp_path: Path) -> None:
    """Pack and pointer of every number lead to that very value in the pack's summary."""
    published(tmp_path, [("a", summary(2)), ("b", summary(5))])
    build_site(tmp_path)
    for name in ("index.html", f"_site/{page_of('study', 'a')}"):
        found = page(tmp_path, name).all("data")
        assert found
        for element in found:
            value = json.loads((tmp_path / element.attributes["data-pack"] / "summary.json").read_bytes())
            for part in element.attributes["data-claim"].split("/")[1:]:
                value = value[int(part)] if isinstance(value, list) else value[part]
            assert element.attributes["value"] == repr(value)


def test_what_does_not_stand_is_told_and_not_ranked(tmp_path: Path) -> None:
    """Superseded, withdrawn, simulated and never logged packs are listed apart, each with its reason."""
    ids = published(
        tmp_path,
        [
            ("a", summary(1)),
            ("a", summary(2)),
            ("b", summary(3)),
            ("sim", summary(4, simulated=True)),
            ("ok", summary(6)),
        ],
    )
    happened(tmp_path, ("withdraw", "b", ids[2], "a wrong clock"))
    unlogged = pack(tmp_path, "stray", summary(5))
    build_site(tmp_path)
    shown = {e.attributes["href"].split("/")[-3] for e in page(tmp_path).all("a") if "/page/" in e.attributes["href"]}
    assert shown == {ids[1], ids[4]}
    text = {
        e.text.split("/")[-1]: e.inside("tr")
        for e in page(tmp_path, "_site/aside.html").all("bdi")
        if e.inside("small")
    }
    said = {name: row.text if row else "" for name, row in text.items()}
    assert "superseded" in said[ids[0]] and ids[1] in said[ids[0]]
    assert "withdrawn" in said[ids[2]] and "a wrong clock" in said[ids[2]]
    assert "simulated" in said[ids[3]] and "unlogged" in said[unlogged]
    assert {p["id"]: p["status"] for p in json.loads((tmp_path / "index.json").read_bytes())["packs"]}[
        ids[4]
    ] == "current"


def damage_summary(folder: Path) -> None:
    """A number in the summary is changed after the manifest was made."""
    path = folder / "summary.json"
    path.write_bytes(path.read_bytes().replace(b"33.", b"99."))


def damage_name(folder: Path) -> None:
    """The manifest is written again to fit, so that the folder's name does not."""
    path = folder / "MANIFEST.sha256"
    path.write_bytes(path.read_bytes() + b"0" * 64 + b"  more\n")


def damage_link(folder: Path) -> None:
    """The summary is a link to a file elsewhere."""
    (folder / "summary.json").unlink()
    (folder / "summary.json").symlink_to("/etc/passwd")


def damage_fifo(folder: Path) -> None:
    """The summary is a pipe that nobody writes to."""
    import os

    (folder / "summary.json").unlink()
    os.mkfifo(folder / "summary.json")


DAMAGES = {
    "a changed summary": damage_summary,
    "a rewritten manifest": damage_name,
    "a link": damage_link,
    "a pipe": damage_fifo,
    "a proof that is none": lambda folder: (folder / "proof.intoto.jsonl").write_text('{"payload": "Proven by me"}\n'),
    "deep nesting": lambda folder: (folder / "proof.intoto.jsonl").write_text("[" * 100_000 + "\n"),
    "a key that is none": lambda folder: (folder / "signer.pub.pem").write_text("-----BEGIN PUBLIC KEY-----"),
    "no manifest": lambda folder: (folder / "MANIFEST.sha256").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_pack_is_told_and_stops_no_other(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    """It is named on the index with the reason; its numbers are nowhere; the others are listed as before."""
    bad, _ = published(tmp_path, [("bad", summary(1)), ("good", summary(2))])
    damage(tmp_path / "bad" / bad)
    build_site(tmp_path)
    made = page(tmp_path)
    assert (
        f"bad/{bad}" in made.all("main")[0].text
        and len(rows(made)) == 2
        and all("Campaign 2" in row for row in rows(made))
    )
    assert [one["pack"] for one in json.loads((tmp_path / "index.json").read_bytes())["damaged"]] == [f"bad/{bad}"]
    assert "root:" not in made.html and str(tmp_path) not in made.html


def test_a_changed_log_makes_nothing_a_claim(tmp_path: Path) -> None:
    """A line taken out of the middle breaks the chain: no pack counts as published, and the index says why."""
    published(tmp_path, [(f"s{i}", summary(i)) for i in range(3)])
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "log.jsonl").write_bytes(lines[0] + lines[2])
    build_site(tmp_path)
    made = page(tmp_path)
    assert "The log is not believed" in made.html and rows(made) == []


def test_a_pack_cannot_say_itself_how_far_it_is_proven(tmp_path: Path) -> None:
    """A page that claims to be replicated changes nothing: the state comes from the signed lines of the proof, and here is none."""
    (one,) = published(tmp_path, [("a", summary(1))])
    (tmp_path / "a" / one / "page/standing.json").write_bytes(
        canonical(Standing(state="Replicated", signed=True, signer="ed25519:me"))
    )
    build_site(tmp_path)
    assert "Lab-measuredunsigned" in rows(page(tmp_path))[0] and "Replicated" not in page(tmp_path).html


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    """Nothing published: a page that says that, and a feed without entries."""
    build_site(tmp_path / "reports")
    assert "Nothing is published yet" in (tmp_path / "reports/index.html").read_text()
    assert ET.parse(tmp_path / "reports/feed.xml").getroot().findall(f"{ATOM}entry") == []


EVIL = f'"><script>alert(1)</script><img src=x onerror=alert(1)>{HOSTILE}'


def test_hostile_packs_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    """Titles, models, engines, hosts, claims, suites, file texts and reasons of strangers: escaped, shortened, in one file name each."""
    one = summary(1)
    arms = tuple(
        replace(arm, title=EVIL, model=f"../../{EVIL}", lane=EVIL, engine=EVIL, launch={"host": EVIL, EVIL: [EVIL]})
        for arm in one.arms
    )
    evil = replace(one, title=EVIL * 50, host=EVIL, claim=EVIL, arms=arms, suites=({"id": EVIL, "sha256": EVIL},))
    ids = published(tmp_path, [("a", evil), ("b", summary(2))])
    happened(tmp_path, ("withdraw", "b", ids[1], EVIL))
    build_site(tmp_path)
    for name in files(tmp_path):
        if name.endswith(".html"):
            made = page(tmp_path, name)
            assert not made.faults and not made.comments, name
            assert (
                not made.all("script")
                and not made.all("img")
                and not [e for e in made.elements if "onerror" in e.attributes or "onload" in e.attributes]
            )
            assert not set("\u202e\u2066\x00\x1b") & set(made.html), name
            for element in made.all("a"):
                href = unquote(element.attributes["href"])
                assert "script" not in href.split("/")[-1].lower() or "/" not in href.split("_site/")[-1].removeprefix(
                    "../"
                ), href
                if not href.startswith("#"):
                    there = (tmp_path / name).parent.joinpath(href).resolve()
                    assert there.exists() and there.is_relative_to(tmp_path), href
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        ".lock",
        ".nojekyll",
        "_site",
        "a",
        "b",
        "feed.xml",
        "index.csv",
        "index.html",
        "index.json",
        "log.jsonl",
    ]
    assert visible(EVIL) in "".join(e.text or "" for e in ET.parse(tmp_path / "feed.xml").iter())


def test_a_model_file_of_aliases_is_not_unfolded(tmp_path: Path) -> None:
    """A YAML file that would fill the memory is not read: the quantisation is then what the launch asks for."""
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9)) for n in range(98, 122)
    )
    one = summary(1)
    arms = tuple(replace(arm, model="bomb/1") for arm in one.arms)
    name = pack(tmp_path, "a", replace(one, arms=arms), files={})
    assert name
    other = pack(tmp_path, "b", one, files={})
    folder = tmp_path / "b" / other / "plan/inputs/config/models"
    (folder / f"{one.arms[0].model}.yaml").write_bytes(bomb + b"quantisation: evil\n")
    build_site(tmp_path)
    told = {
        p["id"]: [a["quantisation"] for a in p["arms"]]
        for p in json.loads((tmp_path / "index.json").read_bytes())["packs"]
    }
    assert told == {name: ["bfloat16", "bfloat16"], other: ["bfloat16", "bfloat16"]}


def test_rules_suites_and_lanes_have_pages_from_their_source(tmp_path: Path) -> None:
    """Each kind of gate has a page whose words are the docstrings of what judges; a suite's page names its digest; a lane's its file."""
    import inspect

    from rungproof.judge import rungs
    from rungproof.judge.gates import judge_gate

    published(tmp_path, [("a", summary(1)), ("b", summary(26))])
    build_site(tmp_path)
    for kind in get_args(GateKind):
        assert page(tmp_path, f"_site/{page_of('rule', kind)}").all("h1")[0].text
    text = " ".join(page(tmp_path, f"_site/{page_of('rule', 'ladder_rung')}").all("main")[0].text.split())
    for judge in (judge_gate, rungs):
        for part in (inspect.getdoc(judge) or "").split("\n\n"):
            assert " ".join(part.split()) in text
    assert "passes 2, shown last" in text
    lane = page(tmp_path, f"_site/{page_of('lane', 'lane-1-base')}")
    assert "title: Lane lane-1-base" in lane.all("pre")[0].text
    assert "2 different launches of it" in lane.all("main")[0].text


def test_the_history_of_a_lane_marks_its_steps(tmp_path: Path) -> None:
    """Three packs of one study in order of time: a step where the launch or the host changed, none where nothing did."""
    first, same = summary(1), summary(1, title="Campaign 1 again")
    moved = replace(
        summary(1), arms=tuple(replace(a, launch={**a.launch, "engine": "sglang"}) for a in first.arms), title="Third"
    )
    made = [
        replace(one, sessions=tuple(replace(s, at=f"2026-0{n}-01T00:00:00Z") for s in one.sessions))
        for n, one in enumerate((first, same, moved), start=1)
    ]
    published(tmp_path, [("a", one) for one in made])
    build_site(tmp_path)
    found = page(tmp_path, f"_site/{page_of('study', 'a')}")
    base = [e for e in found.all("tr") if e.inside("tbody")][:3]
    assert ["step" in e.attributes.get("class", "") for e in base] == [False, False, True]
    assert "engine: vllm → sglang" in base[2].text
