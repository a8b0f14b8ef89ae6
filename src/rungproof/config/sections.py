"""The sections of config/: host, model, lane, suite and campaign. docs for each key: `description`, shown in config/README.md."""

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, StringConstraints, model_validator

from rungproof.config.base import Section
from rungproof.config.lanes import Argument, Census, ContainerEngine, Name
from rungproof.config.workloads import Probe, Rungs, Short


class Run(Section):
    """config/config.yaml and --config: what one call does."""

    results: str = Field("results", min_length=1, description="Folder that runs write to.")
    build: str = Field("build", min_length=1, description="Folder for environments and models, shared by all runs.")
    host: str = Field("", description="Host profile to use instead of the campaign's own; empty: the campaign's own.")
    remeasure: str = Field(
        "", description="Items to measure again on purpose: ARM[.REPLICATE]/WORKLOAD/ITEM, comma separated."
    )
    lacks: str = Field(
        "",
        description="Processor flags to plan without, comma separated, as on a processor that lacks them; a replay sets it.",
    )
    pack: str = Field("", description="Folder of the pack that `replay` measures again.")
    reports: str = Field("reports", min_length=1, description="Folder that `publish` writes packs to.")
    campaign: str = Field("campaign_v2", min_length=1, description="Campaign that `publish` makes a pack of.")
    sign: Literal["yes", "no"] = Field("yes", description="Whether a pack is signed; no: it says that it is unsigned.")
    key: str = Field("", description="Key that signs; empty: RUNGPROOF_KEY, else the user's own, made on first use.")
    reason: str = Field("", description="Why an earlier pack of the campaign is superseded.")


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


class Peak(Section):
    """What a host can do at most: no honest rate lies above it."""

    flops: PositiveFloat = Field(
        description="Most operations (a multiply and an add are two) of all devices together [1/s]."
    )
    bytes_s: PositiveFloat | None = Field(
        None, description="Most bytes that all devices together read from memory [1/s]."
    )
    cache_bytes: PositiveFloat | None = Field(
        None, description="Caches of all devices together [bytes]: weights that fit are not read from memory each step."
    )
    source: str = Field(min_length=1, description="Where these figures come from: a data sheet, with its name.")


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
    peak: Peak | None = Field(
        None,
        description="Physical ceiling that `rungproof verify` holds rates against; none: what no machine with its x86-64 processors passes.",
    )
    arguments: dict[Name, dict[str, Argument]] = Field(
        default={}, description="Arguments added to a lane on this host: LANE: {argument: value}."
    )
    workloads: dict[Name, dict[str, Any]] = Field(
        default={}, description="Keys of a campaign's workload that this host replaces: WORKLOAD: {key: value}."
    )


class Model(Section):
    """config/models/NAME.yaml: a model as a recipe that makes its files, or as the hashes of files that lie on the machine."""

    title: str = Field(min_length=1, description="Name for people.")
    recipe: Literal["smollm2_dequantise", "smollm2_gguf", "tiny_llama", "w4a16"] | None = Field(
        None, description="Script of measure/models/recipes that makes the checkpoint; none: see `files`."
    )
    files: Annotated[str, StringConstraints(pattern=r"^config/models/[A-Za-z0-9._-]+$")] | None = Field(
        None, description="List of the sha256 of each file of a folder of your own; `rungproof model add` writes it."
    )
    upstream: str = Field("", description="Where such files can be had: an address, a repository with its revision.")
    source: Name | None = Field(
        None, description="Model that the recipe starts from; none: it starts from its lock file."
    )
    lock: str | None = Field(None, description="Lock file under envs/ with the hashes of what is downloaded.")
    licence: str = Field(min_length=1, description="Licence of the weights (SPDX).")
    quantisation: str = Field(min_length=1, description="Format of the weights, in words.")

    @model_validator(mode="after")
    def _made_or_given(self) -> "Model":
        if (self.recipe is None) == (self.files is None):
            raise ValueError("write either `recipe` (how it is made) or `files` (hashes of a folder that lies here)")
        if (self.source is None) == (self.lock is None) and self.recipe is not None:
            raise ValueError("write either `source` (another model) or `lock` (what to download), not both or neither")
        if self.files is not None and (self.source or self.lock):
            raise ValueError("`source` and `lock` go with `recipe`; a model of `files` is used as it is")
        if self.recipe is not None and self.upstream:
            raise ValueError("`upstream` goes with `files`; a recipe says by itself what it starts from")
        return self


class Speculation(Section):
    """Speculative decoding of an arm."""

    method: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")] = Field(
        description="How drafts are made, as vLLM's own configuration line calls it: ngram, mtp, or another without a second model."
    )
    depth: PositiveInt = Field(description="Draft depth: tokens proposed a step.")
    prompt_lookup_max: PositiveInt | None = Field(None, description="Longest n-gram looked up; for ngram.")
    prompt_lookup_min: PositiveInt | None = Field(None, description="Shortest n-gram looked up; for ngram.")
    arguments: dict[str, str | bool | int | float] = Field(
        default={}, description="Further keys of vLLM's speculative-config."
    )

    @model_validator(mode="after")
    def _keys_of_the_method(self) -> "Speculation":
        lookups = (self.prompt_lookup_max, self.prompt_lookup_min)
        if self.method == "ngram" and None in lookups:
            raise ValueError("method ngram needs prompt_lookup_max and prompt_lookup_min")
        if self.prompt_lookup_max and self.prompt_lookup_min and self.prompt_lookup_min > self.prompt_lookup_max:
            raise ValueError("prompt_lookup_min is larger than prompt_lookup_max")
        if self.method != "ngram" and lookups != (None, None):
            raise ValueError(f"prompt_lookup_max and prompt_lookup_min are for ngram, not for {self.method}")
        if "model" in self.arguments:
            raise ValueError(
                "a draft model beside the model cannot be named: its files would not be pinned. Use a method without one"
            )
        if own := sorted(
            {"method", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min"} & set(self.arguments)
        ):
            raise ValueError(
                f"arguments: {own[0]} has a key of its own here: method, depth, prompt_lookup_max, prompt_lookup_min"
            )
        return self

    @property
    def engine_config(self) -> dict[str, str | bool | int | float]:
        """vLLM's speculative-config."""
        lookups = {"prompt_lookup_max": self.prompt_lookup_max, "prompt_lookup_min": self.prompt_lookup_min}
        known = {key: value for key, value in lookups.items() if value is not None}
        return {"method": self.method, "num_speculative_tokens": self.depth, **known, **self.arguments}


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
                lacks = next((n for n in range(1, depth + 3) if n not in work.lengths), None)
                if lacks is not None:
                    found.append(
                        f"workload {name!r} lacks length {lacks}; arm {session.arm!r} drafts {depth}, so it needs 1 to {depth + 2}"
                    )
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
