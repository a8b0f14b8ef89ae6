"""Typed models of everything under config/, read with every key checked. The JSON schemas are generated from them."""
