"""Flit-level simulation of the messages of a segment: when each phase begins and ends (docs/array.md, section 6).

Virtual cut-through with unlimited buffers. A packet occupies each link or port on its way for as many cycles as it has
flits, in the order in which heads arrive; its head goes on to the next link at once, after the router's latency.
A node sends packet after packet, in the order of the plan. What has arrived whole may be passed on.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from tracesim.array.messages import Messages, Roads, route
from tracesim.array.records import Array, Ints
from tracesim.jit import kernel

PACKET_FLITS = 16
"""Flits of the longest packet (docs/array.md, section 6, send order)."""

WAKE, HEAD, ARRIVE, END = range(4)


class Schedule(NamedTuple):
    """Rounds of messages int64[n]: `following`, the round after this one on the same region, or -1; `phase_start`, the
    round with which its phase begins; `floor`, cycles that the phase takes at least when it ends with this round.

    `first` int64[n + 1]: the first message of each round. `starts`: the rounds that begin at cycle 0.
    """

    following: Ints
    phase_start: Ints
    floor: Ints
    first: Ints
    starts: Ints


class Lanes(NamedTuple):
    """What the kernel is given of messages.

    By message: `flits`, `sender`, `round_of`, `before`, `route_of`. `queue[queue_first[s]:...]`: messages of sender s
    in the order in which they take turns. `after[after_first[m]:...]`: messages that pass on the data of m.
    `roads[route_first[r]:...]`: roads of route r in order.
    """

    flits: Ints
    sender: Ints
    round_of: Ints
    before: Ints
    route_of: Ints
    queue_first: Ints
    queue: Ints
    after_first: Ints
    after: Ints
    route_first: Ints
    roads: Ints


def simulate_messages(
    array: Array, ways: Roads, messages: Messages, schedule: Schedule, is_listed: bool
) -> tuple[Ints, Ints, Ints]:
    """Return int64[rounds] each: when rounds begin and end, and when the last message of them arrives."""
    lanes = build_lanes(array, messages, schedule, is_listed)
    begin, end, arrival = run_messages(lanes, schedule, ways.rates, ways.delays, PACKET_FLITS, is_listed)
    return begin, end, arrival


def build_lanes(array: Array, messages: Messages, schedule: Schedule, is_listed: bool) -> Lanes:
    """Return routes, senders' queues and who passes on what."""
    count, ends = messages.flits.size, array.rows * array.cols + array.rows
    round_of = np.repeat(np.arange(schedule.first.size - 1), np.diff(schedule.first))
    pairs, route_of = np.unique(messages.source * ends + messages.target, return_inverse=True)
    routes = [route(array, *divmod(pair, ends)) for pair in pairs.tolist()]
    turn = messages.target if is_listed else (messages.target - messages.source - 1) % ends
    queue = np.lexsort((np.arange(count), turn, round_of, messages.source))
    has_before = np.flatnonzero(messages.before >= 0)
    after = has_before[np.argsort(messages.before[has_before], kind="stable")]
    return Lanes(
        flits=messages.flits,
        sender=messages.source,
        round_of=round_of,
        before=messages.before,
        route_of=route_of.reshape(-1).astype(np.int64),
        queue_first=np.searchsorted(messages.source[queue], np.arange(ends + 1)),
        queue=queue,
        after_first=np.searchsorted(messages.before[after], np.arange(count + 1)),
        after=after,
        route_first=np.cumsum([0, *(len(roads) for roads in routes)]),
        roads=np.array([road for roads in routes for road in roads], np.int64),
    )


