"""The store of a sweep: an SQLite file in WAL mode, written only by the sweep's own process.

A job is `open`, `done` or `failed`. A sweep takes an open job before it solves it, so that another sweep on the same
file skips it. When a sweep has ended, in whatever way, its taken jobs are open to all again. A running sweep holds a
lock on one byte of a file beside the store, at the sweep's number; the system releases the lock with the process.
Readers of the file need none of this: `results` is a view made for them.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from cpsat_pim.mapper.result import Status
from cpsat_pim.study.sweep.database import Database, StoreError
from cpsat_pim.study.sweep.job import Failure, Job, Outcome, arch_key
from cpsat_pim.study.sweep.locks import ByteLocks
from cpsat_pim.study.sweep.plan import Plan, Use


@frozen(kw_only=True)
class Tally:
    """Numbers of jobs by state. Of the done jobs, `infeasible` are proven to have no mapping, and for `unknown` none
    was found in time; of the failed jobs, `wrong` have a disagreement.
    """

    open: int = 0
    done: int = 0
    failed: int = 0
    infeasible: int = 0
    unknown: int = 0
    wrong: int = 0

    @property
    def unmapped(self) -> int:
        """The number of done jobs without a mapping."""
        return self.infeasible + self.unknown

    @property
    def total(self) -> int:
        """The number of all jobs."""
        return self.open + self.done + self.failed


class Store:
    """An open store; a context manager that closes it."""

    def __init__(self, path: str | Path, *, readonly: bool = False) -> None:
        """Open a store, and create it if it does not exist, unless `readonly`.

        Raises:
            StoreError: the file does not exist, is not a store, has another version, or cannot be written.
        """
        self.path = Path(path)
        self._sweep: int | None = None
        self._database = Database(self.path, readonly=readonly)
        self._locks = ByteLocks(Path(f"{self.path}.lock"))

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the taken jobs, and close."""
        with suppress(StoreError):  # The disk may be full; the end of this process releases the jobs too.
            self._give_back()
        self._locks.close()
        self._database.close()

    # Writing

    def register(self, plan: Plan, uses: list[Use]) -> None:
        """Store a plan's points and their jobs. Points of its former version are dropped; solutions are kept."""
        jobs = {use.job.key: use.job for use in uses}
        archs = {arch_key(job.arch): job.arch for job in jobs.values()}
        points = [
            (plan.name, i, point.network.name, point.arch.name, json.dumps(point.settings))
            for i, point in enumerate(plan.points)
        ]
        rows = [(plan.name, use.point, use.position, use.layer, use.count, use.job.key) for use in uses]
        with self._database.transaction() as database:
            add = database.executemany
            add(
                "INSERT OR IGNORE INTO architectures VALUES (?, ?)",
                ((key, json.dumps(arch.to_dict())) for key, arch in archs.items()),
            )
            add(
                "INSERT OR IGNORE INTO jobs (key, shape, arch, objective, options, code, solver)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                map(_job_row, jobs.values()),
            )
            for table in ("uses", "points"):
                database.execute(f"DELETE FROM {table} WHERE plan = ?", (plan.name,))
            add("INSERT INTO points VALUES (?, ?, ?, ?, ?)", points)
            add("INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)", rows)

    def begin_sweep(self) -> None:
        """Get a number under which this sweep takes jobs."""
        with self._database.transaction() as database:
            number = database.execute("INSERT INTO sweeps (pid) VALUES (?)", (os.getpid(),)).lastrowid
            assert number is not None
            self._locks.lock(number)  # lock before the number is visible to others, who would test the lock
        self._sweep = number

    def take(self, key: str) -> bool:
        """Take a job. Return False if it is not open, or another running sweep has taken it."""
        with self._database.transaction() as database:
            row = database.execute("SELECT state, sweep FROM jobs WHERE key = ?", (key,)).fetchone()
            if row[0] != "open" or self._runs(row[1]):
                return False
            database.execute("UPDATE jobs SET sweep = ? WHERE key = ?", (self._sweep, key))
        return True

    def record(self, outcome: Outcome) -> None:
        """Store the outcome of a job, which may be new to the store; an existing solution stays."""
        columns = _columns(outcome)
        assigned = ", ".join(f"{column} = :{column}" for column in columns)
        with self._database.transaction() as database:
            database.execute(
                f"UPDATE jobs SET {assigned}, sweep = NULL WHERE key = :key AND state <> 'done'",
                columns | {"key": outcome.key},
            )

    def reopen_failed(self, keys: Iterable[str]) -> int:
        """Reopen those of some jobs that failed, and return their number."""
        with self._database.transaction() as database:
            cursor = database.executemany(
                "UPDATE jobs SET state = 'open', failure = NULL, reason = NULL, detail = NULL"
                " WHERE key = ? AND state = 'failed'",
                ((key,) for key in keys),
            )
        return cursor.rowcount

    def merge(self, other: str | Path) -> None:
        """Add the plans of another store, and its outcomes of jobs that are not done here.

        Raises:
            StoreError: the other file is not a store, or has a plan of the same name with other points, or one of the
                two files fails.
        """
        with Store(other, readonly=True) as source:
            ours, others = self._plans(), source._plans()
        for plan in ours.keys() & others.keys():
            if ours[plan] != others[plan]:
                raise StoreError(f"{other}: its plan {plan!r} has other points or layers than that of {self.path}")
        columns = [row[1] for row in self.query("PRAGMA table_info(jobs)")]
        theirs = ", ".join("NULL" if column == "sweep" else column for column in columns)
        with self._database.attached(Path(other)), self._database.transaction() as database:
            for table in ("architectures", "points", "uses"):
                database.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM other.{table}")
            database.execute(f"INSERT OR REPLACE INTO jobs SELECT {theirs} FROM other.jobs AS their {_NEWS}")

    def _plans(self) -> dict[str, set[tuple[Any, ...]]]:
        """Return for each plan its layers and the request for each, whichever version solved it."""
        found: dict[str, set[tuple[Any, ...]]] = {}
        for plan, *rest in self.query(_ASKED):
            found.setdefault(plan, set()).add(tuple(rest))
        return found

    def _give_back(self) -> None:
        if self._sweep is not None:
            with self._database.transaction() as database:
                database.execute("UPDATE jobs SET sweep = NULL WHERE sweep = ?", (self._sweep,))
            self._sweep = None

    # Reading

    def open_keys(self, keys: Iterable[str]) -> list[str]:
        """Return those of some jobs that are open and not being solved by another sweep, in their order."""
        rows = self.query("SELECT key, sweep FROM jobs WHERE state = 'open'")
        running = {sweep for sweep in {sweep for _, sweep in rows} if self._runs(sweep)}
        free = {key for key, sweep in rows if sweep not in running}
        return [key for key in keys if key in free]

    def tally(self, keys: Iterable[str]) -> Tally:
        """Count some jobs by state."""
        known = {key: rest for key, *rest in self.query("SELECT key, state, status, failure FROM jobs")}
        found = [known[key] for key in keys]
        states = [state for state, _, _ in found]
        return Tally(
            **{state: states.count(state) for state in ("open", "done", "failed")},
            infeasible=sum(status == Status.INFEASIBLE for _, status, _ in found),
            unknown=sum(status == Status.UNKNOWN for _, status, _ in found),
            wrong=sum(failure == Failure.DISAGREEMENT for _, _, failure in found),
        )

    def count_outdated(self, plan: str) -> int:
        """Count the open jobs of a plan that another version of the program or of the solver has done.

        A job of this version that differs in nothing else would have the same key, and not be open.
        """
        same = " AND ".join(f"theirs.{column} = ours.{column}" for column in ("shape", "arch", "objective", "options"))
        (row,) = self.query(
            "SELECT count(DISTINCT ours.key) FROM uses JOIN jobs AS ours ON ours.key = uses.job"
            f" JOIN jobs AS theirs ON theirs.state = 'done' AND {same} WHERE plan = ? AND ours.state = 'open'",
            plan,
        )
        return int(row[0])

    def running(self) -> set[str]:
        """Return the jobs that a running sweep has taken."""
        taken = self.query("SELECT key, sweep FROM jobs WHERE state = 'open' AND sweep IS NOT NULL")
        return {key for key, sweep in taken if self._runs(sweep)}

    def query(self, statement: str, *parameters: Any) -> list[Any]:
        """Return the rows that a statement selects."""
        return self._database.query(statement, *parameters)

    def rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Return the rows that a statement selects, as dicts by column name."""
        return self._database.rows(statement, *parameters)

    def _runs(self, sweep: int | None) -> bool:
        """Return whether a sweep is still running."""
        return sweep is not None and (sweep == self._sweep or self._locks.is_locked(sweep))


#: The layers of plans, apart from the versions of the program and of the solver.
_ASKED = """
SELECT plan, point, position, network, settings, layer, count, shape, jobs.arch, objective, options
FROM uses JOIN points USING (plan, point) JOIN jobs ON jobs.key = uses.job
"""
#: Jobs of another store that are unknown here, or decided there and not done here.
_NEWS = (
    "WHERE NOT EXISTS (SELECT 1 FROM main.jobs AS our WHERE our.key = their.key"
    " AND (our.state = 'done' OR their.state = 'open'))"
)


def _job_row(job: Job) -> tuple[str, ...]:
    """Return the columns that identify a job, as text; constraints are part of the options."""
    constraints = job.constraints.to_dict()
    return (
        job.key,
        json.dumps(job.layer.shape),
        arch_key(job.arch),
        json.dumps(job.objective.to_dict()),
        json.dumps(attrs.asdict(job.options) | ({"constraints": constraints} if constraints else {})),
        job.versions.code,
        job.versions.solver,
    )


def _columns(outcome: Outcome) -> dict[str, Any]:
    """Return the columns of an outcome."""
    answer = outcome.answer
    if answer is None:
        failure = {"failure": outcome.failure, "reason": outcome.reason, "detail": outcome.detail}
        return {"state": "failed", **failure}
    predicted, simulated = answer["predicted"] or {}, answer["simulated"] or {}
    activations = predicted.get("row_activations") or {}
    return {
        "state": "done",
        "status": answer["status"],
        "objective_value": _storable(answer["objective"]),
        "bound": _storable(answer["bound"]),
        "gap": answer["gap"],
        "latency_cycles": predicted.get("latency_cycles"),
        "simulated_cycles": simulated.get("latency_cycles"),
        "energy_fj": predicted.get("energy_fj"),
        **{f"activations_{tensor}": activations.get(tensor) for tensor in "IWO"},
        "seconds": answer["solve_seconds"],
        "answer": json.dumps(answer, allow_nan=False),
        "failure": None,
        "reason": None,
        "detail": None,
    }


def _storable(number: int | float | None) -> int | float | None:
    """Return a number that SQLite accepts: an integer of more than 64 bits is rounded. The stored solution is exact."""
    return float(number) if isinstance(number, int) and abs(number) >= 2**63 else number
