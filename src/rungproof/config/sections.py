"""The sections of config/: host, model, lane, suite and campaign. docs for each key: `description`, shown in config/README.md."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, StringConstraints, model_validator

from rungproof.config.base import NAME, Section
from rungproof.config.workloads import Probe, Rungs, Short

Name = Annotated[str, StringConstraints(pattern=NAME)]
Argument = bool | int | float | str | dict[str, Any] | list[Any]


class Run(Section):
    """config/config.yaml and --config: what one call does."""

    results: str = Field("results", min_length=1, description="Folder that runs write to.")
    build: str = Field("build", min_length=1, description="Folder for environments and models, shared by all runs.")
    host: str = Field("", description="Host profile to use instead of the campaign's own; empty: the campaign's own.")
    remeasure: str = Field(
        "", description="Items to measure again on purpose: ARM[.REPLICATE]/WORKLOAD/ITEM, comma separated."
    )


class Costs(Section):
    """Rough costs on a host, for the estimate before a run; never used in a result."""

    server_s: PositiveFloat = Field(description="From launch to ready, and to stop [s].")
    token_s: PositiveFloat = Field(description="One generated token of a single request [s].")
    prefill_1k_s: PositiveFloat = Field(
        description="Prefill of the first 1,000 prompt tokens [s]; around 8,000 a thousand is taken to cost twice that."
    )
    slower_without: dict[str, PositiveFloat] = Field(
        default={}, description="Processor flag: how many times longer all of it takes where it is lacking."
    )
    memory_gb: PositiveFloat | None = Field(
        default=None, description="Memory that a server takes at most [GB]; none: not looked at before a run."
    )
    setup_s: PositiveFloat = Field(description="Making environment and models from nothing [s].")
    setup_gb: PositiveFloat = Field(description="Disk that environment and models take [GB].")


class ContainerEngine(Section):
    """How containers are run on a host."""

    command: list[str] = Field(min_length=1, description="The engine's command: [docker], [podman], [sudo, docker].")
    arguments: list[str] = Field(default=[], description="What each run needs here, such as [--runtime, runc].")


class Host(Section):
    """config/hosts/NAME.yaml: what is particular to one class of machine."""

    title: str = Field(min_length=1, description="What the machine is, in words, for the page.")
    engine: Literal["simulated"] | None = Field(
        None, description="simulated: replaces the engine of every lane by the simulated server."
    )
    canary: Name | None = Field(
        None,
        description="Suite of canary checks used here instead of any other; none: the lane's or the campaign's own.",
    )
    costs: Costs = Field(description="Rough costs for the estimate.")
    lock: Name = Field(description="Name of the host lock: two servers that share a device share a lock.")
    ready_deadline_s: PositiveFloat = Field(description="Longest wait for a server to be ready [s].")
    stop_grace_s: PositiveFloat = Field(description="Wait after SIGTERM before SIGKILL [s].")
    request_deadline_s: PositiveFloat = Field(description="Longest time for one batch of requests [s].")
    cell_deadline_s: PositiveFloat = Field(7200, description="Longest time for all batches of one item [s].")
    idle_s: PositiveFloat = Field(description="A stream without a byte for so long is a timeout [s].")
    fault_lines: list[str] = Field(
        default=[], description="Regular expressions of lines of the server's log that end the session at once."
    )
    kernel_fault_lines: list[str] = Field(
        default=[],
        description="The same for the kernel's log, such as a reset of the device; reading it may need root.",
    )
    devices: list[Annotated[str, StringConstraints(pattern=r"^gpu\d+$")]] = Field(
        default=[],
        description="Accelerators that servers use here (gpu0, gpu1 by PCI address): sampled, and free before a start.",
    )
    holders: list[str] = Field(
        default=[], description="Names of processes that may hold these devices all the same, such as a display server."
    )
    container: ContainerEngine | None = Field(
        None, description="How containers are run here; none: lanes with the launcher container cannot be."
    )
    expect: dict[str, str | bool | int | float] = Field(
        default={},
        description="Facts of env.json that must read so on this host, such as a power limit; else nothing is measured.",
    )
    arguments: dict[Name, dict[str, Argument]] = Field(
        default={}, description="Arguments added to a lane on this host: LANE: {argument: value}."
    )
    workloads: dict[Name, dict[str, Any]] = Field(
        default={}, description="Keys of a campaign's workload that this host replaces: WORKLOAD: {key: value}."
    )


class Model(Section):
    """config/models/NAME.yaml: a model as a recipe that makes its files."""

    title: str = Field(min_length=1, description="Name for people.")
    recipe: Literal["smollm2_dequantise", "tiny_llama", "w4a16"] = Field(
        description="Script of measure/models/recipes that makes the checkpoint."
    )
    source: Name | None = Field(
        None, description="Model that the recipe starts from; none: it starts from its lock file."
    )
    lock: str | None = Field(None, description="Lock file under envs/ with the hashes of what is downloaded.")
    licence: str = Field(min_length=1, description="Licence of the weights (SPDX).")
    quantisation: str = Field(min_length=1, description="Format of the weights, in words.")


class Census(Section):
    """A demand on the server's own log: a line that must, or must not, stand in it."""

    appears: str | None = Field(
        None,
        min_length=1,
        description="Regular expression of a line that must appear; what its group captures is recorded.",
    )
    absent: str | None = Field(
        None, min_length=1, description="Regular expression of a line that must not appear, from start to end."
    )
    value: str | None = Field(
        None, description="What the group of `appears` must capture, on every line that matches; none: anything."
    )

    @model_validator(mode="after")
    def _one_demand(self) -> "Census":
        if (self.appears is None) == (self.absent is None):
            raise ValueError("write either `appears` or `absent`, not both or neither")
        try:
            groups = re.compile(self.appears or self.absent or "").groups
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        if groups > 1 or (self.value is not None and (self.absent is not None or groups != 1)):
            raise ValueError(
                "a pattern has at most one group, and `value` needs `appears` with exactly one: the value captured"
            )
        return self