@kernel
def run_messages(
    lanes: Lanes, schedule: Schedule, rates: Ints, delays: Ints, packet_flits: int, is_listed: bool
) -> tuple[Ints, Ints, Ints]:
    """Return int64[rounds] each: begin, end, last arrival (the begin where nothing is sent).

    Events are (cycle, number, kind, subject, place on the route, flits, cycle of the tail), in order of cycle, then of
    creation.
    """
    rounds, count = schedule.following.size, lanes.flits.size
    begin, end, arrival = np.full(rounds, -1, np.int64), np.full(rounds, -1, np.int64), np.zeros(rounds, np.int64)
    packets = -(-lanes.flits // packet_flits)
    available, sent, waiting = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(rounds, np.int64)
    free, busy = np.zeros(rates.size, np.int64), np.zeros(lanes.queue_first.size, np.int64)
    cursor = lanes.queue_first.copy()
    events = [(0, 0, END, -1, 0, 0, 0)]
    number = 1
    for first in schedule.starts:
        number = begin_round(lanes, schedule, first, 0, packets, available, waiting, begin, arrival, events, number)
    while events:
        now, _, kind, subject, place, length, tail = heappop(events)
        if kind == WAKE:
            message = -1 if now < busy[subject] else next_message(lanes, subject, cursor, sent, available, is_listed)
            if message >= 0:
                length = min(packet_flits, lanes.flits[message] - sent[message] * packet_flits)
                sent[message] += 1
                number = cross(lanes, message, 0, length, now, 0, free, rates, delays, events, number)
                busy[subject] = free[lanes.roads[lanes.route_first[lanes.route_of[message]]]]
                heappush(events, (busy[subject], number, WAKE, subject, 0, 0, 0))
                number += 1
        elif kind == HEAD:
            number = cross(lanes, subject, place, length, now, tail, free, rates, delays, events, number)
        elif kind == ARRIVE:
            for index in range(lanes.after_first[subject], lanes.after_first[subject + 1]):
                available[lanes.after[index]] += 1
                heappush(events, (now, number, WAKE, lanes.sender[lanes.after[index]], 0, 0, 0))
                number += 1
            this = lanes.round_of[subject]
            waiting[this] -= 1
            arrival[this] = now
            if waiting[this] == 0:
                number = push_end(schedule, this, now, begin, events, number)
        elif subject >= 0:
            end[subject] = now
            this = schedule.following[subject]
            if this >= 0:
                number = begin_round(
                    lanes, schedule, this, now, packets, available, waiting, begin, arrival, events, number
                )
    return begin, end, arrival


@kernel
def begin_round(
    lanes: Lanes,
    schedule: Schedule,
    this: int,
    now: int,
    packets: Ints,
    available: Ints,
    waiting: Ints,
    begin: Ints,
    arrival: Ints,
    events: list[tuple[int, int, int, int, int, int, int]],
    number: int,
) -> int:
    """Make the packets of the round's messages available where they begin; return the next event's number."""
    begin[this], arrival[this] = now, now
    for message in range(schedule.first[this], schedule.first[this + 1]):
        waiting[this] += packets[message]
        if lanes.before[message] < 0:
            available[message] = packets[message]
            heappush(events, (now, number, WAKE, lanes.sender[message], 0, 0, 0))
            number += 1
    if waiting[this] == 0:
        number = push_end(schedule, this, now, begin, events, number)
    return number


@kernel
def push_end(
    schedule: Schedule,
    this: int,
    now: int,
    begin: Ints,
    events: list[tuple[int, int, int, int, int, int, int]],
    number: int,
) -> int:
    """End the round now, or when its phase has lasted as long as it must; return the next event's number."""
    ends = max(now, begin[schedule.phase_start[this]] + schedule.floor[this])
    heappush(events, (ends, number, END, this, 0, 0, 0))
    return number + 1


@kernel
def next_message(lanes: Lanes, sender: int, cursor: Ints, sent: Ints, available: Ints, is_listed: bool) -> int:
    """Return the message whose turn it is, of those with a packet to send, or -1 if there is none."""
    low, high = lanes.queue_first[sender], lanes.queue_first[sender + 1]
    start = low if is_listed else cursor[sender]
    for step in range(high - low):
        place = start + step if start + step < high else start + step - (high - low)
        message: int = lanes.queue[place]
        if sent[message] < available[message]:
            cursor[sender] = place + 1 if place + 1 < high else low
            return message
    return -1


@kernel
def cross(
    lanes: Lanes,
    message: int,
    place: int,
    length: int,
    now: int,
    tail: int,
    free: Ints,
    rates: Ints,
    delays: Ints,
    events: list[tuple[int, int, int, int, int, int, int]],
    number: int,
) -> int:
    """Take a road for a packet as soon as it is free, and send its head on; return the next event's number."""
    first, behind = lanes.route_first[lanes.route_of[message]], lanes.route_first[lanes.route_of[message] + 1]
    road = lanes.roads[first + place]
    start = max(now, free[road])
    free[road] = start + -(-length // rates[road])
    tail = max(tail, free[road])
    if first + place + 1 < behind:
        following = start + delays[lanes.roads[first + place + 1]]
        heappush(events, (following, number, HEAD, message, place + 1, length, tail))
    else:
        heappush(events, (tail, number, ARRIVE, message, 0, 0, 0))
    return number + 1
