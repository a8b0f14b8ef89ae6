"""What an oracle is bound to: every part by its name, census lines where both servers have them."""

from dataclasses import replace

from judge.plan_kit import session
from rungproof.judge.binding import differing, identity_of, identity_parts
from rungproof.records.formats import Knob

SERVER = session("r001.base.a").server


def test_image_parallelism_and_model_are_parts() -> None:
    """A change of any of them changes its own part and the digest over all; a draft's own arguments change neither."""
    launch = {"engine": "vllm", "image": "sha256:1", "arguments": {"tensor-parallel-size": 1, "speculative-config": {}}}
    server = replace(SERVER, launch=launch, identity={"model": {"files": {"a": "1"}}, "packages": {"vllm": "1"}})
    same = replace(server, launch={**launch, "arguments": {"tensor-parallel-size": 1}})
    assert differing(identity_parts(server), identity_parts(same)) == []
    assert identity_of(server) == identity_of(same)
    changed = {
        "image": replace(server, launch={**launch, "image": "sha256:2"}),
        "parallelism": replace(server, launch={**launch, "arguments": {"tensor-parallel-size": 2}}),
        "model": replace(server, identity={**server.identity, "model": {"files": {"a": "2"}}}),
        "packages": replace(server, identity={**server.identity, "packages": {"vllm": "2"}}),
        "processor": replace(server, environment={"cpu_model": "another"}),
    }
    for name, other in changed.items():
        assert differing(identity_parts(server), identity_parts(other)) == [name]
        assert identity_of(server) != identity_of(other)


def test_a_census_line_counts_where_both_have_it() -> None:
    """Another kernel in the census makes an oracle stale; a line that only one arm demands does not."""

    def saying(found: str) -> Knob:
        return Knob("census kernel", "/Using (.*)/", found, "log: census", True)

    one, two = (
        identity_parts(replace(SERVER, knobs=(*SERVER.knobs, saying(word)))) for word in ("CPUWNA16", "fallback")
    )
    assert differing(one, two) == ["census kernel"]
    assert differing(one, identity_parts(SERVER)) == []
    assert identity_of(replace(SERVER, knobs=(saying("CPUWNA16"),))) == identity_of(SERVER)
