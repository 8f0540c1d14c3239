"""A defect of the compiler itself; mistakes in kernels are `language.KernelMistake`."""


class CompilerDefect(Exception):
    """Two independent answers of this package differ: report it."""
