"""A headless Chromium spoken to through its own pipe, with the standard library alone; and what npm fetches for it, pinned by a lock."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)  # fmt: skip
WEB = Path(__file__).parent / "web"
BUILD = Path(__file__).parents[2] / "build/web"


def tools() -> Path:
    """The folder node_modules of exactly what tests/publish/web/package-lock.json names by version and integrity; kept under build/."""
    lock = (WEB / "package-lock.json").read_bytes()
    home = BUILD / sha256(lock).hexdigest()[:12]
    if not (home / "done").exists():
        home.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(WEB / name, home / name)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=home, check=True, capture_output=True, timeout=900)
        (home / "done").touch()
    return home / "node_modules"


class Browser:
    """One page of one browser. `requests`: every address that it asked for; `faults`: errors that it reported."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]

        def wire() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (*ends, commands, answers):
            os.close(end)
        self._held, self._number, self._session = b"", 0, ""
        self.requests: list[str] = []
        self.faults: list[str] = []
        self._loaded = 0
        target = next(t for t in self.do("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.do("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.do(f"{domain}.enable")

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            more = os.read(self._read, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended; expected it to answer")
            self._held += more
        one, _, self._held = self._held.partition(b"\0")
        made: dict[str, Any] = json.loads(one)
        self._note(made.get("method", ""), made.get("params", {}))
        return made

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.faults.append(str(params["exceptionDetails"].get("text")))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.faults.append(params["entry"]["text"])
        elif method == "Page.loadEventFired":
            self._loaded += 1

    def do(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the devtools protocol. Raises RuntimeError for one that is refused."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False, media: str = "screen") -> None:
        """Load a file into a window of this size, as light or dark, for the screen or for print."""
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", media=media, features=[scheme])
        before = self._loaded
        self.do("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + 240
        while self._loaded == before and time.monotonic() < deadline:
            self._message()

    def value(self, script: str) -> Any:
        """What an expression is in the page, as plain values; a promise is waited for. Raises RuntimeError where it fails."""
        made = self.do("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in made:
            raise RuntimeError(str(made["exceptionDetails"])[:400])
        return made["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """One key down and up."""
        for kind in ("keyDown", "keyUp"):
            self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, to: Path) -> None:
        """The whole page as PNG."""
        to.write_bytes(
            base64.b64decode(self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"])
        )

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self.do("Page.printToPDF", printBackground=False)["data"])

    def close(self) -> None:
        """End this browser; nothing of it stays."""
        self._process.terminate()
        self._process.wait(120)
        for end in (self._read, self._write):
            os.close(end)


def validate(files: Sequence[Path]) -> str:
    """What html-validate has against these files, in its own words; empty for nothing."""
    node = shutil.which("node")
    assert node is not None
    command = [
        node,
        str(tools() / "html-validate/bin/html-validate.mjs"),
        "--config",
        str(WEB / "html-validate.json"),
        "--formatter=text",
    ]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, timeout=600, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode else ""
