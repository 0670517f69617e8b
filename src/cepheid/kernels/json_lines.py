"""Find the fields of lines of JSON: where each value is, and of what kind.

Nothing is copied. A field has the number of its name, the bytes between which its value stands, and
a kind; texts stand without their quotes. A line that is no plain object, such as one with an escape
in a name or with a name twice, is *odd*: it is left out, and the caller is told where it is.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel
from cepheid.kernels.utf8 import is_utf8

NULL, TRUTH, WHOLE, NUMBER, TEXT, ESCAPED, LIST, OBJECT = range(8)
"""The kinds of values: whole numbers are of 64 bits, and escaped texts have a backslash."""

DONE, NEW_NAME, NO_ROOM, ODD_LINE = range(4)
"""Why a scan stops: at the end, at a name that is not known, or where arrays are full."""

NO_DATE, MAYBE_DATE, A_DATE = range(3)
"""Whether a text is a time."""

PLACE, FIELDS, ROWS, ODD, BEGIN, END, STATE = range(7)
"""What a scan remembers: where it is, how much it has found, and the bytes of a new name."""

_QUOTE, _BACKSLASH, _SPACE, _TAB, _RETURN, _NEWLINE = 34, 92, 32, 9, 13, 10
_COMMA, _MINUS, _POINT, _ZERO, _NINE, _COLON, _PLUS = 44, 45, 46, 48, 57, 58, 43
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_FACTOR, _MASK = 16_777_619, (1 << 32) - 1
_DIGITS, _LARGEST = 19, (1 << 63) - 1
_EXPONENT_MAX, _LENGTH_MAX, _DATE_LENGTH = 2, 40, 10
_TIME_LENGTH, _LETTER_T = 19, 84
_ASCII = 128
_FIRST, _VALUE, _NEXT = range(3)
_DEPTH_MAX = 62
_BAD = -1


@kernel(borrows=True)
def _after_spaces(data, place, end):
    while place < end and (data[place] == _SPACE or data[place] == _TAB or data[place] == _RETURN):
        place += 1
    return place


@kernel(borrows=True)
def hex_value(byte):
    """Return the value of a hexadecimal digit, -1 of another byte."""
    if byte >= _ZERO and byte <= _NINE:
        return np.int64(byte) - _ZERO
    if (byte >= 97 and byte <= 102) or (byte >= 65 and byte <= 70):
        return (np.int64(byte) | 32) - 87
    return np.int64(-1)


@kernel(borrows=True)
def _after_escape(data, place, end):
    """Return the place behind an escape that begins at ``place``; _BAD for a mistake."""
    if place + 1 >= end:
        return _BAD
    byte = data[place + 1]
    if byte == 117:
        if place + 5 >= end:
            return _BAD
        code = 0
        for ahead in range(2, 6):
            value = hex_value(data[place + ahead])
            if value < 0:
                return _BAD
            code = code * 16 + value
        # A half of a pair: the other one may follow or not.
        return _BAD if code >= 0xD800 and code < 0xE000 else place + 6
    for known in (_QUOTE, _BACKSLASH, 47, 98, 102, 110, 114, 116):
        if byte == known:
            return place + 2
    return _BAD


@kernel(borrows=True)
def _end_of_text(data, place, end):
    """Find the quote that ends a text, _BAD after a mistake; and what is in the text.

    That is 1 where there is a backslash, plus 2 for bytes beyond ASCII.
    """
    seen = 0
    while place < end:
        byte = data[place]
        if byte == _QUOTE:
            return place, seen
        if byte < _SPACE:
            return _BAD, seen
        if byte == _BACKSLASH:
            seen |= 1
            place = _after_escape(data, place, end)
            if place < 0:
                return _BAD, seen
        else:
            if byte >= _ASCII:
                seen |= 2
            place += 1
    return _BAD, seen


@kernel(borrows=True)
def _end_of_number(data, place, end):
    """Find the end of a number, _BAD if it is none, and whether it is a whole one of 64 bits."""
    begin = place
    if data[place] == _MINUS:
        place += 1
    first, value, fits = place, np.uint64(0), True
    while place < end and data[place] >= _ZERO and data[place] <= _NINE:
        value = value * np.uint64(10) + np.uint64(data[place] - np.uint8(_ZERO))
        place += 1
    digits = place - first
    if digits == 0 or (digits > 1 and data[first] == _ZERO):
        return _BAD, False
    limit = np.uint64(_LARGEST) + np.uint64(first - begin)
    whole = digits < _DIGITS or (digits == _DIGITS and value <= limit)
    if place < end and data[place] == _POINT:
        whole = False
        place += 1
        first = place
        while place < end and data[place] >= _ZERO and data[place] <= _NINE:
            place += 1
        fits = place > first
    if fits and place < end and (data[place] | 32) == 101:
        whole = False
        place += 1
        if place < end and (data[place] == _PLUS or data[place] == _MINUS):
            place += 1
        first = place
        while place < end and data[place] >= _ZERO and data[place] <= _NINE:
            place += 1
        # Larger exponents may not fit a double.
        fits = place > first and place - first <= _EXPONENT_MAX
    if not fits or (not whole and place - begin > _LENGTH_MAX):
        return _BAD, False
    return place, whole


@kernel(borrows=True)
def _end_of_word(data, place, end):
    """Find the place behind true, false or null, and its kind; _BAD for other words."""
    length, kind = 4, NULL
    if data[place] == 102:
        length = 5
    if place + length > end:
        return _BAD, kind
    a, b, c, d = data[place], data[place + 1], data[place + 2], data[place + 3]
    if length == 5:
        fits = b == 97 and c == 108 and d == 115 and data[place + 4] == 101
        kind = TRUTH
    elif a == 116:
        fits = b == 114 and c == 117 and d == 101
        kind = TRUTH
    else:
        fits = a == 110 and b == 117 and c == 108 and d == 108
    return (place + length if fits else _BAD), kind


@kernel(borrows=True)
def _end_of_nested(data, place, end):
    """Find the place behind a list or object; _BAD after a mistake, or if it is too deep.

    The bits of ``objects`` tell which of the open brackets are those of objects.
    """
    depth, objects, wanted = 0, np.int64(0), _VALUE
    while True:
        place = _after_spaces(data, place, end)
        if place >= end:
            return _BAD
        byte = data[place]
        if byte in (_CLOSE, _CLOSE_LIST):
            if wanted not in (_FIRST, _NEXT) or (objects & 1 == 1) != (byte == _CLOSE):
                return _BAD
            place, depth, objects, wanted = place + 1, depth - 1, objects >> 1, _NEXT
            if depth == 0:
                return place
            continue
        if wanted == _NEXT:
            if byte != _COMMA:
                return _BAD
            place, wanted = place + 1, _VALUE
            continue
        if objects & 1:
            stop = _BAD
            if byte == _QUOTE:
                stop, _ = _end_of_text(data, place + 1, end)
            if stop < 0:
                return _BAD
            place = _after_spaces(data, stop + 1, end)
            if place >= end or data[place] != _COLON:
                return _BAD
            place = _after_spaces(data, place + 1, end)
            if place >= end:
                return _BAD
            byte = data[place]
        if byte in (_OPEN, _OPEN_LIST):
            if depth == _DEPTH_MAX:
                return _BAD
            depth, wanted = depth + 1, _FIRST
            objects = objects << 1 | np.int64(byte == _OPEN)
            place += 1
            continue
        place, wanted = _end_of_plain(data, place, end), _NEXT
        if place < 0:
            return _BAD


@kernel(borrows=True)
def _end_of_plain(data, place, end):
    """Find the place behind a text, number or word; _BAD after a mistake."""
    byte = data[place]
    if byte == _QUOTE:
        stop, _ = _end_of_text(data, place + 1, end)
        return stop + 1 if stop >= 0 else np.int64(_BAD)
    if byte == _MINUS or (byte >= _ZERO and byte <= _NINE):
        stop, _ = _end_of_number(data, place, end)
    else:
        stop, _ = _end_of_word(data, place, end)
    return stop


@kernel(borrows=True)
def slot_of_name(data, begin, end, slots):
    """Return the first place to look for a name in a table of a power of two.

    Four sums of bytes grow side by side, as each addition waits for the one before.
    """
    a, b, c, d = np.int64(end - begin), np.int64(1), np.int64(2), np.int64(3)
    place = begin
    while place + 4 <= end:
        a = ((a ^ np.int64(data[place])) * _FACTOR) & _MASK
        b = ((b ^ np.int64(data[place + 1])) * _FACTOR) & _MASK
        c = ((c ^ np.int64(data[place + 2])) * _FACTOR) & _MASK
        d = ((d ^ np.int64(data[place + 3])) * _FACTOR) & _MASK
        place += 4
    while place < end:
        a = ((a ^ np.int64(data[place])) * _FACTOR) & _MASK
        place += 1
    mixed = a ^ ((b * _FACTOR) & _MASK) ^ ((c * 40_503) & _MASK) ^ ((d * 65_599) & _MASK)
    mixed ^= mixed >> 15
    return (mixed ^ (mixed >> 7)) & (slots.shape[0] - 1)


@kernel(borrows=True)
def _number_of_name(data, begin, end, names, ends, slots):
    """Look up the number of a name; -1 if it is new."""
    slot = slot_of_name(data, begin, end, slots)
    while slots[slot] >= 0:
        number = slots[slot]
        first = ends[number]
        if ends[number + 1] - first == end - begin:
            same = True
            for ahead in range(end - begin):
                same &= names[first + ahead] == data[begin + ahead]
            if same:
                return np.int64(number)
        slot = (slot + 1) & (slots.shape[0] - 1)
    return np.int64(-1)


@kernel(borrows=True)
def _is_name(data, place, end, names, ends, number):
    """Check whether a name and its quote stand at a place."""
    first = ends[number]
    length = ends[number + 1] - first
    if place + length >= end or data[place + length] != _QUOTE:
        return False
    same = True
    for ahead in range(length):
        same &= names[first + ahead] == data[place + ahead]
    return same


@kernel(borrows=True)
def _forget(numbers, last, first, count):
    """Take back the fields of a line that is not finished."""
    for field in range(first, count):
        last[numbers[field]] = -1
    return first


@kernel(borrows=True)
def _value_at(data, place, end):
    """Find the value at a place: its begin and end, what is behind it, its kind, and bytes.

    The end is _BAD after a mistake; bytes are 2 where some may be beyond ASCII.
    """
    byte, begin, beyond, kind = data[place], place, 0, TEXT
    if byte == _QUOTE:
        begin += 1
        stop, seen = _end_of_text(data, begin, end)
        place = stop + 1
        beyond = seen & 2
        if seen & 1:
            kind = ESCAPED
        return begin, stop, place, kind, beyond
    if byte in (_OPEN, _OPEN_LIST):
        kind = OBJECT if byte == _OPEN else LIST
        beyond = 2  # What stands inside may be anything.
        stop = _end_of_nested(data, place, end)
    elif byte == _MINUS or (byte >= _ZERO and byte <= _NINE):
        stop, whole = _end_of_number(data, place, end)
        kind = WHOLE if whole else NUMBER
    else:
        stop, kind = _end_of_word(data, place, end)
    return begin, stop, stop, kind, beyond


@kernel(borrows=True)
def _name_at(data, place, end, names, ends, slots, following, before, state):
    """Find the number of the name at a place, and the place of the quote behind it.

    The place is _BAD after a mistake. The number is -1 for a new name, which ``state`` tells of.
    """
    number = following[before]
    if number >= 0 and _is_name(data, place, end, names, ends, number):
        return number, place + ends[number + 1] - ends[number], 0
    stop, seen = _end_of_text(data, place, end)
    if stop < 0 or seen & 1:
        return number, np.int64(_BAD), seen
    number = _number_of_name(data, place, stop, names, ends, slots)
    if number < 0:
        state[BEGIN], state[END] = place, stop
    elif seen == 0:
        following[before] = number  # Bytes beyond ASCII are to be seen in each line.
    return number, stop, seen & 2


@kernel(borrows=True)
def _two_digits(data, place):
    """Return the number of two digits, 100 if they are none."""
    tens, ones = data[place], data[place + 1]
    if tens < _ZERO or tens > _NINE or ones < _ZERO or ones > _NINE:
        return 100
    return (np.int64(tens) - _ZERO) * 10 + np.int64(ones) - _ZERO


@kernel(borrows=True)
def _date_at(data, begin, stop, kind):
    """Tell whether a text is a time as Arrow reads them: NO_DATE, MAYBE_DATE or A_DATE.

    Of the many forms, only the usual one is read: 2026-01-31 10:00:00 of days that all months have.
    """
    if stop - begin < _DATE_LENGTH:
        return NO_DATE
    if kind == ESCAPED:
        return MAYBE_DATE
    if data[begin + 4] != _MINUS or data[begin + 7] != _MINUS:
        return NO_DATE
    between = data[begin + 10] if stop - begin == _TIME_LENGTH else _ZERO
    if between not in (_SPACE, _LETTER_T):
        return MAYBE_DATE
    if data[begin + 13] != _COLON or data[begin + 16] != _COLON:
        return MAYBE_DATE
    month, day = _two_digits(data, begin + 5), _two_digits(data, begin + 8)
    known = _two_digits(data, begin) >= 19 and _two_digits(data, begin) < 100
    known = known and _two_digits(data, begin + 2) < 100
    known = known and month >= 1 and month <= 12 and day >= 1 and day <= 28
    known = known and _two_digits(data, begin + 11) < 24 and _two_digits(data, begin + 14) < 60
    return A_DATE if known and _two_digits(data, begin + 17) < 60 else MAYBE_DATE


@kernel(borrows=True)
def _scan_line(
    data, place, end, names, ends, slots, following, last, dated, unsure, numbers, begins, stops,
    found, first, state
):  # fmt: skip
    """Find the fields of a line; return why it ends, its end and the number of fields so far."""
    count, before, beyond, line = first, 0, 0, place
    if data[place] != _OPEN:
        return ODD_LINE, place, count
    place = _after_spaces(data, place + 1, end)
    if place < end and data[place] == _CLOSE:
        return DONE, place + 1, count
    while place < end and data[place] == _QUOTE:
        number, place, seen = _name_at(
            data, place + 1, end, names, ends, slots, following, before, state
        )
        beyond |= seen
        if place < 0:
            return ODD_LINE, place, count
        if number < 0:
            return NEW_NAME, place, count
        before = number + 1
        place = _after_spaces(data, place + 1, end)
        if place >= end or data[place] != _COLON or last[number] >= first:
            return ODD_LINE, place, count
        if count >= numbers.shape[0]:
            return NO_ROOM, place, count
        place = _after_spaces(data, place + 1, end)
        if place >= end:
            return ODD_LINE, place, count
        begin, stop, place, kind, seen = _value_at(data, place, end)
        beyond |= seen
        if stop < 0:
            return ODD_LINE, place, count
        if dated[number] and kind >= TEXT:
            date = NO_DATE if kind > ESCAPED else _date_at(data, begin, stop, kind)
            dated[number] = date != NO_DATE
            unsure[number] |= date == MAYBE_DATE
        numbers[count], begins[count], stops[count], found[count] = number, begin, stop, kind
        last[number] = count
        count += 1
        place = _after_spaces(data, place, end)
        if place < end and data[place] == _CLOSE:
            good = beyond == 0 or is_utf8(data, line, place)
            return (DONE if good else ODD_LINE), place + 1, count
        if place >= end or data[place] != _COMMA:
            return ODD_LINE, place, count
        place = _after_spaces(data, place + 1, end)
    return ODD_LINE, place, count


@kernel(borrows=True)
def scan_lines(
    data, end, names, ends, slots, following, last, kinds, dated, unsure, numbers, begins, stops,
    found, firsts, lines, odd, state
):  # fmt: skip
    """Scan lines from ``state[PLACE]`` on; if it stops before the end, it is called again.

    Parameters
    ----------
    names, ends, slots
        The known names, one after another, where each ends, and the table of their hashes.
    following, last
        For each name the one that came next, and the last field that had it; -1 at first.
    kinds, dated, unsure
        For each name the set of kinds of its values as bits, whether all texts may be times, and
        whether one of them may be none.
    numbers, begins, stops, found
        Of each field the number of its name, the bytes of its value, and its kind.
    firsts, lines
        The first field of each row, and the begin of its line; the end of rows is the next one.
    odd
        The begins and ends of odd lines.

    Returns
    -------
    DONE, NEW_NAME or NO_ROOM.
    """
    count, rows, odds = state[FIELDS], state[ROWS], state[ODD]
    line, why = state[PLACE], DONE
    while line < end:
        if rows + 2 > firsts.shape[0] or 2 * odds + 2 > odd.shape[0]:
            why = NO_ROOM
            break
        firsts[rows], lines[rows] = count, line
        place, first = _after_spaces(data, line, end), count
        if place >= end or data[place] == _NEWLINE:
            line = place + 1
            continue
        why, place, count = _scan_line(
            data, place, end, names, ends, slots, following, last, dated, unsure, numbers, begins,
            stops, found, first, state
        )  # fmt: skip
        if why == DONE:
            place = _after_spaces(data, place, end)
            if place < end and data[place] != _NEWLINE:
                why = ODD_LINE
        if why == DONE:
            for field in range(first, count):
                kinds[numbers[field]] |= 1 << np.int64(found[field])
            rows += 1
            line = place + 1
            continue
        count = _forget(numbers, last, first, count)
        if why != ODD_LINE:
            break
        why, place = DONE, line
        while place < end and data[place] != _NEWLINE:
            place += 1
        odd[2 * odds], odd[2 * odds + 1] = line, place
        odds += 1
        line = place + 1
    line = min(line, end)
    firsts[rows], lines[rows] = count, line
    state[PLACE], state[FIELDS], state[ROWS], state[ODD] = line, count, rows, odds
    return why
