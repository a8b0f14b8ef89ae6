"""A call of Snakemake on a terminal, as a person sees it: a live line while it runs, only its messages when it has ended."""

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from campaigns.checkout import LADDER, Checkout

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def seen(checkout: Checkout, *words: str, at: Callable[[str, int], None] = lambda text, pid: None) -> tuple[int, str]:
    """Run a call on a pseudo terminal: its exit code and every byte that it wrote to it. `at` may act on what is seen so far."""
    ours, theirs = pty.openpty()
    environment = {**checkout.environment, "TERM": "xterm-256color", "COLUMNS": "150", "LINES": "40"}
    call = subprocess.Popen(
        checkout.command(*words), cwd=checkout.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    text, end = "", time.monotonic() + 900
    while time.monotonic() < end:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other end is closed: the call has ended
            break
        if not data:
            break
        text += data.decode("utf-8", "replace")
        at(text, call.pid)
    os.close(ours)
    return call.wait(timeout=120), text


def test_a_terminal_shows_where_the_call_is(checkout: Callable[..., Checkout]) -> None:
    """Server, step, batches and rate are drawn while it runs; messages stay; the cursor and the channel are left as they were."""
    one = checkout(small=LADDER)
    code, text = seen(one, "small", "--cores", "1")
    plain = CONTROL.sub("", text)
    assert code == 0, plain[-3000:]
    assert re.search(r"r001\.base\.a ladder/c\d .*\d/\d, \d+ tok/s", plain), plain
    assert "canary before" in plain
    assert re.search(r"r001\.base\.a: ladder/c4: measured in [\d.]+ s \[3/3\]", plain)
    assert plain.index("page: results/small/page/index.html") > plain.index("closed, sound True")
    assert "\x1b[2K" in text[text.index("page: results/small") :]  # the live line is taken away at the end
    assert text.rfind("\x1b[?25l") <= text.rfind("\x1b[?25h")
    assert not list((one.folder / ".snakemake").glob("terminal.*"))


def test_a_killed_call_leaves_the_cursor_shown(checkout: Callable[..., Checkout]) -> None:
    """SIGKILL while the live line is drawn: nothing can be cleaned up then, so the cursor must not have been hidden."""
    one = checkout(small={**LADDER, "workloads": {"ladder": {**LADDER["workloads"]["ladder"], "tokens": 2000}}})

    def kill(text: str, pid: int) -> None:
        if "r001.base.a ladder/c1 " in CONTROL.sub("", text):  # as it stands in the live line alone
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    code, text = seen(one, "small", "--cores", "1", at=kill)
    assert code == -signal.SIGKILL
    assert "ladder/c1: measured" not in text
    assert text.rfind("\x1b[?25l") <= text.rfind("\x1b[?25h")


def test_without_a_terminal_lines_are_plain(measured: Checkout) -> None:
    """Output into a file, TERM unset: no control characters, each server start as it goes, and what is done of what is to do."""
    plain((measured.folder / "terminal.txt").read_text(encoding="utf-8"), 16)


def test_on_a_dumb_terminal_lines_are_plain(checkout: Callable[..., Checkout]) -> None:
    """The same where the terminal says that it knows no control characters."""
    one = checkout(small=LADDER)
    one.environment["TERM"] = "dumb"
    call = one.run("small", "--cores", "1")
    assert call.returncode == 0, call.stdout
    plain(call.stdout, 3)


def plain(said: str, items: int) -> None:
    """Holds what was said to lines without control characters."""
    assert "\x1b" not in said
    assert re.search(r"r001\.base\.a: answering its first request \(\d+ s\)", said)
    assert "r001.base.a: ladder/c1: measured in" in said
    assert f"[1/{items}]" in said
