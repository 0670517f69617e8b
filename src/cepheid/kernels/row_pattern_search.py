"""Find row pattern matches if conditions read other rows of the match, with numeric values.

The search is that of ``row_pattern``: depth first, in the order of preference. The data of the
match so far that conditions read is kept for every depth, so that one step forward or back is O(1):
the rows of the variables they name, and running aggregates. Conditions are programs for a small
stack machine. A failed state of the search is remembered together with everything that later
conditions can read, by a 128-bit hash; collisions do not occur in practice.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.row_pattern import (
    DONE,
    FULL,
    UNDECIDED,
    UNDECIDED_START,
    edges_of,
    is_undecided,
    next_start,
)
from cepheid.kernels.row_pattern_memory import keep_failure, sign_state, slot_of
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

TOO_LONG, TOO_MANY = 4, 5
"""More results of a search than ``row_pattern`` has: too many steps, or too many failures kept."""

CONSTANT, CELL, LABEL, AGGREGATE, NUMBER = range(5)
ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO = range(5, 10)
NEGATE, NOT, AND, OR = range(10, 14)
EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(14, 20)
IS_NULL, ABSOLUTE, COALESCE, CHOOSE, JUMP_IF_FALSE, JUMP_IF_TRUE = range(20, 26)
COUNT, SUM, AVG, MIN, MAX = range(5)

STACK_MAX = 64
"""Values that a program may keep at a time."""


@kernel(inline="code")
def _find_row(cells, cell, places, counts, depth, start, begin, stop):
    """Find the row of a cell's navigation, or -1."""
    place, from_first = cells[cell, 0], cells[cell, 1]
    offset, shift = cells[cell, 2], cells[cell, 3]
    if place < 0:
        row = start + offset if from_first else start + depth - 1 - offset
        if row < start or row >= start + depth:
            return -1
    else:
        if offset >= counts[place]:
            return -1
        row = places[place, offset] if from_first else places[place, counts[place] - 1 - offset]
    row += shift
    return row if begin <= row < stop else -1


@kernel(inline="code")
def _compare(operator, a, b):
    """Compare two numbers; NaN equals itself and is greater than every other number."""
    if a != a or b != b:
        a, b = (1.0 if a != a else 0.0), (1.0 if b != b else 0.0)
    if operator == EQUAL:
        return a == b
    if operator == UNEQUAL:
        return a != b
    if operator == LESS:
        return a < b
    if operator == AT_MOST:
        return a <= b
    if operator == GREATER:
        return a > b
    return a >= b


@kernel(inline="code")
def _compute(operator, a, b):
    """Compute arithmetic of two numbers; the divisor is not zero."""
    if operator == ADD:
        return a + b
    if operator == SUBTRACT:
        return a - b
    if operator == MULTIPLY:
        return a * b
    return a / b if operator == DIVIDE else np.fmod(a, b)


@kernel(inline="code")
def _load(
    operator, argument, constants, cells, columns, valid, places, counts, tallies, kinds,
    path, variable_of, label_values, depth, start, begin, stop, number, stack, known, top,
):  # fmt: skip
    """Push an external value on the stack."""
    known[top] = True
    if operator == CONSTANT:
        stack[top], known[top] = constants[argument, 0], constants[argument, 1] == 0.0
        return
    if operator == NUMBER:
        stack[top] = number
        return
    if operator == AGGREGATE:
        count, value = tallies[argument, depth, 0], tallies[argument, depth, 1]
        kind = kinds[argument]
        known[top] = kind == COUNT or count > 0.0
        if kind == COUNT:
            stack[top] = count
        elif known[top]:
            stack[top] = value / count if kind == AVG else value
        return
    row = _find_row(cells, argument, places, counts, depth, start, begin, stop)
    known[top] = row >= 0
    if operator == LABEL:
        known[top] = start <= row < start + depth
        if known[top]:
            stack[top] = label_values[variable_of[path[row - start + 1]]]
    elif row >= 0:
        column = cells[argument, 4]
        stack[top], known[top] = columns[column, row], valid[column, row]


