"""`ro-crate-metadata.json`: the pack described for archives, as RO-Crate 1.1 with the Process Run Crate profile 0.5. Generated.

One CreateAction a session, whose instrument is the engine and whose results are the raw files, and one for the reducer that
made the numbers. Digests stand in MANIFEST.sha256, which covers this file too.
"""

import json
from collections.abc import Mapping
from typing import Any

from rungproof import __version__
from rungproof.publish.pack.files import MANIFEST, PAGE, PROOF
from rungproof.records.summary import SessionInfo, Summary
from rungproof.records.text import clean

CRATE = "ro-crate-metadata.json"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
VERSION = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
LICENCE = "https://spdx.org/licenses/Apache-2.0"
REDUCER = "#reducer"
FORMATS = {
    ".json": "application/json",
    ".gz": "application/gzip",
    ".jsonl": "application/jsonl",
    ".parquet": "application/vnd.apache.parquet",
    ".py": "text/x-python",
    ".md": "text/markdown",
    ".html": "text/html",
    ".csv": "text/csv",
    ".yaml": "application/yaml",
    ".pem": "application/x-pem-file",
}


def crate(made: Mapping[str, bytes], summary: Summary, newest: str) -> bytes:
    """The metadata of a pack that will hold `made`, the page, the proof and the manifest. newest: date of the newest evidence [UTC]."""
    files = [_file(path, len(data)) for path, data in sorted(made.items())]
    grown = [_file(path) for path in (MANIFEST, PROOF, f"{PAGE}/index.html")]
    actions = [_session(session, made) for session in summary.sessions]
    reduced = {
        "@id": "#reduce",
        "@type": "CreateAction",
        "name": "Numbers recomputed from raw files",
        "instrument": {"@id": REDUCER},
        "endTime": newest,
        "object": _ids(path for path in sorted(made) if path.endswith(".raw.jsonl.gz")),
        "result": _ids(
            path for path in sorted(made) if path == "summary.json" or path.startswith(("tables/", "verdicts/"))
        ),
    }
    engines = {_engine(session)["@id"]: _engine(session) for session in summary.sessions}
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": clean(summary.title),
        "description": f"Proof pack of the campaign {summary.campaign} on the host {summary.host}: {clean(summary.purpose)}",
        "datePublished": newest,
        "license": {"@id": LICENCE},
        "conformsTo": {"@id": PROFILE},
        "hasPart": _ids(entity["@id"] for entity in (*files, *grown)),
        "mentions": _ids(action["@id"] for action in (*actions, reduced)),
    }
    graph = [
        {"@id": CRATE, "@type": "CreativeWork", "conformsTo": {"@id": VERSION}, "about": {"@id": "./"}},
        root,
        {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        {"@id": LICENCE, "@type": "CreativeWork", "name": "Apache License 2.0", "identifier": "Apache-2.0"},
        {
            "@id": REDUCER,
            "@type": "SoftwareApplication",
            "name": "rungproof",
            "description": "verify.py and reducer/ of this pack",
            "softwareVersion": __version__,
            "url": "https://rungproof.dev",
        },
        *engines.values(),
        *actions,
        reduced,
        *files,
        *grown,
    ]
    text = json.dumps({"@context": CONTEXT, "@graph": graph}, indent=1, ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8") + b"\n"


def _file(path: str, size: int | None = None) -> dict[str, Any]:
    """A file of the pack; one that grows later has no size."""
    made: dict[str, Any] = {"@id": path, "@type": "File", "name": path}
    if size is not None:
        made["contentSize"] = str(size)
    ending = path[path.rfind(".") :] if "." in path.rpartition("/")[2] else ""
    made["encodingFormat"] = FORMATS.get(ending, "text/plain")
    return made


def _session(session: SessionInfo, made: Mapping[str, bytes]) -> dict[str, Any]:
    """One fresh server, everything that was measured on it, and whether it ended as it should."""
    home, run = f"sessions/{session.session}", session.session.split(".")[0]
    results = [path for path in sorted(made) if path.startswith(f"{home}/") and "/judged/" not in path]
    objects = [path for path in sorted(made) if path == f"runs/{run}/campaign.lock.json"]
    return {
        "@id": f"#{session.session}",
        "@type": "CreateAction",
        "name": f"Session {session.session}: one fresh server and all that was measured on it",
        "instrument": {"@id": _engine(session)["@id"]},
        "object": _ids(objects),
        "result": _ids(results),
        "startTime": session.at,
        "actionStatus": f"http://schema.org/{'CompletedActionStatus' if session.sound else 'FailedActionStatus'}",
    }


def _engine(session: SessionInfo) -> dict[str, Any]:
    name, version = (clean(session.identity.get(key) or "unknown")[:80] for key in ("engine", "engine_version"))
    return {
        "@id": f"#engine-{_plain(name)}-{_plain(version)}",
        "@type": "SoftwareApplication",
        "name": name,
        "softwareVersion": version,
    }


def _plain(text: str) -> str:
    """A text as a part of an identifier."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in text)


def _ids(names: Any) -> list[dict[str, str]]:
    return [{"@id": name} for name in names]
