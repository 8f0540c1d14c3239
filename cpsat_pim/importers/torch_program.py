"""Import PyTorch models: exported programs (.pt2), and modules returned by a Python function, exported on the meta
device.

The program is a functional graph of core ATen operators, without in-place writes, with the products as the model has
them. Parameters need no data.
"""

import importlib
import inspect
import io
import logging
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._pytree import tree_leaves, tree_map_only

from cpsat_pim.importers.builder import NetworkBuilder
from cpsat_pim.importers.torch_kinds import KEPT
from cpsat_pim.importers.torch_operators import Trace

#: Libraries of operators that a package of the same name registers.
_KNOWN_LIBRARIES = ("torchaudio", "torchvision")

#: The names of a size that data decide: the symbol that PyTorch gives it, or the axis of a tensor.
_BY_DATA = re.compile(r"u\d+|.+\.\d+")

#: The files of an archive that hold a program, of today's and of earlier releases.
_PROGRAM = re.compile(r"(^|/)models/[^/]+\.json$|^serialized_exported_program\.json$")

_DAMAGED = "is not a program that torch.export saved, or is damaged"

#: An operator in a saved program, with its library.
_OPERATOR = re.compile(r'"target": "torch\.ops\.(\w+)\.\w+\.\w+"')


def trace_program(path: str, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
    """Pass the operators of an exported program to the builder.

    Raises:
        ValueError: the file is unreadable, or a dim is open.
    """
    if not os.path.isfile(path):
        raise ValueError(f"cannot be read: {'Is a directory' if os.path.isdir(path) else 'No such file or directory'}")
    for library in _libraries(path):
        _register(library)
    program = _loaded(path)
    _follow(program, bind, builder)


def trace_function(name: str, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
    """Call `module:function`, which returns a module and its example inputs; export the module, and pass it to the
    builder.

    The function gets the bound sizes as keyword arguments, but for those that data decide. It runs in the first of
    `_modes` in which it can be exported.

    Raises:
        ValueError: the function cannot be found, called or exported, or returns something else.
    """
    build = _function(*name.split(":"))
    arguments, sizes = _arguments(build, bind)
    failures: list[ValueError] = []
    for building, exporting in _modes():
        try:
            program = _exported(build, arguments, building, exporting)
        except ValueError as error:
            failures.append(error)
        else:
            return _follow(program, sizes, builder)
    raise failures[0] from failures[0].__cause__


def _modes() -> Iterator[tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]:
    """Yield how a function runs, and its module is exported, without data of parameters: on the meta device; with fake
    tensors, as some operators refuse that device; with values of all tensors but parameters, as some functions compute
    the sizes of their layers with tensors.
    """
    yield torch.device("meta"), torch.device("meta")
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    yield fake, fake
    yield _parameters_without_data(), torch.device("meta")


@contextmanager
def _parameters_without_data() -> Iterator[None]:
    """Move each parameter to the meta device when its module gets it; other tensors have their values."""
    hook = register_module_parameter_registration_hook(
        lambda module, name, own: torch.nn.Parameter(own.to("meta"), own.requires_grad)
    )
    try:
        yield
    finally:
        hook.remove()


def _exported(
    build: Callable[..., Any],
    bind: Mapping[str, int],
    building: AbstractContextManager[Any],
    exporting: AbstractContextManager[Any],
) -> torch.export.ExportedProgram:
    """Call the function and export its module, with parameters that have no data.

    Raises:
        ValueError: the function fails or returns something else, or its module cannot be exported.
    """
    with _complaining("failed"), building:
        built = build(**bind)
    module, positional, named = _inputs_of(built)
    # So that tensors that `forward` makes without a device are where the parameters are.
    with _quietly(), _complaining("cannot be exported"), exporting:
        module, positional, named = _on_one_device(module, positional, named)
        return torch.export.export(module.eval(), positional, named)


def _inputs_of(built: Any) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Return the module that a function built, and its inputs by position and by name."""
    if not (isinstance(built, tuple) and len(built) in (2, 3) and isinstance(built[0], torch.nn.Module)):
        raise ValueError("must return a torch.nn.Module and its inputs: a tuple, a dict by name, or both")
    module, *inputs = built
    named = inputs.pop() if isinstance(inputs[-1], dict) else {}
    positional = inputs[0] if inputs else ()
    return module, positional if isinstance(positional, tuple) else (positional,), named


def _on_one_device(
    module: torch.nn.Module, positional: tuple[Any, ...], named: dict[str, Any]
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Move a module and its inputs to the meta device, unless they are on one device: what a Python module makes when
    it is imported is not where the function makes it.
    """
    inputs = [leaf for leaf in tree_leaves((positional, named)) if isinstance(leaf, torch.Tensor)]
    if len({tensor.device for tensor in (*module.parameters(), *module.buffers(), *inputs)}) < 2:
        return module, positional, named
    moved = partial(tree_map_only, torch.Tensor, lambda tensor: tensor.to("meta"))
    return module.to("meta"), moved(positional), moved(named)


def _libraries(path: str) -> list[str]:
    """Return the libraries of operators that a saved program uses, `torchvision` of `torchvision::roi_align`.

    Raises:
        ValueError: the file holds no program.
    """
    with _complaining(_DAMAGED), zipfile.ZipFile(path) as archive:
        programs = [archive.read(name).decode() for name in archive.namelist() if _PROGRAM.search(name)]
    if not programs:
        raise ValueError("holds no program; expected a file of torch.export.save, not of torch.save or torch.jit.save")
    return sorted({name for text in programs for name in _OPERATOR.findall(text)})


def _loaded(path: str) -> torch.export.ExportedProgram:
    """Return a saved program.

    Raises:
        ValueError: PyTorch cannot read it.
    """
    try:
        with _quietly(), _complaining(_DAMAGED):
            return torch.export.load(path)
    except ValueError as error:
        if "warnings above" not in str(error):
            raise
        # PyTorch has logged the reason, as it says
        raise ValueError(
            f"PyTorch {torch.__version__} cannot read its program; expected one that this release saved, whole"
        ) from error.__cause__


def _register(library: str) -> None:
    """Import the package that registers a library of operators, unless that is registered.

    Raises:
        ValueError: it is not, and it is none of those known that are installed.
    """
    with suppress(ImportError):
        if library in _KNOWN_LIBRARIES:
            importlib.import_module(library)
    # by string: what is looked up in `torch.ops` seems to be there
    if not any(name.startswith(f"{library}::") for name in torch._C._dispatch_get_all_op_names()):
        raise ValueError(
            f"has operators of the library {library!r}, which no package has registered: install that, or import the "
            "model from a function of a module that registers them"
        )


# --- The program -----------------------------------------------------------------------------------------------------


def _function(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module that is installed or in the working directory."""
    sys.path.insert(0, os.getcwd())
    try:
        with _complaining("cannot be imported"):
            found = getattr(importlib.import_module(module), name)
    finally:
        sys.path.remove(os.getcwd())
    if not callable(found):
        raise ValueError("is not a function")
    return found  # type: ignore[no-any-return]


def _arguments(build: Callable[..., Any], bind: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the arguments of the function, and the sizes that data decide.

    Raises:
        ValueError: a name is neither, or an argument is missing.
    """
    signature = inspect.signature(build)
    sizes = {name: bind[name] for name in bind if _BY_DATA.fullmatch(name) and name not in signature.parameters}
    arguments = {name: bind[name] for name in bind if name not in sizes}
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise ValueError(f"--bind must give the function's arguments: {error}") from error
    return arguments, sizes


@contextmanager
def _complaining(problem: str) -> Iterator[None]:
    """Turn any exception of PyTorch or of the user's code into one line; what they print goes to stderr."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:  # a module without a main guard may end the program
        reason = next(iter(str(error).strip().splitlines()), "")
        raise ValueError(f"{problem}: {type(error).__name__}: {reason}") from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress the warnings, tracebacks and graphs that PyTorch prints besides its exceptions."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


def _follow(program: torch.export.ExportedProgram, bind: Mapping[str, int], builder: NetworkBuilder) -> None:
    """Process every operator of a program in order."""
    with _quietly(), _complaining("cannot be decomposed"):
        program = program.run_decompositions(_decompositions())
    trace = Trace(program, bind, builder)
    for node in program.graph.nodes:
        trace.follow(node)


def _decompositions() -> dict[Any, Any]:
    """Return PyTorch's decompositions into core operators, except those of products."""
    rules = torch.export.default_decompositions()
    for name in KEPT:
        packet = getattr(torch.ops.aten, name, None)  # older releases lack some
        for overload in packet.overloads() if packet else ():
            if (operator := getattr(packet, overload)) in rules:
                rules.pop(operator)
    return rules  # type: ignore[no-any-return]
