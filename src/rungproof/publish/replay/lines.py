"""The line that a replayer signs and sends, and what a publisher checks before it joins a pack's proof."""

from collections.abc import Collection
from pathlib import Path

from rungproof.judge.replay import claimed_items
from rungproof.judge.standing import standing
from rungproof.publish.pack.files import MANIFEST, PROOF
from rungproof.publish.pack.statements import carries_key, proof_lines, publisher_of
from rungproof.publish.replay.report import predicate
from rungproof.publish.signing import Signer, pem, signed_line
from rungproof.records.codec import read, sha256
from rungproof.records.errors import EvidenceError
from rungproof.records.plan import Plan
from rungproof.records.proof import LINE_BYTES, REPLAY, statement
from rungproof.records.replay import Replay
from rungproof.records.standing import ProofLine, StandingLine, State
from rungproof.records.summary import Summary

BIGGEST = 4 * LINE_BYTES  # bytes of a file with lines


def line_of(replay: Replay, signer: Signer | None) -> bytes:
    """The replay as one line of proof; without a signer it has no signature and cannot be merged."""
    said = predicate(replay)
    if signer is not None:
        said["public_key"] = pem(signer.public).decode("ascii")
    return signed_line(statement({MANIFEST: replay.pack}, REPLAY, said), signer)


def claimed_of(pack: Path) -> tuple[str, ...]:
    """The items that a pack's claims rest on."""
    return claimed_items(read(Plan, pack / "plan.json"), read(Summary, pack / "summary.json").points)


def lines_in(path: Path) -> list[bytes]:
    """The lines of a file that somebody sent, ends included. Raises EvidenceError for one that is too big, unreadable or empty."""
    try:
        with path.open("rb") as file:
            data = file.read(BIGGEST + 1)
    except OSError as error:
        raise EvidenceError(
            f"{path}: cannot be read ({error.strerror}); expected a file with lines of proof"
        ) from error
    if len(data) > BIGGEST:
        raise EvidenceError(f"{path}: more than {BIGGEST} bytes; expected a file with a few lines of proof")
    made = [line + b"\n" for line in data.split(b"\n") if line.strip()]
    if not made:
        raise EvidenceError(f"{path}: holds no line of proof")
    return made


def check_line(pack: Path, line: bytes, keys: Path, where: str) -> tuple[State, StandingLine]:
    """What a line would move the pack's state to by itself, and why. Raises EvidenceError for a line that must not join the proof: of
    another kind or pack, unsigned or forged, there already, or one that says nothing beyond what its signer has published."""
    publisher, public = publisher_of(pack)
    digest = sha256((pack / MANIFEST).read_bytes())
    ((_, made),) = proof_lines(line, public, keys)
    held = (pack / PROOF).read_bytes() if (pack / PROOF).is_file() else b""
    _refuse(made, digest, where)
    if line in held.splitlines(keepends=True) or _again(made, [one for _, one in proof_lines(held, public, keys)]):
        raise EvidenceError(f"{where}: this very statement by this key is in the proof already; nothing was changed")
    if made.kind == "recompute" and made.keyid == publisher:
        raise EvidenceError(
            f"{where}: a recomputing by the publisher's own key says nothing that the pack does not say; nothing was changed"
        )
    told = standing([made], digest, publisher, claimed_of(pack))
    return told.state, told.lines[0]


def _refuse(made: ProofLine, digest: str, where: str) -> None:
    if made.kind not in ("replay", "recompute"):
        raise EvidenceError(f"{where}: found a line of kind {made.kind!r}; expected one that `rungproof replay` made")
    if made.subject != digest:
        raise EvidenceError(
            f"{where}: speaks of the pack whose manifest has sha256 {made.subject[:64]!r}; this one's is {digest}. Merge it into its own."
        )
    if not made.holds:
        said = (
            "has no signature"
            if not made.keyid
            else f"its signature is not that of {made.keyid[:80]!r} over these bytes"
        )
        raise EvidenceError(f"{where}: {said}; it was forged, damaged, or lacks its public key")
    if not carries_key(made):
        raise EvidenceError(
            f"{where}: does not bring its key; expected public_key in the statement, in PEM as `openssl pkey -pubout` writes it, so "
            "that whoever has the pack alone can check the line"
        )


def _again(made: ProofLine, held: Collection[ProofLine]) -> bool:
    """Whether the same key says the same already, in another envelope."""
    return any((one.keyid, one.subject, one.predicate) == (made.keyid, made.subject, made.predicate) for one in held)
