"""A published plan measured again: the folder in which that is done, what came of it, its page and its line of proof."""
