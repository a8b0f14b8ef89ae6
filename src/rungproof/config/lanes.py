"""How a server is launched: lanes, their containers, and what they demand of the server's log. Docs as in `sections`."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, StringConstraints, field_validator, model_validator

from rungproof.config.base import NAME, Section

Name = Annotated[str, StringConstraints(pattern=NAME)]
Argument = bool | int | float | str | dict[str, Any] | list[Any]


class ContainerEngine(Section):
    """How containers are run on a host."""

    command: list[str] = Field(min_length=1, description="The engine's command: [docker], [podman], [sudo, docker].")
    arguments: list[str] = Field(default=[], description="What each run needs here, such as [--runtime, runc].")


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


IMAGE = r"^([a-z0-9][a-z0-9._/:-]*@)?sha256:[0-9a-f]{64}$"


class Image(Section):
    """The container of a lane."""

    image: str = Field(
        json_schema_extra={"pattern": IMAGE},
        description="Image by digest: NAME@sha256:..., or the id of a local one, sha256:...; a tag can move.",
    )
    python: str = Field("python3", min_length=1, description="Interpreter of the server inside the image.")
    devices: list[str] = Field(default=[], description="Devices handed in: /dev/dri, or by CDI nvidia.com/gpu=0.")
    memory: str | None = Field(None, pattern=r"^\d+[kmg]$", description="Limit of memory, such as 16g; none: no limit.")
    shm_size: str | None = Field(
        None, pattern=r"^\d+[kmg]$", description="Shared memory, such as 8g; none: the engine's own."
    )

    @field_validator("image")
    @classmethod
    def _by_digest(cls, value: str) -> str:
        if not re.fullmatch(IMAGE, value):
            raise ValueError(
                "an image is named by its digest, since a tag can move. Pull or build it by hand, then write what "
                "`docker image inspect --format '{{index .RepoDigests 0}}' NAME` prints (NAME@sha256:...), or for an image built here "
                "`... --format '{{.Id}}'` (sha256:..., which podman leaves away: write it before the id)"
            )
        return value


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
        description="Lock envs/NAME.lock, or list envs/NAME.packages, of what serves (process) and makes models and prompts."
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