class Image(Section):
    """The container of a lane."""

    image: str = Field(
        pattern=r"^([a-z0-9][a-z0-9._/:-]*@)?sha256:[0-9a-f]{64}$",
        description="Image by digest: NAME@sha256:..., or the id of a local one, sha256:...; a tag can move.",
    )
    python: str = Field("python3", min_length=1, description="Interpreter of the server inside the image.")
    devices: list[str] = Field(default=[], description="Devices handed in: /dev/dri, or by CDI nvidia.com/gpu=0.")
    memory: str | None = Field(None, pattern=r"^\d+[kmg]$", description="Limit of memory, such as 16g; none: no limit.")
    shm_size: str | None = Field(
        None, pattern=r"^\d+[kmg]$", description="Shared memory, such as 8g; none: the engine's own."
    )


# What a lane must say so that no prompt is answered from a cache.
UNCACHED: dict[str, tuple[str, bool]] = {
    "vllm": ("enable-prefix-caching", False), "sglang": ("disable-radix-cache", True), "llama.cpp": ("cache-prompt", False),
}  # fmt: skip


class Lane(Section):
    """config/lanes/NAME.yaml: model, quantisation, engine and how the server is launched."""

    title: str = Field(min_length=1, description="Name for people.")
    model: Name = Field(description="File under config/models/.")
    engine: Literal["vllm", "sglang", "llama.cpp", "command"] = Field(
        description="How arguments are written and which log lines mean what; command: any server, see `command`."
    )
    launcher: Literal["process", "container"] = Field(
        "process", description="process: a virtual environment on this machine; container: an image, see `container`."
    )
    environment: Name = Field(
        description="Lock file envs/NAME.lock of the environment that serves (process) and in which models and prompts are made."
    )
    container: Image | None = Field(
        None, description="The image and what it is given; for the launcher container alone."
    )
    command: list[str] = Field(
        default=[], description="For the engine command: its words; {python}, {model}, {name} and {port} are filled in."
    )
    program: str | None = Field(
        None, min_length=1, description="For llama.cpp: the server's program; none: llama-server."
    )
    needs: list[str] = Field(
        default=[], description="Processor flags (/proc/cpuinfo) without which the engine cannot serve this lane."
    )
    arguments: dict[str, Argument] = Field(
        default={}, description="Server arguments: true writes --key, false --no-key, a mapping is written as JSON."
    )
    variables: dict[str, str] = Field(default={}, description="Environment variables of the server.")
    census: dict[Name, Census] = Field(
        default={}, description="Lines that the server's own log must, or must not, hold; else the session is invalid."
    )
    canary: Name | None = Field(
        None, description="Suite of canary checks for a model that cannot pass the campaign's; none: the campaign's."
    )
    relative_cost: PositiveFloat = Field(
        1.0, description="Time of a token and of prefill, in those of the host's costs; for the estimate alone."
    )
    note: str = Field(
        "", description="What a reader of this lane's numbers must know, one or two sentences, for the page."
    )

    @model_validator(mode="after")
    def _prefix_caching_named(self) -> "Lane":
        key, wanted = UNCACHED.get(self.engine, ("", False))
        if key and self.arguments.get(key) is not wanted:
            raise ValueError(
                f"a lane turns prefix caching off by name: write `{key}: {str(wanted).lower()}` under arguments"
            )
        return self

    @model_validator(mode="after")
    def _keys_fit(self) -> "Lane":
        if (self.launcher == "container") != (self.container is not None):
            raise ValueError("`container` (the image) goes with `launcher: container`, and only with it")
        if (self.engine == "command") != bool(self.command):
            raise ValueError("`command` (the words) goes with `engine: command`, and only with it")
        lacking = [
            place for place in ("{name}", "{port}") if self.command and not any(place in w for w in self.command)
        ]
        if lacking:
            raise ValueError(f"command: {' and '.join(lacking)} must stand in it, since both are new for each server")
        if self.program is not None and self.engine != "llama.cpp":
            raise ValueError("`program` is for the engine llama.cpp alone")
        return self


