"""Layout of a campaign's results folder: which file lies where, and the lock and prompts of a run."""

from pathlib import Path

from rungproof.records.codec import read
from rungproof.records.files import write_atomic
from rungproof.records.formats import Server
from rungproof.records.plan import Item, Plan, split_session

__all__ = ["Folder", "write_atomic"]


class Folder:
    """Paths of one campaign's results folder (`results/<study>`), and its small records read."""

    def __init__(self, study: Path) -> None:
        self.study = study

    def run(self, run: str) -> Path:
        """Folder of one call of snakemake: its lock and prompts."""
        return self.study / "runs" / run

    def lock(self, session: str) -> Path:
        """campaign.lock.json of the run that a session belongs to."""
        return self.run(split_session(session)[0]) / "campaign.lock.json"

    def plan(self, session: str) -> Plan:
        """The plan that a session was measured under. Raises EvidenceError."""
        return read(Plan, self.lock(session))

    def prompts(self, session: str, arm: str, workload: str) -> Path:
        """Prompts of an arm's workload as they were sent in a session's run."""
        return self.run(split_session(session)[0]) / "prompts" / f"{arm}.{workload}.json"

    def session(self, session: str) -> Path:
        """Folder of one session."""
        return self.study / "sessions" / session

    def server(self, session: str) -> Server:
        """server.json of a session. Raises EvidenceError."""
        return read(Server, self.session(session) / "server.json")

    def attempt(self, session: str, item: Item) -> Path:
        """Record of one attempt."""
        return self.session(session) / "attempts" / f"{item.workload}.{item.item}.json"

    def raw(self, session: str, item: Item) -> Path:
        """Raw file of one attempt."""
        return self.session(session) / "attempts" / f"{item.workload}.{item.item}.raw.jsonl.gz"

    def judged(self, session: str, item: Item) -> Path:
        """What the judge made of one attempt."""
        return self.session(session) / "judged" / f"{item.workload}.{item.item}.json"

    def relative(self, path: Path) -> str:
        """A path as records name it: relative to the study, with forward slashes."""
        return path.relative_to(self.study).as_posix()
