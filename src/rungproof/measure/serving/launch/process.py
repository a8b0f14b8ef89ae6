"""A server as a process of this machine: its own session, a clean environment, and an end with its supervisor."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
PASSED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "ZE_", "ONEAPI_", "SYCL_", "UR_")
CACHES = ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME")

_LIBC = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def end_with_parent() -> None:
    """In a child before its program starts: it gets SIGTERM when the thread that forked it is gone. Raises OSError."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def become_subreaper() -> None:
    """Orphans among our descendants become our children instead of those of pid 1. Raises OSError."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def environment(
    current: Mapping[str, str], asked: Mapping[str, str], boot: str, cache: Path, also: Iterable[str] = ()
) -> dict[str, str]:
    """The server's variables: an allow list of `current` (and the names in `also`), those asked for, then ours."""
    names = {*PASSED, *also}
    made = {key: value for key, value in current.items() if key in names or key.startswith(PASSED_PREFIXES)}
    made.update(asked)
    made.update({name: str(cache / name.lower()) for name in CACHES})
    made["RUNGPROOF_BOOT"] = boot
    made["HF_HUB_OFFLINE"] = "1"
    return made


def make_caches(cache: Path) -> Path:
    """New, empty cache folders; returns the server's working directory, empty too."""
    for name in CACHES:
        (cache / name.lower()).mkdir(parents=True)
    (cache / "work").mkdir()
    return cache / "work"


def spawn(argv: list[str], variables: Mapping[str, str], folder: Path, log: Path) -> "subprocess.Popen[bytes]":
    """Start the server in a session of its own; it gets SIGTERM when this process dies. Raises OSError.

    Must be called from the main thread: the kernel ties the parent-death signal to the thread that forked.
    """
    parent = os.getpid()

    def in_child() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        end_with_parent()
        # A parent that died before the line above sent no signal.
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(variables),
            start_new_session=True,
            preexec_fn=in_child,  # safe: no thread has been started yet
        )