class Speculation(Section):
    """Speculative decoding of an arm."""

    method: Literal["ngram"] = Field(description="How drafts are made.")
    depth: PositiveInt = Field(description="Draft depth: tokens proposed a step.")
    prompt_lookup_max: PositiveInt = Field(description="Longest n-gram looked up.")
    prompt_lookup_min: PositiveInt = Field(description="Shortest n-gram looked up.")


class Arm(Section):
    """One lane with one configuration inside a campaign."""

    title: str = Field(min_length=1, description="Name for people, used in legends.")
    lane: Name = Field(description="File under config/lanes/.")
    oracle: Name | None = Field(
        None, description="Arm whose tokens this one must equal; none: this arm is the base of its lane."
    )
    instead_of: Name | None = Field(
        None, description="Planned only on a machine whose processor cannot serve that arm's lane; none: always."
    )
    speculation: Speculation | None = Field(None, description="Speculative decoding; none: without.")
    arguments: dict[str, Argument] = Field(default={}, description="Server arguments that differ from the lane's.")
    variables: dict[str, str] = Field(default={}, description="Environment variables that differ from the lane's.")
    census: dict[Name, Census] = Field(default={}, description="Census lines besides, or instead of, the lane's.")


class Strict(Section):
    """A fixed suite of prompts, one at a time, natural end allowed."""

    kind: Literal["strict"]
    suite: Name = Field(description="File under config/suites/.")
    cap: PositiveInt = Field(description="Most tokens an answer may have.")
    window: int = Field(100, ge=2, description="Tokens of the decode-rate window; window - 1 intervals.")
    spread_limit: PositiveFloat | None = Field(
        None,
        description="Largest difference of two fresh servers' headlines over their mean; past it the next call measures a third. None: no limit.",
    )

    @model_validator(mode="after")
    def _window_fits(self) -> "Strict":
        if self.window > self.cap:
            raise ValueError("the window is longer than the cap: no rate could be had")
        return self


