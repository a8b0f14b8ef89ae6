"""A badge for a README: how far the campaign is proven, how many of its points qualified, and when it was measured."""

from markupsafe import Markup

from rungproof.publish.pages.text import visible
from rungproof.records.standing import Standing
from rungproof.records.summary import Summary

CHAR, PAD = 6.6, 9
COLORS = {
    "Not published": "#545b64",
    "Lab-measured": "#0b5fa5",
    "Recomputed": "#006b52",
    "Replayed": "#006b52",
    "Replicated": "#00553f",
}


def measured_on(summary: Summary) -> str:
    """The day of the newest server, UTC, as its record says; empty before the first."""
    return max((session.at for session in summary.sessions), default="")[:10]


def badge(summary: Summary, standing: Standing) -> bytes:
    """One SVG, 20 high, with its words as title. Nothing else than text and two rectangles, so that it may be embedded anywhere."""
    left = "rungproof"
    state = "simulated, not measured" if summary.simulated else standing.state
    words = [
        standing.ended,
        state,
        f"{summary.tally.get('qualified', 0)}/{len(summary.points)} qualified",
        visible(measured_on(summary)),
    ]
    right = " · ".join(word for word in words if word)
    a, b = (round(len(text) * CHAR + 2 * PAD) for text in (left, right))
    color = "#8a2b06" if summary.simulated or standing.ended else COLORS[standing.state]
    made = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="20" viewBox="0 0 {w} 20" role="img" aria-label="{all}">'
        '<title>{all}</title><rect width="{a}" height="20" fill="#1d2024"/><rect x="{a}" width="{b}" height="20" fill="{color}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        '<text x="{pad}" y="14" textLength="{ta}">{left}</text><text x="{bx}" y="14" textLength="{tb}">{right}</text></g></svg>\n'
    ).format(
        w=a + b, a=a, b=b, color=color, pad=PAD, bx=a + PAD, ta=a - 2 * PAD, tb=b - 2 * PAD, left=left, right=right,
        all=f"{left}: {right}",
    )  # fmt: skip
    return made.encode("utf-8")
