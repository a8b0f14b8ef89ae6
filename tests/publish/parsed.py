"""A page taken apart by the standard HTML parser, which knows nothing of our templates."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br"}


@dataclass
class Element:
    """One element: its attributes as a browser reads them, its own text and that of its children."""

    tag: str
    attributes: dict[str, str]
    parents: tuple["Element", ...] = field(repr=False)
    text: str = field(default="", repr=False)

    def inside(self, tag: str) -> "Element | None":
        """The nearest parent of that name."""
        return next((parent for parent in reversed(self.parents) if parent.tag == tag), None)


@dataclass
class Page(HTMLParser):
    """All elements in order. An end tag that closes nothing open, or a repeated attribute, is kept as a fault."""

    html: str
    elements: list[Element] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []
        self.feed(self.html)
        self.close()
        self.faults += [f"never closed: {element.tag}" for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if len(attributes) != len(attrs):
            self.faults.append(f"repeated attribute: {tag} {attrs}")
        element = Element(tag, attributes, tuple(self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            self.faults.append(f"closes nothing open: {tag}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Elements of that name with these attributes."""
        return [
            e for e in self.elements if e.tag == tag and all(e.attributes.get(k) == v for k, v in attributes.items())
        ]

    def section(self, name: str) -> Element:
        """The section with that id."""
        return self.all("section", id=name)[0]

    def within(self, parent: Element, tag: str) -> list[Element]:
        """Elements of that name inside `parent`."""
        return [e for e in self.elements if e.tag == tag and any(p is parent for p in e.parents)]