class Depth(Section):
    """Exactly D prompt token ids of each of the suite's texts."""

    kind: Literal["depth"]
    suite: Name = Field(description="File under config/suites/ of kind long.")
    depths: list[PositiveInt] = Field(min_length=1, description="Prompt lengths [tokens], ascending.")
    tokens: PositiveInt = Field(128, description="Tokens generated at each depth.")
    window: int = Field(100, ge=2, description="Tokens of the decode-rate window; window - 1 intervals.")

    @model_validator(mode="after")
    def _ascending(self) -> "Depth":
        if sorted(set(self.depths)) != self.depths:
            raise ValueError("depths must ascend without repeats")
        if self.window > self.tokens:
            raise ValueError("the window is longer than the answer: no rate could be had")
        return self


class Ladder(Section):
    """Concurrency rungs: an oracle pass one at a time, then passes of c requests at once."""

    kind: Literal["ladder"]
    suite: Name = Field(description="File under config/suites/ of kind ladder.")
    rungs: Rungs = Field(
        min_length=1, description="Concurrency levels, ascending: a list, or `first`, `last` and `step` of dense ones."
    )
    passes: int = Field(ge=1, le=20, description="How many times each rung is run on a server.")
    tokens: PositiveInt = Field(128, description="Tokens of each answer (ignore_eos).")
    window: int = Field(100, ge=2, description="Tokens of the decode-rate window.")
    exact: Literal["every-pass", "pooled"] | Annotated[list[PositiveInt], Field(min_length=1)] = Field(
        "every-pass",
        description="Which passes must be identical for the rung to qualify: each, all outputs pooled, or those named, counted from 1.",
    )
    stagger_ms: float = Field(
        0.0, ge=0, description="Time between the sending of one request and the next [ms]; 0: all at once."
    )
    copies: PositiveInt = Field(1, description="How many byte-identical requests each prompt of a pass is sent as.")
    shown: Literal["last", "first", "pooled", "median"] | PositiveInt = Field(
        "last", description="Which pass's value is shown, or which statistic of all passes; fixed before the run."
    )
    min_distinct: PositiveInt = Field(
        16, description="Fewest distinct token ids of an oracle answer; below it the prompt is degenerate and refused."
    )

    @model_validator(mode="after")
    def _ascending(self) -> "Ladder":
        if sorted(set(self.rungs)) != self.rungs:
            raise ValueError("rungs must ascend without repeats")
        if off := [c for c in self.rungs if c % self.copies]:
            raise ValueError(f"rung {off[0]} is no multiple of the {self.copies} copies of each prompt")
        named = [
            *(self.exact if isinstance(self.exact, list) else []),
            *([self.shown] if isinstance(self.shown, int) else []),
        ]
        if named and max(named) > self.passes:
            raise ValueError(f"exact or shown names pass {max(named)}; there are {self.passes}")
        return self


Workload = Annotated[Strict | Depth | Ladder | Short | Probe, Field(discriminator="kind")]


class Session(Section):
    """One fresh server and what is measured on it, in order."""

    arm: Name = Field(description="Arm that the server runs.")
    replicate: Annotated[str, StringConstraints(pattern=r"^[a-z]$")] = Field(
        description="Which fresh server of the arm: a, b, c ..."
    )
    workloads: list[Name] = Field(min_length=1, description="Workloads measured on it, in order.")


