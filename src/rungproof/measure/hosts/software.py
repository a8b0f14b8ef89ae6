"""Distribution, Python packages and libraries of a server, as its own process sees them; nothing is run or imported."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rungproof.measure.hosts.tree import Facts, Tree
from rungproof.records import secrecy
from rungproof.records.codec import digest
from rungproof.records.environment import Fact

SHOWN = re.compile(
    r"(VLLM|OMP|KMP|GOMP|MKL|CUDA|NVIDIA|NCCL|CCL|ZE|ONEAPI|SYCL|UR|TORCH|PYTORCH|TRITON|GLOO|MALLOC|SGLANG|GGML|LLAMA|HIP|ROCR|HSA)_\w+"
    r"|HF_HUB_OFFLINE|DO_NOT_TRACK|LANG|LC_\w+|PYTHONHASHSEED"
)
LIBRARIES = re.compile(
    r"lib(cudart|cuda|nccl|cublas|ze_loader|ze_intel_gpu|sycl|ccl|mkl_core|dnnl|gomp|iomp5|omp|tcmalloc\w*|jemalloc|amdhip64|rccl|vulkan|ggml\w*|llama|c)"
    r"(-[0-9a-f]{6,})?\.so[.\d]*"
)
DISTRIBUTION = re.compile(
    r"(libc6|libgomp1|libstdc\+\+6|numactl|linux-image-.*|intel-(opencl-icd|level-zero-gpu|i915-dkms|gsc|ocloc).*|libze\d*|level-zero.*|xpu-smi"
    r"|libigc\d.*|nvidia-(driver|dkms|kernel|utils)-?.*|libnvidia-compute.*|cuda-(runtime|toolkit).*|rocm-core|amdgpu-dkms|hip-runtime.*|docker(-ce|\.io)?|podman|runc|crun)"
)
TORCH = {"torch_git": "git_version", "torch_cuda": "cuda", "torch_hip": "hip", "torch_xpu": "xpu"}


def read(
    tree: Tree, variables: Mapping[str, str] | None, packages: Iterable[Path], maps: str | None
) -> dict[str, Fact]:
    """Facts of the software. variables: of the server's process, None where it shows none; packages: folders of its Python
    packages; maps: text of its /proc/<pid>/maps."""
    facts = Facts.by("software")
    _distribution(facts, tree)
    _python(facts, list(packages))
    found = set(re.findall(r"/([^/\s]+\.so[.\d]*)$", maps or "", re.MULTILINE))
    libraries = sorted(name for name in found if LIBRARIES.fullmatch(name))
    facts.add("libraries", libraries if maps else None, "/proc/<pid>/maps")
    names = sorted(variables or {})
    facts.add("variable_names", names if variables is not None else None, "/proc/<pid>/environ")
    facts.add("variables", shown(variables) if variables is not None else None, "/proc/<pid>/environ")
    return facts.made


def shown(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables whose values may be published: named by the allow list, no secret by name or by value, no path."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if SHOWN.fullmatch(name)
        and not secrecy.NAME.search(name)
        and not secrecy.VALUE.search(value)
        and "/" not in value
        and "\\" not in value
    }


def record_hashes(folders: Iterable[Path]) -> dict[str, str]:
    """Installed distribution -> "version sha256:..." of its RECORD, the list of its files with their hashes."""
    made: dict[str, str] = {}
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            if match := re.fullmatch(r"(.+)-([^-]+)\.dist-info", info.name):
                name = re.sub(r"[-_.]+", "-", match[1]).lower()
                made.setdefault(name, f"{match[2]} {_record(info / 'RECORD')}")
    return made


def _record(path: Path) -> str:
    """Digest of a RECORD, its lines on compiled files left out: those have no hash, and come and go with use."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return "no RECORD"
    kept = sorted(line for line in lines if b"__pycache__/" not in line and not line.startswith(b"../"))
    return "sha256:" + hashlib.sha256(b"\n".join(kept)).hexdigest()


def _python(facts: Facts, folders: list[Path]) -> None:
    hashes = record_hashes(folders)
    facts.add("python_packages", hashes or None, "*.dist-info/RECORD")
    for key in ("torch", "intel-extension-for-pytorch", "triton", "vllm"):
        if found := hashes.get(key):
            facts.add(key.replace("-", "_"), found.partition(" ")[0], f"{key}-*.dist-info")
    for key, name in TORCH.items():
        if value := _assigned(folders, "torch/version.py", name):
            facts.add(key, value, f"torch/version.py: {name}")
    for name in ("commit_id", "__commit_id__"):
        if value := _assigned(folders, "vllm/_version.py", name):
            facts.add("vllm_commit", value, f"vllm/_version.py: {name}")


def _assigned(folders: list[Path], name: str, variable: str) -> str | None:
    """A text assigned to a name in a Python file, which is read and never run."""
    for folder in folders:
        text = Tree(folder).text(name) or ""
        if match := re.search(
            rf"^(?:\w+ = )*{variable}(?::[^=\n]+)?(?: = \w+)* = ['\"]([^'\"\n]{{1,80}})['\"]", text, re.MULTILINE
        ):
            return match[1]
    return None


def _distribution(facts: Facts, tree: Tree) -> None:
    named = dict(line.split("=", 1) for line in (tree.text("/etc/os-release") or "").splitlines() if "=" in line)
    facts.add(
        "distribution", (named.get("PRETTY_NAME") or named.get("ID") or "").strip("\"'") or None, "/etc/os-release"
    )
    for source, packages in (("/var/lib/dpkg/status", _dpkg), ("/lib/apk/db/installed", _apk)):
        text = tree.text(source)
        if text is not None:
            found = packages(text)
            summary: dict[str, Any] = {"count": len(found), "sha256": digest(found)}
            facts.add("distribution_packages", summary, source)
            facts.add(
                "distribution_packages_named",
                {k: v for k, v in sorted(found.items()) if DISTRIBUTION.fullmatch(k)},
                source,
            )
            return
    facts.add("distribution_packages", None, "/var/lib/dpkg/status")


def _dpkg(text: str) -> dict[str, str]:
    made = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(" "))
        if fields.get("Status", "").endswith(" installed") and fields.get("Package"):
            made[fields["Package"]] = fields.get("Version", "")
    return made


def _apk(text: str) -> dict[str, str]:
    made = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(":", 1) for line in block.splitlines() if line[1:2] == ":")
        if fields.get("P"):
            made[fields["P"]] = fields.get("V", "")
    return made
