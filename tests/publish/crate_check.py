"""Validates a RO-Crate without a network: `PYTHON crate_check.py FOLDER PROFILE...` in the environment of envs/crate.lock.

The validator fetches the JSON-LD context even where it is told to stay offline; its cache is filled with the copy that the
package `rocrate` ships. Prints one line an issue; exit code 0: valid against every profile.
"""

import io
import json
import socket
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests_cache import CachedSession
from rocrate_validator import models, services
from rocrate_validator.utils.http import HttpRequester
from urllib3 import HTTPResponse

CONTEXT = "https://w3id.org/ro/crate/1.1/context"


def no_network(*_args: Any, **_keywords: Any) -> None:
    """Every attempt to reach anything fails."""
    raise OSError("the network is off in this check")


class Shipped(HTTPAdapter):
    """Answers with the shipped context, whatever is asked."""

    def send(self, request: Any, *_args: Any, **_keywords: Any) -> requests.Response:
        """One answer, from the package's file."""
        body = (resources.files("rocrate") / "data/ro-crate.jsonld").read_bytes()
        assert json.loads(body)["@id"] == CONTEXT
        raw = HTTPResponse(
            io.BytesIO(body), {"Content-Type": "application/ld+json"}, 200, preload_content=False, request_url=CONTEXT
        )
        return self.build_response(request, raw)


def seed(cache: Path) -> None:
    """The shipped context under the address that crates name."""
    session = CachedSession(str(cache), backend="sqlite", expire_after=-1)
    session.mount("https://", Shipped())
    session.get(CONTEXT)
    session.close()


def main(folder: Path, profiles: list[str]) -> int:
    """Check against each profile at the severity REQUIRED."""
    socket.socket.connect = no_network  # type: ignore[assignment, method-assign]
    socket.getaddrinfo = no_network  # type: ignore[assignment]
    wrong = 0
    with tempfile.TemporaryDirectory() as home:
        seed(Path(home) / "cache")
        for profile in profiles:
            HttpRequester.reset()
            result = services.validate(
                services.ValidationSettings(
                    rocrate_uri=str(folder),
                    profile_identifier=profile,
                    requirement_severity=models.Severity.REQUIRED,
                    offline=True,
                    cache_path=Path(home) / "cache",
                )
            )
            for issue in result.get_issues():
                print(f"{profile}: {issue.severity.name}: {issue.check.identifier}: {issue.message}")
            checks = len(result.executed_checks)
            print(f"{profile}: {checks} checks, {'valid' if result.passed() and checks else 'not valid'}")
            wrong += not result.passed() or not checks
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