@kernel(inline="code")
def _holds(
    code, first, last, constants, cells, columns, valid, places, counts, tallies, kinds, path,
    variable_of, label_values, depth, start, begin, stop, number, stack, known,
):  # fmt: skip
    """Evaluate a condition for the last row of a match of some depth."""
    top, at = -1, first - 1
    while at + 1 < last:
        at += 1
        operator, argument = code[at, 0], code[at, 1]
        if operator <= NUMBER:
            top += 1
            _load(
                operator, argument, constants, cells, columns, valid, places, counts, tallies,
                kinds, path, variable_of, label_values, depth, start, begin, stop, number, stack,
                known, top,
            )  # fmt: skip
        elif operator == NEGATE:
            stack[top] = -stack[top]
        elif operator == ABSOLUTE:
            stack[top] = abs(stack[top])
        elif operator == NOT:
            stack[top] = 1.0 - stack[top]
        elif operator == IS_NULL:
            stack[top] = 0.0 if known[top] else 1.0
            known[top] = True
        elif operator == JUMP_IF_FALSE:
            if known[top] and stack[top] == 0.0:
                at = argument - 1
        elif operator == JUMP_IF_TRUE:
            if known[top] and stack[top] == 1.0:
                at = argument - 1
        elif operator == CHOOSE:
            top -= 2
            chosen = top + 1 if known[top] and stack[top] == 1.0 else top + 2
            stack[top], known[top] = stack[chosen], known[chosen]
        else:
            top -= 1
            a, b, a_known, b_known = stack[top], stack[top + 1], known[top], known[top + 1]
            if operator == AND:
                no = (a_known and a == 0.0) or (b_known and b == 0.0)
                stack[top], known[top] = (0.0 if no else 1.0), no or (a_known and b_known)
            elif operator == OR:
                yes = (a_known and a == 1.0) or (b_known and b == 1.0)
                stack[top], known[top] = (1.0 if yes else 0.0), yes or (a_known and b_known)
            elif operator == COALESCE:
                if not a_known:
                    stack[top], known[top] = b, b_known
            elif not (a_known and b_known):
                known[top] = False
            elif operator >= EQUAL:
                stack[top] = 1.0 if _compare(operator, a, b) else 0.0
            elif operator in (DIVIDE, MODULO) and b == 0.0:
                known[top] = False
            else:
                stack[top] = _compute(operator, a, b)
    return known[0] and stack[0] == 1.0


@kernel(inline="code")
def _push(
    variable, row, depth, in_set, places, counts, tally_set, kinds, tally_column, columns, valid,
    tallies,
):  # fmt: skip
    """Append a row to the match as row number ``depth``, counted from 1."""
    for s in range(counts.shape[0]):
        if in_set[s, variable]:
            places[s, counts[s]] = row
            counts[s] += 1
    for t in range(kinds.shape[0]):
        count, value = tallies[t, depth - 1, 0], tallies[t, depth - 1, 1]
        column = tally_column[t]
        if (tally_set[t] < 0 or in_set[tally_set[t], variable]) and valid[column, row]:
            new = columns[column, row]
            # What is kept is no more than the aggregate needs: equal states fail alike.
            if kinds[t] == COUNT:
                value = 0.0
            elif kinds[t] <= AVG:
                value += new
            elif count == 0.0:
                value = new
            elif kinds[t] == MIN:
                value = new if new < value or value != value else value
            else:
                value = new if new > value or new != new else value
            count = count + 1.0 if kinds[t] == COUNT or kinds[t] == AVG else 1.0
        tallies[t, depth, 0], tallies[t, depth, 1] = count, value


@kernel(inline="code")
def _pop(variable, in_set, counts):
    """Remove the last row of the match."""
    for s in range(counts.shape[0]):
        if in_set[s, variable]:
            counts[s] -= 1


