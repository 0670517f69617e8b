"""The cases in Esper's language, which ``EsperPeer.java`` runs over the CSV file as events ``E``.

``win`` is the number of the window of ten seconds. Statements that are called rows, matches and
steps give rows of the answer, matches of a key and window, and keys that reach a step.
"""

from __future__ import annotations

_FOLD = """
    create table counts (key long primary key, win long primary key, a double, b double, c double);
    on E as e merge counts as t where t.key = e.key and t.win = e.win
        {steps}
        when not matched and e.type = 'A' then
            insert select e.key as key, e.win as win, 1d as a, 0d as b, 0d as c;
    @name('rows') on E(type = 'end') select t.key as key, t.c as c from counts as t where t.c > 0;
"""
"""Counts of every key and window in a table; the last event of a file is of the type ``end``."""

_ANY = """
    @name('{name}') select {columns} from pattern [
        every a=E(type = 'A') -> (
            every b=E(type = 'B' and {same}) -> every c=E(type = 'C' and {same})
        ) where timer:within({within})];
"""

VARIANTS: dict[str, tuple[str, ...]] = {
    "plus": (
        _FOLD.format(
            steps="""when matched and e.type = 'A' then update set t.a = 2 * t.a + 1
        when matched and e.type = 'B' then update set t.c = t.c + t.a"""
        ),
    ),
    "seq": (
        _ANY.format(
            name="matches",
            columns="a.key as key, a.win as win",
            same="key = a.key and win = a.win",
            within="10 sec",
        ),
        _FOLD.format(
            steps="""when matched and e.type = 'A' then update set t.a = t.a + 1
        when matched and e.type = 'B' then update set t.b = t.b + t.a
        when matched and e.type = 'C' then update set t.c = t.c + t.b"""
        ),
    ),
    "within": (
        _ANY.format(
            name="rows",
            columns="a.host as host, a.ts as a, c.ts as c",
            same="host = a.host",
            within="1 sec",
        ),
    ),
    "next": (
        """@name('rows') select a.host as host, a.ts as a, c.ts as c from pattern [
               every a=E(type = 'A') -> (
                   b=E(type = 'B' and host = a.host) -> c=E(type = 'C' and host = a.host)
               ) where timer:within(1 sec)];""",
    ),
    "runs": (
        """@name('rows') select * from E match_recognize (
               partition by key
               measures s.key as key, s.ts as begin, s.price as p0,
                   last(d.price) as p1
               after match skip to next row
               pattern (s d+ u)
               define s as prev(s.price) is null or s.price >= prev(s.price),
                   d as d.price < prev(d.price), u as u.price >= prev(u.price));""",
    ),
    "funnel": (
        """@name('steps1') select 1 as step, key from E(type = 'view');
           @name('steps2') select 2 as step, v.key as key from pattern [
               every v=E(type = 'view') -> c=E(type = 'cart' and key = v.key)
                   where timer:within(300001 msec)];
           @name('steps3') select 3 as step, v.key as key from pattern [
               every v=E(type = 'view') -> (
                   c=E(type = 'cart' and key = v.key) -> o=E(type = 'order' and key = v.key)
               ) where timer:within(300001 msec)];""",
    ),
    "absence": (
        """@name('rows') select o.key as key, o.ts as ts from pattern [
               every o=E(type = 'order') -> (
                   timer:interval(60 sec) and not E(type = 'payment' and key = o.key))];""",
    ),
    "select": (
        """@name('rows') select key, count(*) as n, avg(price) as mean, max(price) as top
           from E#time_batch(10 sec, 0L) group by key having count(*) > 0;""",
    ),
}
DASHES = {
    "trailing": "no fold over a window without an aggregation function written in Java",
    "trends": "loops of patterns take every event that fits, and match_recognize is contiguous",
}
