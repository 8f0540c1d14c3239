"""Ground truth of command-driven PIM devices: issues every command of a stream and executes it on numbers.

Nothing here predicts. `simulate` is given the device's rules and an explicit command stream of one channel, and reports
the tick of every command. `execute` runs the same stream on numbers. The rules are those of `docs/devices.md`.

    records     what goes in and what comes out
    state       banks, nodes and the timing of every command at every node
    in_order    the controller that issues its queue in order
    ready_first the controller that prefers what is ready, with a row and a column slot
    window      the controller that reorders between barriers
    simulator   checks, chooses the controller, reports
    execution   what the commands compute
"""

from tracesim.commands.execution import execute
from tracesim.commands.records import Function, Needs, Policy, Reach, Rules, Slot, Stream, Trace
from tracesim.commands.simulator import simulate

__all__ = ["Function", "Needs", "Policy", "Reach", "Rules", "Slot", "Stream", "Trace", "execute", "simulate"]
