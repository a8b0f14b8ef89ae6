"""The site over all published packs: plain files under `reports/`, a pure function of the packs and the log."""

from rungproof.publish.site.building import Site, build_site

__all__ = ["Site", "build_site"]
