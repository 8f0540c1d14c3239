"""Compiles tensor kernels to the commands of PIM devices and proves which mapping of the declared space is fastest."""
