"""How the next machine to try is chosen: each method proposes designs and learns their costs (docs/tuner.md)."""

from collections.abc import Callable

from cpsat_pim.base.extras import import_extra
from cpsat_pim.tuner.methods.annealing import Annealing
from cpsat_pim.tuner.methods.gaussian import GaussianProcessSearch
from cpsat_pim.tuner.methods.guided import FloorGuidedSearch
from cpsat_pim.tuner.methods.method import Method, MethodOptions, RandomSearch
from cpsat_pim.tuner.space import HardwareSpace

__all__ = ["METHODS", "Method", "MethodOptions", "build_method"]


def _extra(module: str, extra: str, name: str) -> Callable[..., Method]:
    """Return a method that lives in a module of ours which needs an optional package."""

    def build(space: HardwareSpace, options: MethodOptions) -> Method:
        found: Method = getattr(import_extra(f"cpsat_pim.tuner.methods.{module}", extra), name)(space, options)
        return found

    return build


METHODS: dict[str, Callable[[HardwareSpace, MethodOptions], Method]] = {
    "gp": GaussianProcessSearch,
    "gp-floors": FloorGuidedSearch,
    "random": RandomSearch,
    "sa": Annealing,
    "xgb": _extra("boosting", "tune", "BoostedTrees"),
    "dkl": _extra("deep_kernel", "tune-torch", "DeepKernelByMean"),
    "dkl-ei": _extra("deep_kernel", "tune-torch", "DeepKernelByImprovement"),
    "botorch": _extra("deep_kernel", "tune-torch", "BoTorchSearch"),
}


def build_method(name: str, space: HardwareSpace, options: MethodOptions) -> Method:
    """Return a method by its name.

    Raises:
        MissingExtra: it needs a package that is not installed.
    """
    return METHODS[name](space, options)
