"""Read the values of fields of lines of JSON: which are distinct, and their texts without escapes.

``json_lines.py`` tells where values stand; a field is known by its number there.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.json_lines import ESCAPED, NULL, hex_value, slot_of_name
from cepheid.kernels.tiers import kernel

_BACKSLASH, _TAB, _RETURN, _NEWLINE = 92, 9, 13, 10


@kernel(borrows=True)
def find_fields(numbers, firsts, rows, name, fields):
    """Find the field of a name in each of some rows, -1 where a row has none."""
    behind = 0
    for place in range(rows.shape[0]):
        row = rows[place]
        first, end = firsts[row], firsts[row + 1]
        found = -1
        # Lines of one program have their fields at the same places.
        if first + behind < end and numbers[first + behind] == name:
            found = first + behind
        else:
            for field in range(first, end):
                if numbers[field] == name:
                    found = field
                    behind = field - first
                    break
        fields[place] = found


@kernel(borrows=True)
def find_names(numbers, firsts, rows, seen):
    """Mark the names that some rows have."""
    for place in range(rows.shape[0]):
        row = rows[place]
        for field in range(firsts[row], firsts[row + 1]):
            seen[numbers[field]] = True


@kernel(borrows=True)
def _is_same(data, begins, stops, found, one, other):
    """Check whether two fields have the same value, as it stands."""
    begin, start = begins[one], begins[other]
    length = stops[one] - begin
    # A text stands without its quotes, so a list may have the same bytes.
    if stops[other] - start != length or found[one] != found[other]:
        return False
    different = np.uint8(0)
    for ahead in range(length):
        different |= data[start + ahead] ^ data[begin + ahead]
    return different == 0


@kernel(borrows=True)
def tell_values_apart(data, begins, stops, found, fields, slots, codes, distinct, state):
    """Give the values of fields numbers as they appear, -1 to a field of -1 or NULL.

    Parameters
    ----------
    slots
        A table of a power of two, with -1 everywhere. When it is half full, the call returns, and
        another one with a larger table goes on.
    codes, distinct
        The number of each field's value, and the first field of each value.
    state
        How many fields are done, and how many values there are.

    Returns
    -------
    Whether all fields are done.
    """
    done, count = state[0], state[1]
    mask = slots.shape[0] - 1
    for number in range(count):
        field = distinct[number]
        slot = slot_of_name(data, begins[field], stops[field], slots)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number
    for place in range(done, fields.shape[0]):
        field = fields[place]
        codes[place] = -1
        if field < 0 or found[field] == NULL:
            continue
        if 2 * count > mask:
            state[0], state[1] = place, count
            return False
        slot = slot_of_name(data, begins[field], stops[field], slots)
        while slots[slot] >= 0:
            number = slots[slot]
            if _is_same(data, begins, stops, found, field, distinct[number]):
                codes[place] = number
                break
            slot = (slot + 1) & mask
        if codes[place] < 0:
            slots[slot] = count
            codes[place] = count
            distinct[count] = field
            count += 1
    state[0], state[1] = fields.shape[0], count
    return True


@kernel(borrows=True)
def copy_texts(data, begins, stops, found, fields, offsets, out):
    """Copy the values of fields one after another, without their escapes; note where each ends."""
    end = 0
    offsets[0] = 0
    for place in range(fields.shape[0]):
        field = fields[place]
        begin, stop = begins[field], stops[field]
        if found[field] != ESCAPED:
            for at in range(begin, stop):
                out[end] = data[at]
                end += 1
        else:
            at = begin
            while at < stop:
                byte = data[at]
                if byte != _BACKSLASH:
                    out[end] = byte
                    end += 1
                    at += 1
                    continue
                byte = data[at + 1]
                at += 2
                if byte != 117:
                    out[end] = _plain_byte(byte)
                    end += 1
                    continue
                code = 0
                for ahead in range(4):
                    code = code * 16 + hex_value(data[at + ahead])
                at += 4
                end = _write_code(code, out, end)
        offsets[place + 1] = end
    return end


@kernel(borrows=True)
def _plain_byte(byte):
    """Return what a letter behind a backslash stands for."""
    plain = byte
    if byte == 98:
        plain = 8
    elif byte == 102:
        plain = 12
    elif byte == 110:
        plain = _NEWLINE
    elif byte == 114:
        plain = _RETURN
    elif byte == 116:
        plain = _TAB
    return plain


@kernel(borrows=True)
def _write_code(code, out, end):
    """Write a character of at most 16 bits as UTF-8; return where it ends."""
    if code < 0x80:
        out[end] = code
        return end + 1
    if code < 0x800:
        out[end] = 0xC0 | (code >> 6)
        out[end + 1] = 0x80 | (code & 63)
        return end + 2
    out[end] = 0xE0 | (code >> 12)
    out[end + 1] = 0x80 | ((code >> 6) & 63)
    out[end + 2] = 0x80 | (code & 63)
    return end + 3
