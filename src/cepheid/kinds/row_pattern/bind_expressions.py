"""Expressions as written in, bound ones out: every value says from which row it comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from cepheid.errors import Diagnostic, Span, suggest_names
from cepheid.expressions.functions import FUNCTIONS
from cepheid.kinds.row_pattern import tree

AGGREGATES = {
    "COUNT": (1, 1),
    "SUM": (1, 1),
    "AVG": (1, 1),
    "MIN": (1, 2),
    "MAX": (1, 2),
    "ARRAY_AGG": (1, 1),
    "COLLECT_LIST": (1, 1),
    "BOOL_OR": (1, 1),
    "BOOL_AND": (1, 1),
    "EVERY": (1, 1),
    "ANY_VALUE": (1, 1),
    "ARBITRARY": (1, 1),
    "COUNT_IF": (1, 1),
    "MIN_BY": (2, 3),
    "MAX_BY": (2, 3),
    "HISTOGRAM": (1, 1),
    "MAP_AGG": (2, 2),
    "STRING_AGG": (2, 2),
    "LISTAGG": (1, 2),
    "STDDEV": (1, 1),
    "STDDEV_SAMP": (1, 1),
    "STDDEV_POP": (1, 1),
    "VARIANCE": (1, 1),
    "VAR_SAMP": (1, 1),
    "VAR_POP": (1, 1),
}
"""Aggregates and how many arguments they take."""

_NAVIGATION = {"LAG": "write `PREV(price)`", "LEAD": "write `NEXT(price)`"}
"""Functions of windows, and what a clause has in their place."""

SORTED = frozenset({"ARRAY_AGG", "COLLECT_LIST", "STRING_AGG", "LISTAGG"})
"""Aggregates whose value depends on the order of rows."""


def find_column(name: str, columns: Sequence[str]) -> str | None:
    """Return the column that a name means: the same letters, or the same but for their case.

    Examples
    --------
    >>> find_column("PRICE", ["ts", "price"])
    'price'
    """
    if name in columns:
        return name
    alike = [column for column in columns if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


class Binder:
    """Binds expressions of one clause.

    Parameters
    ----------
    columns
        The columns of the input.
    known
        The variables, primary and union, and the primary ones that each stands for.
    findings
        Takes what is wrong.
    tables
        The names of the input, which may stand before its columns.
    """

    def __init__(
        self,
        columns: Sequence[str],
        known: Mapping[str, frozenset[str]],
        findings: list[Diagnostic],
        tables: Sequence[str] = (),
    ) -> None:
        self._tables = frozenset(name.upper() for name in tables)
        self._columns = columns
        self._known = known
        self._findings = findings
        self._in_define = False
        self._earlier: dict[str, tree.Expression] = {}
        self.derived: dict[str, tree.Expression] = {}
        """Columns to be computed from those of the input, by their names."""

    def measure(self, expression: tree.Expression) -> tree.Expression:
        """Return a bound expression of MEASURES."""
        self._in_define = False
        return self._bind(expression)

    def measures(self, measures: Sequence[tree.Measure]) -> Iterator[tuple[str, tree.Expression]]:
        """Yield bound measures; one may name those before it where the input has no such column."""
        for measure in measures:
            bound = self.measure(measure.expression)
            self._earlier[measure.name.lower()] = bound
            yield measure.name, bound
        self._earlier = {}

    def condition(self, expression: tree.Expression) -> tree.Expression:
        """Return a bound condition of DEFINE."""
        self._in_define = True
        return self._bind(expression)

    def over_row(self, expression: tree.Expression) -> tree.Expression:
        """Return a bound expression over one row."""
        self._in_define = False
        return self._row(expression, set())

    def key(self, column: tree.Column) -> str:
        """Return the name of the column of a key; it may have to be computed."""
        if isinstance(column, tree.Computed):
            inner = self.over_row(column.expression)
            if any(isinstance(n, tree.RowLabel | tree.MatchNumber) for n in tree.walk(inner)):
                message = "a key is computed from the columns of a row, before there is a match"
                self._report("E605", message, column.span)
            return self._derive(column.name, inner)
        qualified = column.qualifier is not None and column.qualifier.upper() not in self._tables
        if qualified and find_column(str(column.qualifier), self._columns) is not None:
            return self._field(column)[1]
        return self._of_table(column)

    def _derive(self, name: str, expression: tree.Expression) -> str:
        while name in self._columns:
            name += "'"
        self.derived.setdefault(name, expression)
        return name

    def _field(self, node: tree.Column) -> tuple[str | None, str]:
        """Return the variable that is before a column, and the column, or that of its field."""
        before = node.qualifier
        known = before is None or before in self._known or before.upper() in self._tables
        held = None if known else find_column(str(before), self._columns)
        if held is None:
            return before, self._of_table(node)
        return None, self._path(held, (node.name, *node.fields), node.span)

    def _of_table(self, node: tree.Column) -> str:
        """Return a column of the input, or that of a field of it."""
        found = self.column(node)
        return self._path(found, node.fields, node.span) if node.fields else found

    def _path(self, column: str, fields: tuple[str, ...], span: Span) -> str:
        name = ".".join([column, *fields])
        if name in self._columns:
            return name
        return self._derive(name, tree.RowField(column, fields, span=span))

    def column(self, column: tree.Column) -> str:
        """Return the name of a column as the input has it."""
        found = find_column(column.name, self._columns)
        alike = [name for name in self._columns if name.lower() == column.name.lower()]
        if found is None or alike.count(found) > 1:
            message = f"the input has no column `{column.name}`"
            helps = (suggest_names(column.name, self._columns, owner="it"),)
            if len(alike) > 1:
                message = f"the input has {len(alike)} columns `{column.name}`"
                helps = ("rename one with AS in the query that the clause reads",)
            self._findings.append(Diagnostic("E603", message, column.span, helps=helps))
        return found or column.name

    def _report(self, code: str, message: str, span: Span, help_: str = "") -> None:
        self._findings.append(Diagnostic(code, message, span, helps=(help_,) if help_ else ()))

    def _primary(self, name: str | None, span: Span) -> frozenset[str] | None:
        """Return the primary variables that a name stands for; None is every row."""
        if name is None:
            return None
        if name not in self._known and name.upper() in self._tables:
            return None
        if name not in self._known:
            message = f"PATTERN has no variable `{name}`"
            helps = (suggest_names(name, self._known, owner="the clause"),)
            self._findings.append(Diagnostic("E604", message, span, helps=helps))
        return self._known.get(name, frozenset([name]))

    # -----------------------------------------------------------------------------------

    def _bind(self, node: tree.Expression) -> tree.Expression:
        match node:
            case tree.Column(name=name, qualifier=None) if (
                name.lower() in self._earlier and find_column(name, self._columns) is None
            ):
                return self._earlier[name.lower()]
            case tree.Column() | tree.Classifier():
                variables: set[frozenset[str] | None] = set()
                body = self._row(node, variables)
                return tree.Cell(tree.Navigation(variables.pop()), body, span=node.span)
            case tree.Navigate():
                return self._navigate(node)
            case tree.Call() if node.function in AGGREGATES:
                return self._aggregate(node)
            case tree.Call() | tree.OwnCall():
                self._check_call(node)
        inner = tuple(self._bind(child) for child in tree.children(node))
        return tree.with_children(node, inner)

    def _check_call(self, call: tree.Call | tree.OwnCall) -> None:
        if isinstance(call, tree.OwnCall):
            takes = call.own.takes
            count = 1 if takes is None else len(takes)
            self._check_count(call, count, None if takes is None else count)
            return
        if call.function not in FUNCTIONS:
            near = suggest_names(call.function, [*FUNCTIONS, *AGGREGATES])
            help_ = near if near.startswith("did") else "docs/sql.md lists the functions"
            help_ = _NAVIGATION.get(call.function, help_)
            self._report("E608", f"there is no function `{call.function}`", call.span, help_)
            return
        if call.semantics is not None:
            message = f"{call.semantics} cannot be used with `{call.function}`"
            self._report("E605", message, call.span, "it goes with FIRST, LAST and aggregates")
        if call.distinct or call.star or call.condition is not None or call.order:
            self._report("E605", f"`{call.function}` is no aggregate", call.span)
        known = FUNCTIONS[call.function]
        self._check_count(call, known.least, known.most)

    def _check_count(self, call: tree.Call | tree.OwnCall, least: int, most: int | None) -> None:
        count = len(call.arguments)
        if count < least or (most is not None and count > most):
            wanted = (
                f"{least}"
                if most == least
                else f"{least} to {most}"
                if most
                else f"{least} or more"
            )
            self._report(
                "E608", f"`{call.function}` takes {wanted} arguments, not {count}", call.span
            )

    def _row(self, node: tree.Expression, variables: set[frozenset[str] | None]) -> tree.Expression:
        """Return an expression over one row, and collect the variables that it names."""
        match node:
            case tree.Column():
                before, name = self._field(node)
                variables.add(self._primary(before, node.span))
                return tree.RowColumn(name, span=node.span)
            case tree.Classifier():
                variables.add(self._primary(node.variable, node.span))
                return tree.RowLabel(span=node.span)
            case tree.Navigate():
                message = f"`{node.function}` is nested in another row function"
                help_ = (
                    "only FIRST and LAST may stand inside PREV and NEXT, and nothing around them"
                )
                self._report("E605", message, node.span, help_)
                return tree.Literal(None, span=node.span)
            case tree.Call() if node.function in AGGREGATES:
                message = f"the aggregate `{node.function}` is nested in another row function"
                self._report("E605", message, node.span)
                return tree.Literal(None, span=node.span)
            case tree.Call() | tree.OwnCall():
                self._check_call(node)
        inner = tuple(self._row(child, variables) for child in tree.children(node))
        return tree.with_children(node, inner)

    def _one_variable(
        self, node: tree.Expression, variables: set[frozenset[str] | None]
    ) -> frozenset[str] | None:
        # One that is unknown was reported already.
        if len(variables & {None, *self._known.values()}) > 1:
            message = "one row function refers to rows of different variables"
            help_ = "name the same variable everywhere inside it"
            self._report("E605", message, node.span, help_)
        return variables.pop() if variables else None

    def _final(self, node: tree.Navigate | tree.Call) -> bool:
        if self._in_define and node.semantics == "FINAL":
            message = "DEFINE is evaluated before the match ends: FINAL is only allowed in MEASURES"
            self._report("E605", message, node.span)
        return node.semantics == "FINAL"

    def _navigate(self, node: tree.Navigate) -> tree.Expression:
        if node.function in ("FIRST", "LAST"):
            return self._logical(node)
        if node.semantics is not None:
            message = f"{node.semantics} cannot be used with `{node.function}`"
            self._report("E605", message, node.span, "it goes with FIRST, LAST and aggregates")
        steps = 1 if node.offset is None else node.offset
        shift = -steps if node.function == "PREV" else steps
        argument = node.argument
        if isinstance(argument, tree.Navigate) and argument.function in ("FIRST", "LAST"):
            inner = self._logical(argument)
            navigation = msgspec.structs.replace(inner.navigation, shift=shift)
            return tree.Cell(navigation, inner.body, span=node.span)
        variables: set[frozenset[str] | None] = set()
        body = self._row(argument, variables)
        self._check_named(node, variables)
        navigation = tree.Navigation(self._one_variable(node, variables), shift=shift)
        return tree.Cell(navigation, body, span=node.span)

    def _logical(self, node: tree.Navigate) -> tree.Cell:
        """Return FIRST or LAST with its offset."""
        variables: set[frozenset[str] | None] = set()
        body = self._row(node.argument, variables)
        self._check_named(node, variables)
        navigation = tree.Navigation(
            variables=self._one_variable(node, variables),
            from_first=node.function == "FIRST",
            offset=node.offset or 0,
            final=self._final(node),
        )
        return tree.Cell(navigation, body, span=node.span)

    def _check_named(self, node: tree.Navigate, variables: set[frozenset[str] | None]) -> None:
        if not variables and not tree.contains(node.argument, tree.Navigate):
            message = f"`{node.function}` needs a column or CLASSIFIER() to know its row"
            self._report("E605", message, node.span)

    def _aggregate(self, call: tree.Call) -> tree.Expression:
        final = self._final(call)
        variables: set[frozenset[str] | None] = set()
        if call.star:
            if call.function != "COUNT" or call.distinct:
                written = f"{call.function}({'DISTINCT ' if call.distinct else ''}*)"
                self._report("E605", f"`{written}` has no meaning", call.span, "write `COUNT(*)`")
            variables.add(self._primary(call.star_of, call.span))
            arguments: tuple[tree.Expression, ...] = (tree.Literal(1, span=call.span),)
        else:
            self._check_count(call, *AGGREGATES[call.function])
            arguments = tuple(self._row(argument, variables) for argument in call.arguments)
        arguments += tuple(self._row(key, variables) for key in call.order)
        if call.order and call.function not in SORTED:
            message = f"`{call.function}` does not depend on the order of rows"
            self._report("E605", message, call.span, "leave ORDER BY out")
        condition = None
        if call.condition is not None:
            named: set[frozenset[str] | None] = set()
            condition = self._row(call.condition, named)
            # A column of FILTER without a variable is that of the row which counts.
            variables |= named - {None} if variables else named
        over = self._one_variable(call, variables)
        return tree.Aggregate(
            call.function, arguments, over, final, call.distinct, condition, call.ordering,
            span=call.span,
        )  # fmt: skip
