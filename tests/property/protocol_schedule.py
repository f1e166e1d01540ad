"""One schedule: concurrent clients with deaths, pauses and lost answers; then an idle table and the final checks."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass

import protocol_calls as calls
from protocol_checks import check_rest
from simulated_clients import Clients
from simulated_process import DoesNotRest
from simulated_table import World, case_of


@dataclass(frozen=True)
class Outcome:
    """The result of a schedule: errors, number of steps, trace, and the world."""

    wrong: tuple[str, ...]
    steps: int
    events: Counter[str]
    world: World


def simulate(seed: int, traced: bool = False) -> Outcome:
    """Runs a schedule to its end."""
    world = World(case_of(seed), seed)
    scheduler = world.scheduler
    scheduler.trace = [] if traced else None
    with world.installed():
        try:
            clients = Clients(world)
            scheduler.run_all()
            with scheduler.without_faults():
                scheduler.now += 10 * 1000 * scheduler.lease_s
                scheduler.note("all have ended; maintenance comes")
                wrong = []
                for table in world.tables:
                    name = world.name_of(table)
                    if name is not None:
                        table.handle = world.open(name)
                        calls.come_to_rest(table.handle)
                        wrong += check_rest(world, table, clients)
                    wrong += table.history.wrong()
        except DoesNotRest as found:
            wrong = [str(found)]
        except Exception as found:
            wrong = [f"{type(found).__name__}: {found}", *(traceback.format_exc().splitlines()[-9:] if traced else ())]
        finally:
            scheduler.end()
    return Outcome(tuple(wrong), scheduler.steps, scheduler.events, world)
