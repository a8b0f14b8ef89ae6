"""`rungproof host show` and `host clear`: who measures on this machine, and what an earlier session left unclean."""

import argparse
import sys
from pathlib import Path

from rungproof.cli.words import clean
from rungproof.config.base import read_section, read_yaml
from rungproof.config.load import read_run
from rungproof.config.sections import Campaign, Host
from rungproof.measure.hosts import nvidia, xpu_smi
from rungproof.measure.hosts.devices import devices
from rungproof.measure.serving import lock, occupied


def add_options(to: argparse.ArgumentParser) -> None:
    """The options of both."""
    to.add_argument(
        "--host", default="", metavar="HOST", help="host profile (default: that of config.yaml, else of campaign_v2)"
    )
    to.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the checkout (default: this folder)")


def show(options: argparse.Namespace) -> int:
    """Print lock, latch and devices; exit code 1 where nothing could be measured now."""
    profile, path = _profile(options)
    held, latched = lock.holder(path), lock.read_latch(path)
    print(clean(f"lock {path}: " + (f"held by {held}" if held else "free")))
    print(clean(lock.latch_words(path, latched)) if latched else "latch: none")
    busy = _devices(profile)
    return 1 if held or latched or busy else 0


def clear(options: argparse.Namespace) -> int:
    """Take the latch away, after looking once more; exit code 1 where the devices are still not free, and the latch stays."""
    profile, path = _profile(options)
    latched = lock.read_latch(path)
    if latched is None:
        print(clean(f"{lock.latch_of(path)}: this host is not latched"))
        return 0
    print(clean(lock.latch_words(path, latched)))
    if _devices(profile):
        print("rungproof: the latch stays: the devices are not free yet. Nothing was touched.", file=sys.stderr)
        return 1
    lock.unlatch(path)
    print("The latch is taken away; the next call measures again.")
    return 0


def _profile(options: argparse.Namespace) -> tuple[Host, Path]:
    folder = options.root / "config"
    name = (
        options.host
        or read_run(read_yaml(folder / "config.yaml")).host
        or read_section(Campaign, folder / "campaigns/campaign_v2.yaml").host
    )
    profile = read_section(Host, folder / "hosts" / f"{name}.yaml")
    return profile, lock.path_of(profile.lock)


def _devices(profile: Host) -> bool:
    """Print what the profile's devices show; True where one of them is lacking or not free."""
    found = devices(nvml=nvidia.library(), xpu=xpu_smi.asker())
    chosen = [device for device in found if device.key in profile.devices]
    reasons = (*occupied.missing(found, profile.devices), *occupied.before(chosen, profile.holders, wait_s=0.0))
    for reason in reasons:
        print(clean(reason))
    if chosen and not reasons:
        print(clean(f"devices {', '.join(device.key for device in chosen)}: free"))
    return bool(reasons)
