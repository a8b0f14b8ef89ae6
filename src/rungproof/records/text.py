"""Text that comes from servers, files and models, made safe for a terminal: nothing in it is obeyed."""


def clean(text: object) -> str:
    """One line without control characters, escape codes and marks that turn the writing around; line ends become spaces."""
    spaced = str(text).replace("\r\n", " ").translate({10: " ", 13: " ", 9: " ", 0x2028: " ", 0x2029: " "})
    return "".join(char for char in spaced if char.isprintable())


def clean_lines(text: object) -> str:
    """The same for a text of several lines, which stay lines."""
    return "\n".join(clean(line) for line in str(text).split("\n"))
