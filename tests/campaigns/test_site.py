"""The site over a pack that the real publisher made."""

import json
from pathlib import Path

from campaigns.checkout import Checkout
from rungproof.publish.pack import build
from rungproof.publish.signing import find_signer
from rungproof.publish.site import build_site


def test_a_published_pack_is_on_the_site_with_its_signer(measured: Checkout, tmp_path: Path) -> None:
    """Signed and simulated: listed apart, never among the claims, with suites and lanes as the pack carries them."""
    signer = find_signer(str(tmp_path / "key.pem"), tmp_path / "checkout", {})[0]
    made = build(measured.study("mini"), tmp_path / "reports", measured.folder, signer)
    site = build_site(tmp_path / "reports")
    assert (site.packs, site.damaged) == (1, 0)
    (told,) = json.loads((tmp_path / "reports/index.json").read_bytes())["packs"]
    assert (told["id"], told["status"], told["standing"], told["signed"]) == (
        made.id,
        "simulated",
        "Lab-measured",
        True,
    )
    assert told["arms"][0]["quantisation"] == "int4 weights in groups of 64"
    assert "Nothing is published yet" in (tmp_path / "reports/index.html").read_text(encoding="utf-8")
    assert "nothing was measured" in (tmp_path / "reports/_site/aside.html").read_text(encoding="utf-8")
    suites = [path.name for path in (tmp_path / "reports/_site").glob("suite-strict-v1-*.html")]
    text = (tmp_path / "reports/_site" / suites[0]).read_text(encoding="utf-8")
    assert "kind: strict" in text and "plan/inputs/config/suites/strict-v1.yaml" in text