@kernel(inline="code")
def _search(
    start, begin, stop, limit, edge, number, generation, kept, limits, pattern, programs, seen, room
):
    """Search the preferred match from a row; return its length or -1, and the number of steps.

    The length is -2 if the table of failures would exceed its limit, and UNDECIDED if it depends on
    a row from edge on. The arguments are those of ``find_seeing_matches`` in groups, and its
    buffers. The table of failures is returned, since it may have grown.
    """
    steps_before_memory, steps_max, kept_max = limits
    masks, mask_of, variable_of, first, moves = pattern
    code, code_first, constants, cells, columns, valid, label_values = programs
    in_set, tally_set, kinds, tally_column, views, label_views = seen
    path, cursor, places, counts, tallies, stack, known, keys, generations, key, bits = room
    anchored = first.shape[0] > 1
    counts[:] = 0
    depth, length, steps = 0, -1, 0
    path[0] = 0
    place = (1 if start == begin else 0) if anchored else 0
    cursor[0] = first[place, 0]
    while steps <= steps_max:
        row, state = start + depth, path[depth]
        if anchored:
            place = (1 if row == begin else 0) + (2 if row == stop else 0)
        at = cursor[depth]
        remembers = steps > steps_before_memory
        if at == first[place, state + 1]:
            if depth == 0:
                break
            if remembers:
                sign_state(row, state, depth, views, places, counts, tallies, path, variable_of,
                           label_views, bits, key)  # fmt: skip
                keys, generations, kept = keep_failure(keys, generations, generation, kept, key)
                if kept > kept_max:
                    length = -2
                    break
            _pop(variable_of[state], in_set, counts)
            depth -= 1
            continue
        cursor[depth] = at + 1
        target = moves[at]
        if target == 0:
            length = depth
            break
        variable = variable_of[target]
        if row >= limit:
            continue
        if row >= edge:
            length = UNDECIDED
            break
        if mask_of[variable] >= 0 and not masks[mask_of[variable], row]:
            continue
        steps += 1
        path[depth + 1] = target
        _push(variable, row, depth + 1, in_set, places, counts, tally_set, kinds, tally_column,
              columns, valid, tallies)  # fmt: skip
        good = code_first[variable] == code_first[variable + 1]
        good = good or _holds(
            code, code_first[variable], code_first[variable + 1], constants, cells, columns, valid,
            places, counts, tallies, kinds, path, variable_of, label_values, depth + 1, start,
            begin, stop, number, stack, known,
        )  # fmt: skip
        if good and remembers:
            sign_state(row + 1, target, depth + 1, views, places, counts, tallies, path,
                       variable_of, label_views, bits, key)  # fmt: skip
            good = slot_of(keys, generations, generation, key) < 0
        if not good:
            _pop(variable, in_set, counts)
            continue
        depth += 1
        if anchored:
            place = 2 if row + 1 == stop else 0
        cursor[depth] = first[place, target]
    return length, steps, keys, generations, kept


@kernel(inline="code")
def _seek(
    start, begin, stop, limit, edge, number, generation, kept, shared, sight, barren, limits,
    pattern, programs, seen, room,
):  # fmt: skip
    """Search the match of a row; return where it begins, and what ``_search`` returns.

    With a sight of 0 or more, a row without a match has the next one. From the rows before
    ``barren`` on there is no match, whatever row farther away than the sight asks.
    """
    steps_before_memory, steps_max, kept_max = limits
    path, cursor, places, counts, tallies, stack, known, keys, generations, key, bits = room
    origin, total = start, 0
    while True:
        if not shared or 2 * kept > kept_max:
            generation, kept = generation + 1, 0
        now = (path, cursor, places, counts, tallies, stack, known, keys, generations, key, bits)
        left = (steps_before_memory, steps_max - total, kept_max)
        length, steps, keys, generations, kept = _search(
            origin, begin, stop, limit, edge, number, generation, kept, left, pattern, programs,
            seen, now,
        )  # fmt: skip
        total += steps
        if length != -1 or sight < 0 or total > steps_max:
            break
        if origin >= start + sight:
            barren = max(barren, origin + 1)
        origin += 1
        if origin >= start + sight:
            origin = max(origin, barren)
        if origin >= limit:
            break
    return origin, length, total, keys, generations, generation, kept, barren


PATIENCE = 20_000
"""Steps of a call if few are expected: in Python they take less than a second."""

ENDLESS = 1 << 62
"""The patience of a call that goes on to the end."""


def _work(bounds, *rest):
    """Estimate the work: a search backtracks, so most rows are read several times.

    The factor is unknown: a call with patience first tries with few steps, and a call without it
    follows if they were not enough.
    """
    rows = 8.0 * float(bounds[-1] - bounds[0])
    patience = rest[-8]  # It comes before the length of partitions and the buffers.
    return rows if patience < ENDLESS else max(rows, 1e9)


