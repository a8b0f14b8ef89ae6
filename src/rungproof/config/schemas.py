"""JSON schemas generated from the typed sections: `make schemas` writes them, a test holds them equal."""

import json
from pathlib import Path

from pydantic import BaseModel

from rungproof.config import lanes, sections, suites

SCHEMAS: dict[str, type[BaseModel]] = {
    "config": sections.Run,
    "host": sections.Host,
    "model": sections.Model,
    "lane": lanes.Lane,
    "campaign": sections.Campaign,
    "suite-strict": suites.StrictSuite,
    "suite-ladder": suites.LadderSuite,
    "suite-tie": suites.TieSuite,
    "suite-long": suites.LongSuite,
    "suite-canary": suites.CanarySuite,
}


def schema_text(name: str) -> str:
    """One schema as it lies on disk (JSON Schema draft 2020-12)."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMAS[name].model_json_schema()}
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> None:
    """Write every schema to `folder`/NAME.schema.json."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        (folder / f"{name}.schema.json").write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path("workflow/schemas"))
