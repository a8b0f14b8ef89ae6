"""The configuration that a plan was resolved from, carried in the pack so that another machine can resolve it again."""

from pathlib import Path

from rungproof.config.load import files_of, load
from rungproof.plan.builds import RECIPES
from rungproof.plan.machine import flags_of_study, processor_flags
from rungproof.plan.resolve import resolve
from rungproof.publish.words import call_of
from rungproof.records.codec import canonical
from rungproof.records.errors import EvidenceError
from rungproof.records.plan import Plan

HOME = "plan/inputs"


def inputs(root: Path, study: Path, plan: Plan) -> dict[str, bytes]:
    """Path in the pack -> bytes of every file of the checkout `root` that the plan follows from, recipes of models included.

    Raises EvidenceError where these files give another plan today, ConfigError where they give none.
    """
    loaded = load(root, plan.campaign, plan.host)
    again = resolve(loaded, flags_of_study(study, processor_flags(), loaded.needs))
    if canonical(again) != canonical(plan):
        raise EvidenceError(
            f"{study}/plan.json: the files under {root / 'config'} and {root / 'envs'} give another plan now. Bring them back, or "
            f"run the campaign's own target first: {call_of(study.name)}"
        )
    made = {f"{HOME}/{path.as_posix()}": (root / path).read_bytes() for path in files_of(loaded)}
    if not plan.simulated:
        for model in loaded.models.values():
            if model.recipe:
                made[f"{HOME}/recipes/{model.recipe}.py"] = (RECIPES / f"{model.recipe}.py").read_bytes()
    return made