class Campaign(Section):
    """config/campaigns/NAME.yaml."""

    title: str = Field(min_length=1, description="Title of the page.")
    purpose: str = Field(min_length=1, description="What the campaign is meant to find out, one or two sentences.")
    host: Name = Field(description="File under config/hosts/ used unless --config host=... names another.")
    canary: Name = Field(description="Suite of canary checks under config/suites/, where the lane names no other.")
    seed: int = Field(42, description="Seed sent with every request.")
    arms: dict[Name, Arm] = Field(min_length=1, description="Arms by name.")
    workloads: dict[Name, Workload] = Field(min_length=1, description="Workloads by name.")
    sessions: list[Session] = Field(min_length=1, description="Fresh servers in the order in which they run.")

    @model_validator(mode="after")
    def _names_hold(self) -> "Campaign":
        problems = []
        seats = [(s.arm, s.replicate) for s in self.sessions]
        for session in self.sessions:
            if session.arm not in self.arms:
                problems.append(f"sessions name arm {session.arm!r}; arms are {', '.join(self.arms)}")
            problems += [
                f"sessions name workload {w!r}; workloads are {', '.join(self.workloads)}"
                for w in session.workloads
                if w not in self.workloads
            ]
            if len(set(session.workloads)) != len(session.workloads):
                problems.append(f"session {session.arm}.{session.replicate} names a workload twice")
        for arm_name in dict.fromkeys(s.arm for s in self.sessions):
            first, *later = [s for s in self.sessions if s.arm == arm_name]
            problems += [
                f"session {s.arm}.{s.replicate} measures {w!r}, which the arm's first session {first.replicate} does not: "
                "it would have nothing to repeat"
                for s in later
                for w in s.workloads
                if w not in first.workloads
            ]
        problems += self._short_problems()
        problems += [
            f"session {arm}.{rep} is planned twice" for arm, rep in sorted(set(seats)) if seats.count((arm, rep)) > 1
        ]
        for name, arm in self.arms.items():
            problems += self._arm_problems(name, arm, [s.arm for s in self.sessions])
        if problems:
            raise ValueError("; ".join(dict.fromkeys(problems)))
        return self

    def _short_problems(self) -> list[str]:
        """A sweep of short prompts that leaves out a length at which a draft of that depth is special."""
        found = []
        for session in self.sessions:
            arm = self.arms.get(session.arm)
            for name in session.workloads:
                work = self.workloads.get(name)
                if not isinstance(work, Short) or arm is None or arm.speculation is None:
                    continue
                depth = arm.speculation.depth
                found += [
                    f"workload {name!r} lacks length {n}; arm {session.arm!r} drafts {depth}, so it needs 1 to {depth + 2}"
                    for n in range(1, depth + 3)
                    if n not in work.lengths
                ][:1]
        return found

    def _arm_problems(self, name: str, arm: Arm, order: list[str]) -> list[str]:
        if name not in order:
            return [f"arm {name!r} has no session"]
        if arm.instead_of is not None and (arm.instead_of not in self.arms or self.arms[arm.instead_of].instead_of):
            return [
                f"arm {name!r} stands in for {arm.instead_of!r}; expected an arm that stands for itself: {', '.join(self.arms)}"
            ]
        if arm.oracle is None:
            return (
                [f"arm {name!r} speculates, so it needs an oracle: name the arm without speculation"]
                if arm.speculation
                else []
            )
        other = self.arms.get(arm.oracle)
        if other is None:
            return [f"arm {name!r} names oracle {arm.oracle!r}; arms are {', '.join(self.arms)}"]
        found = []
        if other.lane != arm.lane:
            found.append(
                f"arm {name!r} and its oracle {arm.oracle!r} are of different lanes ({arm.lane}, {other.lane}); an oracle is of the same lane"
            )
        if other.speculation or other.oracle:
            found.append(f"oracle {arm.oracle!r} of arm {name!r} must be a base arm without speculation")
        if arm.oracle in order and order.index(arm.oracle) > order.index(name):
            found.append(f"the first session of oracle {arm.oracle!r} must come before those of arm {name!r}")
        return found
