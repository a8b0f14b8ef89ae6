"""rungproof: speed of LLM servers, published only where the output was proven identical."""

__version__ = "0.1.0"
