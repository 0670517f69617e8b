"""The cases in SiddhiQL, which ``SiddhiPeer.java`` runs over the CSV file as the stream ``E``.

``win`` is the number of the window of ten seconds. Siddhi's WITHIN includes its end, ours does not.
"""

from __future__ import annotations

_BY_HOST, _BY_KEY = (f"partition with ({name} of E) begin {{}} end;" for name in ("host", "key"))

VARIANTS: dict[str, tuple[str, ...]] = {
    "seq": (
        _BY_KEY.format(
            """from every a=E[type == 'A'] -> every b=E[type == 'B' and win == a.win]
                   -> every c=E[type == 'C' and win == a.win] within 10 sec
               select a.key as key, a.win as win insert into Matches;"""
        ),
    ),
    "within": (
        # The time of WITHIN is not that of the first event where a later one has EVERY.
        _BY_HOST.format(
            """from every a=E[type == 'A'] -> every b=E[type == 'B' and ts < a.ts + 1000]
                   -> every c=E[type == 'C' and ts < a.ts + 1000] within 1 sec
               select a.host as host, a.ts as a, c.ts as c insert into Rows;"""
        ),
    ),
    "next": (
        _BY_HOST.format(
            """from every a=E[type == 'A'] -> b=E[type == 'B'] -> c=E[type == 'C']
                   within 999 millisec
               select a.host as host, a.ts as a, c.ts as c insert into Rows;"""
        ),
    ),
    "runs": (
        _BY_KEY.format(
            """from every s=E, d=E[(d[last].price is null and price < s.price)
                                   or price < d[last].price]+, u=E[price >= d[last].price]
               select s.key as key, s.ts as begin, s.price as p0, d[last].price as p1
               insert into Rows;"""
        ),
    ),
    "funnel": (
        _BY_KEY.format(
            """from E[type == 'view'] select 1 as step, key insert into Steps;
               from every v=E[type == 'view'] -> c=E[type == 'cart'] within 300000 millisec
               select 2 as step, v.key as key insert into Steps;
               from every v=E[type == 'view'] -> c=E[type == 'cart'] -> o=E[type == 'order']
                   within 300000 millisec
               select 3 as step, v.key as key insert into Steps;"""
        ),
    ),
    "absence": (
        _BY_KEY.format(
            """from every o=E[type == 'order'] -> not E[type == 'payment'] for 60 sec
               select o.key as key, o.ts as ts insert into Rows;"""
        ),
    ),
    "select": (
        """from E#window.externalTimeBatch(ts, 10 sec, 0)
           select key, count() as n, avg(price) as mean, max(price) as top
           group by key insert into Rows;""",
    ),
}
DASHES = {
    "plus": "a pattern A<1:> collects the events of one match, not all combinations",
    "trailing": "no fold over a window without a function written in Java",
    "trends": "no loop whose events may be skipped",
}
