"""Which kind of broadcast device a device is, and the compiler's view of it."""

from functools import lru_cache

from cpsat_pim.compiler.lowering.bank_mode import BankTarget
from cpsat_pim.compiler.lowering.in_order_target import InOrderTarget
from cpsat_pim.device import Device


def has_bank_mode(device: Device) -> bool:
    """Whether commands reach all blocks in a mode of their own (HBM-PIM); otherwise the controller is in order."""
    return device.controller.all_bank_mode is not None


@lru_cache(maxsize=8)
def bank_target(device: Device) -> BankTarget:
    """The view of a device with an all-bank mode.

    Raises:
        KernelMistake: the device is built in another way than HBM-PIM.
    """
    return BankTarget(device)


@lru_cache(maxsize=8)
def in_order_target(device: Device) -> InOrderTarget:
    """The view of a device with an in-order controller.

    Raises:
        KernelMistake: the device has another controller.
    """
    return InOrderTarget(device)


def broadcast_target(device: Device) -> BankTarget | InOrderTarget:
    """The view of either.

    Raises:
        KernelMistake: the device is neither.
    """
    return bank_target(device) if has_bank_mode(device) else in_order_target(device)
