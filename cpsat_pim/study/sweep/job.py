"""A job: one layer on one machine for one objective. Its key is a digest of everything that the solution depends on."""

import hashlib
import json
import tempfile
import traceback
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs
from attrs import field, frozen

from cpsat_pim.arch import PIMArchitecture
from cpsat_pim.base.validate import is_a, seconds, seed_number, share
from cpsat_pim.mapper.result import Objective
from cpsat_pim.mapping.constraints import FREE, Constraints
from cpsat_pim.study.sweep.versions import Versions, current_versions
from cpsat_pim.workload import ConvWorkload

if TYPE_CHECKING:
    from cpsat_pim.mapper.search import SolveRequest

#: What answers a job: the layer's entry of a results file (docs/json.md).
Work = Callable[["Job"], dict[str, Any]]


class Failure(StrEnum):
    """Why a job failed: no tile fits, its worker died, a disagreement, or another error."""

    UNFIT = "unfit"
    KILLED = "killed"
    DISAGREEMENT = "disagreement"
    ERROR = "error"


@frozen(kw_only=True)
class JobOptions:
    """Options of a job: `time_limit` seconds per layer, the solver's `seed`, and `padding`, the share of additional
    MACs that padding may cost.

    Raises:
        ValueError: one of them is out of range.
    """

    time_limit: float = field(default=60.0, validator=seconds)
    seed: int = field(default=0, validator=seed_number)
    padding: float = field(default=0.0, validator=share)


@frozen(kw_only=True)
class Job:
    """What is solved, and by which versions. Jobs with equal `key` have equal solutions, apart from names and times."""

    layer: ConvWorkload = field(validator=is_a(ConvWorkload))
    arch: PIMArchitecture = field(validator=is_a(PIMArchitecture))
    objective: Objective = field(validator=is_a(Objective))
    options: JobOptions = field(factory=JobOptions)
    constraints: Constraints = field(default=FREE, validator=is_a(Constraints))
    versions: Versions = field(factory=current_versions)
    key: str = field(init=False)

    @key.default
    def _content(self) -> str:
        """Return a digest of everything but names."""
        weights = [str(self.objective.alpha), str(self.objective.beta)]
        data = [self.layer.shape, arch_key(self.arch), self.objective.kind, weights, self.constraints.to_dict()]
        return digest([*data, attrs.asdict(self.options), attrs.asdict(self.versions)])

    @property
    def request(self) -> "SolveRequest":
        """The request of the solve; the solver is imported only in the process that solves."""
        from cpsat_pim.mapper.search import SolveRequest

        return SolveRequest(
            objective=self.objective, then=None, constraints=self.constraints, **attrs.asdict(self.options)
        )

    def __str__(self) -> str:
        return f"{self.layer.name} on {self.arch.name} for {self.objective.kind}"


@frozen(kw_only=True)
class Outcome:
    """The result of a job: a solution, or a failure with its reason in one line and in detail."""

    key: str
    answer: dict[str, Any] | None = None
    failure: Failure | None = None
    reason: str | None = None
    detail: str | None = None

    def to_line(self) -> str:
        """Encode as one line of JSON."""
        return json.dumps(attrs.asdict(self), allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> "Outcome":
        """Decode what `to_line` wrote."""
        data = json.loads(line)
        return cls(**(data | {"failure": Failure(data["failure"]) if data["failure"] else None}))


# --- Keys ------------------------------------------------------------------------------------------------------------


def digest(data: Any) -> str:
    """Return a 128-bit digest of plain data; 64 and 64.0 have equal digests."""
    text = json.dumps(_whole(data), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@lru_cache(maxsize=4096)
def arch_key(arch: PIMArchitecture) -> str:
    """Return a digest of a machine without its name."""
    return digest({key: value for key, value in arch.to_dict().items() if key != "name"})


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# --- Solving ---------------------------------------------------------------------------------------------------------


class Unfit(Exception):
    """The layer is known to have no mapping before solving."""


def solve_job(job: Job) -> dict[str, Any]:
    """Solve and verify a layer; return its entry of a results file. The solver is imported only in the process that
    solves.

    Raises:
        Unfit: some tile cannot fit its level.
        Disagreement: prediction and simulation differ.
        RuntimeError: this installation is not the one that planned the job.
    """
    from cpsat_pim.mapper.network.run import solve_and_verify
    from cpsat_pim.mapping.check import check_fits

    if job.versions != current_versions():
        raise RuntimeError(f"the sweep is of {job.versions}, its worker of {current_versions()}")
    problems = check_fits(job.layer, job.arch, job.request.constraints.bank_counts)
    if problems:
        raise Unfit("; ".join(problems))
    solved = solve_and_verify(job.layer, job.arch, job.request)
    return solved.to_dict()


def attempt(work: Work, job: Job) -> Outcome:
    """Run `work` on a job; an exception becomes a failed outcome."""
    from cpsat_pim.evaluate.verify import Disagreement

    try:
        return Outcome(key=job.key, answer=work(job))
    except Unfit as error:
        return Outcome(key=job.key, failure=Failure.UNFIT, reason=str(error))
    except Disagreement as error:
        reason = f"prediction and simulation disagree: {'; '.join(error.differences)}"
        return Outcome(key=job.key, failure=Failure.DISAGREEMENT, reason=reason, detail=_reproducer(error))
    except Exception as error:
        return failed(job, error)


def failed(job: Job, error: BaseException) -> Outcome:
    """Return the outcome of a job that ended with an error."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    detail = "".join(traceback.format_exception(error))
    return Outcome(key=job.key, failure=Failure.ERROR, reason=reason, detail=detail)


def died(job: Job, how: str) -> Outcome:
    """Return the outcome of a job whose worker died twice."""
    return Outcome(key=job.key, failure=Failure.KILLED, reason=f"{how}, twice")


def _reproducer(disagreement: Any) -> str:
    """Return the reproducer of a disagreement, as `simulate` reads it."""
    from cpsat_pim.evaluate.verify import write_reproducer

    with tempfile.TemporaryDirectory() as directory:
        return write_reproducer(disagreement, directory).read_text(encoding="utf-8")
