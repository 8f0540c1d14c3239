"""Time and energy of the host processor (a GPU), by named published formulas."""

from cpsat_pim.compiler.host.attacc_xpu import Product, activation_seconds, move_seconds, norm_seconds, product_seconds
from cpsat_pim.compiler.host.hosts import A100_HBM3, Host, host_of

__all__ = [
    "A100_HBM3",
    "Host",
    "Product",
    "activation_seconds",
    "host_of",
    "move_seconds",
    "norm_seconds",
    "product_seconds",
]