@kernel(work=_work)
def find_seeing_matches(
    bounds, resume, masks, mask_of, variable_of, first, moves, limits, opened, mode, is_target,
    unmatched, sight, confined, code, code_first, constants, cells, columns, valid, in_set,
    tally_set, kinds, tally_column, label_values, views, label_views, shared, steps_before_memory,
    steps_max, kept_max, patience, longest, path, cursor, starts, lengths, numbers, states,
):  # fmt: skip
    """Find all matches of all partitions; parameters and result are those of ``find_matches``.

    mask_of[v]: the mask of a variable's condition on its row alone, or -1. code[code_first[v]] up
    to code_first[v + 1]: the program of the rest of its condition. cells: set of variables (or -1),
    from the first, offset, shift, column. in_set[s, v]: whether a variable is in a set. tally_*:
    the aggregates. shared: a failure for one start holds for all. steps_before_memory: a search
    that ends sooner remembers nothing, since remembering costs more than trying again. steps_max,
    kept_max: steps that one partition may take, and failures that one search may remember.
    patience: steps after which the call ends as if its buffers were full. sight: -1, or if rows
    seek a match, how many rows before it conditions see. confined: conditions see no row outside of
    those from the row that has the match up to its limit.
    """
    p, start, number, taken = resume[0], resume[1], resume[2], resume[3]
    count, used, result = 0, 0, DONE
    places = np.zeros((in_set.shape[0], longest + 1), np.int64)
    counts = np.zeros(in_set.shape[0], np.int64)
    tallies = np.zeros((kinds.shape[0], longest + 2, 2))
    stack, known = np.zeros(STACK_MAX), np.zeros(STACK_MAX, np.bool_)
    keys, generations = np.zeros((1 << 12, 2), np.uint64), np.zeros(1 << 12, np.int64)
    generation, kept, spent = 1, 0, 0
    key, bits = np.zeros(2, np.uint64), np.zeros(1)
    pattern = (masks, mask_of, variable_of, first, moves)
    programs = (code, code_first, constants, cells, columns, valid, label_values)
    seen = (in_set, tally_set, kinds, tally_column, views, label_views)
    is_open = opened.shape[0] > 0
    while p + 1 < bounds.shape[0] and result == DONE:
        begin, stop = bounds[p], bounds[p + 1]
        first_start, edge = edges_of(opened, p, begin, stop)
        if start < begin:
            start, number, taken = first_start, 0, begin - 1
        left = steps_max
        generation, kept, barren = generation + 1, 0, begin
        while start < stop and result == DONE:
            let_signals_in(start)
            if count == starts.shape[0] or used + (stop - start) > states.shape[0]:
                result = FULL
                break
            limit = limits[start] if limits.shape[0] > 0 else stop + is_open
            low, high = (start, limit) if confined else (begin, stop)
            room = (
                path, cursor, places, counts, tallies, stack, known, keys, generations, key, bits
            )  # fmt: skip
            bounds_of_search = (steps_before_memory, min(left, patience - spent), kept_max)
            origin, length, steps, keys, generations, generation, kept, barren = _seek(
                start, low, high, limit, edge, number + 1, generation, kept, shared, sight,
                begin if limits.shape[0] > 0 else barren, bounds_of_search, pattern, programs,
                seen, room,
            )  # fmt: skip
            left, spent = left - steps, spent + steps
            if left < 0 or length == -2:
                result = TOO_LONG if left < 0 else TOO_MANY
                break
            if spent > patience:
                result = FULL
                break
            if is_undecided(length, start, opened, p):
                break
            if length < 0:
                if unmatched and start > taken:
                    starts[count], lengths[count], numbers[count] = start, -1, 0
                    count += 1
                start += 1
                continue
            number += 1
            starts[count], lengths[count] = origin, length
            numbers[count] = start if sight >= 0 else number
            count += 1
            for i in range(length):
                states[used + i] = path[i + 1]
            used += length
            taken = max(taken, origin + length - 1)
            following = next_start(origin, start, length, mode, is_target, variable_of, path[1:])
            result = -following if following < 0 else DONE
            start = max(start, following)
        if result == DONE:
            if is_open:
                opened[p, UNDECIDED_START] = start
            p += 1
            start = stop if p + 1 == bounds.shape[0] else bounds[p] - 1
    resume[0], resume[1], resume[2], resume[3] = p, start, number, taken
    resume[4], resume[5] = count, used
    return result
