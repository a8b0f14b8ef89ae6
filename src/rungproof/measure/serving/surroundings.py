"""What a server ran on: facts when it is ready and when it is closed, samples in between, all in env.json."""

import os
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rungproof.judge import environment as judged
from rungproof.measure.hosts import capture, nvidia, xpu_smi
from rungproof.measure.hosts.devices import Device, devices
from rungproof.measure.hosts.sampling import Sampler, read_samples, samplers
from rungproof.measure.serving import occupied, report
from rungproof.measure.serving.order import Order, Places
from rungproof.records.codec import digest
from rungproof.records.environment import Environment, Fact
from rungproof.records.formats import Reason


class Surroundings:
    """The environment of one session. `root`: of the tree that is read."""

    def __init__(self, places: Places, order: Order, boot: str, root: Path = Path("/")) -> None:
        self._places, self._order, self._boot, self._root = places, order, boot, root
        self.devices: list[Device] = devices(root, nvidia.library(), xpu_smi.asker())
        self.chosen = [device for device in self.devices if device.key in order.devices]
        self._sampler: Sampler | None = None
        self._record: Environment | None = None
        self._used: dict[str, int] = {}

    def occupied(self) -> tuple[Reason, ...]:
        """Why the devices that the host profile names cannot be used now; () if they are there and free."""
        reasons = occupied.missing(self.devices, self._order.devices) or occupied.before(
            self.chosen, self._order.holders
        )
        self._used = occupied.used(self.chosen)
        return reasons

    def left(self) -> tuple[str, ...]:
        """What the devices still hold after the server's end, in words. Never raises."""
        try:
            return occupied.after(self.chosen, self._order.holders, self._used)
        except Exception as error:  # a device that cannot be asked is not known to be clean
            traceback.print_exc()
            return (f"the devices could not be asked: {error!r}",)

    def at_start(self, pid: int) -> dict[str, Any]:
        """Values for the record of a server that may never become ready."""
        return capture.values(capture.host(self._root, pid, self.devices))

    def before(
        self,
        pid: int,
        variables: dict[str, str] | None,
        packages: Sequence[Path],
        children: Sequence[int],
        caches_at_start: Fact,
    ) -> tuple[dict[str, Any], tuple[Reason, ...]]:
        """Write env.json of a ready server and begin to sample: its values, and reasons if the host is not as it must be.

        caches_at_start: `caches` of the session's folder just before the server was started.
        """
        facts = {
            **capture.host(self._root, pid, self.devices),
            **capture.server(pid, variables, packages, self._root, children),
            "compile_caches": caches(self._places.cache),
            "compile_caches_at_start": caches_at_start,
        }
        self._record = Environment(self._order.session, self._order.arm, self._boot, report.now(), facts)
        written = report.save(self._places.env, self._record)
        self._sampler = Sampler(self._places.samples, samplers(self._root, self.chosen))
        self._sampler.begin()
        reasons = unmet(self._order.expect, facts)
        if not written:
            reasons = (*reasons, Reason("env.json could not be written", where="logs/supervisor.log"))
        return capture.values(facts), reasons

    def after(self, pid: int, alive: bool) -> tuple[Reason, ...]:
        """End the samples, look once more, write env.json: reasons if what must stay equal did not. Never raises."""
        if self._record is None:
            return ()
        try:
            return self._after(pid, alive)
        except Exception as error:  # whatever a driver does, the server must still be ended
            traceback.print_exc()
            return (Reason("environment could not be read", repr(error), where="logs/supervisor.log"),)

    def _after(self, pid: int, alive: bool) -> tuple[Reason, ...]:
        if self._sampler:
            self._sampler.end()
        assert self._record is not None
        samples = read_samples(self._places.samples)
        record = replace(self._record, sampled=judged.sampled(samples), energy=judged.energy(samples))
        reasons: tuple[Reason, ...] = ()
        if alive:  # of a server that is gone its limits could not be read again; the session is unsound anyway
            found = capture.host(self._root, pid, self.devices)
            reasons = judged.changed({key: fact for key, fact in record.before.items() if _again(fact)}, found)
            record = replace(
                record, after_at=report.now(), after={**found, "compile_caches": caches(self._places.cache)}
            )
        if not report.save(self._places.env, record):
            reasons = (*reasons, Reason("env.json could not be written", where="logs/supervisor.log"))
        return reasons


def _again(fact: Fact) -> bool:
    """Whether a fact is of the host, and so must be there to be read again."""
    return fact.reader not in ("software", "caches")


def unmet(expect: dict[str, Any], facts: dict[str, Fact]) -> tuple[Reason, ...]:
    """What a host profile demands and the host does not show. A limit that was written without an error may still not hold."""
    made = []
    for key, wanted in expect.items():
        found = facts[key].value if key in facts else None
        if found != wanted or isinstance(found, bool) != isinstance(wanted, bool):
            made.append(Reason("host is not as its profile demands", judged.short(found), judged.short(wanted), key))
    return tuple(made)


def caches(folder: Path) -> Fact:
    """The compile caches: files, bytes, and a digest of names and sizes; contents hold paths and times and never repeat."""
    found = {}
    for place, _, names in os.walk(folder):
        if Path(place).name != "work":
            for name in names:
                path = Path(place, name)
                try:
                    found[path.relative_to(folder).as_posix()] = path.lstat().st_size
                except OSError:  # a file that was only there for a moment
                    continue
    value = {"files": len(found), "bytes": sum(found.values()), "sha256": digest(found)}
    return Fact(value, "informative", "the session's cache folder", "caches")
