"""Plan result columns and aggregates, from RETURN, HAVING, GROUP-BY and LIMIT (§5, §7)."""

from __future__ import annotations

import msgspec

from cepheid.errors import Span, suggest_names
from cepheid.events.schema import NUMERIC, ValueKind
from cepheid.expressions.format import format_expression
from cepheid.expressions.functions import LANGUAGE_FUNCTIONS, nearest_function
from cepheid.expressions.value_types import Typing
from cepheid.kinds.trend.planning.adjacency import Adjacency
from cepheid.kinds.trend.planning.counts import Counts
from cepheid.kinds.trend.planning.spreads import SPREADS, is_spread, plan_spread
from cepheid.kinds.trend.planning.surveys import plan_survey, survey_call
from cepheid.language import tree
from cepheid.patterns.scope import Scope
from cepheid.plans.plan import AggregateColumn, Output, OutputKind, ResultColumn
from cepheid.plans.spread import Spread

WINDOW_COLUMNS = ("window_start", "window_end")

_Key = tuple[tree.AggregateFunction, str | None, str | None, tuple[str, ...]]
"""The identity of an aggregate: function, variable and attribute, or the attributes of keys."""


class OutputPlanner:
    """Collects the aggregates and columns of one query."""

    def __init__(
        self,
        query: tree.Query,
        scope: Scope,
        partition: tuple[str, ...],
        adjacency: Adjacency,
        counts: Counts,
    ) -> None:
        self._query = query
        self._counts = counts
        self._scope = scope
        self._findings = scope.findings
        self._partition = partition
        self._adjacency = adjacency
        self._group_by = tuple(name.text for name in query.group_by)
        self._aggregates: dict[_Key, AggregateColumn] = {}
        self._columns: dict[str, ResultColumn] = {}
        self._spans: dict[_Key, Span] = {}
        self._taken: dict[_Key, ValueKind] = {}
        """The kind of each aggregate's argument; the average of integers is no integer."""
        self._kinds: dict[str, ValueKind] = {}
        self._spreads: dict[str, Spread] = {}

    def plan(self) -> Output:
        """Plan the output of the query."""
        self._check_group_by()
        kind = self._output_kind()
        if kind is OutputKind.SURVEY:
            survey = plan_survey(self._query, self._scope)
            return Output(kind, (), (), None, None, self._counts.reason, survey)
        items = self._query.returns.items if self._query.returns else ()
        for item in items:
            self._plan_item(item, kind)
        having = self._plan_having(kind)
        self._check_conjunction(kind)
        self._check_exact()
        self._check_expiry(kind)
        return Output(
            kind,
            tuple(self._aggregates.values()),
            tuple(self._columns.values()),
            having,
            self._plan_limit(kind),
            self._counts.reason,
            spreads=tuple(self._spreads.values()),
        )

    def _check_group_by(self) -> None:
        seen: set[str] = set()
        for name in self._query.group_by:
            self._scope.check_equated(name)
            if name.text in seen:
                message = f"`{name.text}` occurs twice in `GROUP-BY`"
                self._findings.add("E209", message, name.span, "write it once")
            seen.add(name.text)

    def _output_kind(self) -> OutputKind:
        if self._query.returns is None or not self._query.returns.items:
            return OutputKind.MATCHES
        if survey_call(self._query) is not None:
            return OutputKind.SURVEY
        nodes = [n for item in self._query.returns.items for n in tree.walk(item.expression)]
        if any(isinstance(node, tree.Aggregate) or is_spread(node) for node in nodes):
            return OutputKind.AGGREGATES
        return OutputKind.ATTRIBUTES

    def _plan_item(self, item: tree.ReturnItem, kind: OutputKind) -> None:
        match item.expression:
            case tree.Aggregate() as aggregate:
                column = self._aggregate(aggregate)
                self._add(item, ResultColumn(_name_of(column), aggregate=column.name))
            case tree.Call(function="LOG2", arguments=(tree.Aggregate() as aggregate,)):
                column = self._aggregate(aggregate)
                self._check_log2(item, column)
                name = f"log2_{_name_of(column)}"
                self._add(item, ResultColumn(name, aggregate=column.name, log2=True))
            case tree.Call() as call if is_spread(call):
                spread = self._spread(call)
                if spread is not None:
                    self._add(item, ResultColumn(spread.column, aggregate=spread.name))
            case tree.Word(text=text):
                self._plan_word(item, text, kind)
            case tree.Attribute(anchor=tree.Anchor.EACH) as attribute:
                self._plan_attribute(item, attribute, kind)
            case _ if kind is OutputKind.ATTRIBUTES and not _is_unknown(item.expression):
                self._plan_computed(item)
            case _:
                name = item.expression.function if isinstance(item.expression, tree.Call) else ""
                near = nearest_function(name) if _is_unknown(item.expression) else ""
                self._findings.add(
                    "E317",
                    f"`RETURN` cannot compute `{format_expression(item.expression)}`",
                    item.expression.span,
                    near,
                    "return attributes, aggregates and LOG2 of aggregates; compute with them after",
                )

    def _check_log2(self, item: tree.ReturnItem, column: AggregateColumn) -> None:
        if column.kind not in NUMERIC | {ValueKind.UNKNOWN}:
            text = format_expression(item.expression)
            self._findings.add(
                "E206",
                f"`LOG2` takes numbers, and `{text[5:-1]}` is of kind {column.kind.value}",
                item.expression.span,
            )

    def _plan_word(self, item: tree.ReturnItem, text: str, kind: OutputKind) -> None:
        name = tree.Name(span=item.expression.span, text=text)
        allowed = self._group_by if kind is OutputKind.AGGREGATES else self._partition
        if text not in allowed:
            clause = (
                "GROUP-BY" if kind is OutputKind.AGGREGATES else "an equivalence predicate `[...]`"
            )
            where = (
                f"add `GROUP-BY {text}`" if not self._group_by else f"add it to GROUP-BY: `{text}`"
            )
            helps = where if kind is OutputKind.AGGREGATES else self._with_variable(text)
            if text in WINDOW_COLUMNS:
                helps = f"leave it out: every row of a query with `WITHIN` has `{text}`"
            message = f"`{text}` is returned, but not in {clause}"
            self._findings.add("E210", message, name.span, helps)
            return
        self._scope.attribute_kind(name)
        self._add(item, ResultColumn(text, attribute=text))

    def _with_variable(self, attribute: str) -> str:
        bound = [v.name for v in self._scope.variables.values() if v.positive]
        return f"write its variable: `{bound[0]}.{attribute}`" if bound else ""

    def _plan_attribute(
        self, item: tree.ReturnItem, attribute: tree.Attribute, kind: OutputKind
    ) -> None:
        name = attribute.attribute.text
        if kind is OutputKind.AGGREGATES:
            text = format_expression(attribute)
            self._findings.add(
                "E317",
                f"`{text}` has a value for every event, but this query returns aggregates",
                attribute.span,
                f"aggregate it: `AVG({text})`, or group by it: `GROUP-BY {name}`",
                "or leave the aggregates out: every match is then a row of attributes",
            )
            return
        self._scope.positive(attribute.variable)
        self._scope.attribute_kind(attribute.attribute, attribute.variable.text)
        variable = attribute.variable.text
        repeated = variable in self._adjacency.repeated
        column = ResultColumn(
            f"{variable}_{name}", variable=variable, attribute=name, repeated=repeated
        )
        self._add(item, column)

    def _plan_computed(self, item: tree.ReturnItem) -> None:
        """Plan an expression over one match: FIRST and LAST of variables, arithmetic (§7.3)."""
        Typing(self._match_kind, self._findings).infer(item.expression)
        name = ""
        if isinstance(item.expression, tree.Attribute):
            node = item.expression
            name = f"{node.anchor.value.lower()}_{node.variable.text}_{node.attribute.text}"
        elif item.alias is None:
            message = f"`{format_expression(item.expression)}` needs a name"
            self._findings.add("E332", message, item.expression.span, "name it: `AS result`")
        self._add(item, ResultColumn(name, expression=item.expression))

    def _match_kind(self, node: tree.Attribute | tree.Aggregate | tree.Word) -> ValueKind:
        """Look up the kind of a value that a match has once."""
        assert not isinstance(node, tree.Aggregate), "aggregates are planned elsewhere"
        if isinstance(node, tree.Word):
            if node.text not in self._partition:
                message = f"`{node.text}` is returned, but not in an equivalence predicate `[...]`"
                self._findings.add("E210", message, node.span, self._with_variable(node.text))
            return self._scope.attribute_kind(tree.Name(span=node.span, text=node.text))
        self._scope.positive(node.variable)
        variable, text = node.variable.text, format_expression(node)
        ends = " or ".join(
            f"`{end}({variable}).{node.attribute.text}`" for end in ("FIRST", "LAST")
        )
        if node.anchor is tree.Anchor.EACH and variable in self._adjacency.repeated:
            message = f"`{text}` is a list of values, with which `RETURN` does not compute"
            self._findings.add("E347", message, node.span, f"write {ends}")
        elif node.anchor in (tree.Anchor.NEXT, tree.Anchor.PREV):
            message = f"`RETURN` cannot compute `{text}`: which event it speaks of is not told"
            self._findings.add("E317", message, node.span, f"write {ends}")
        return self._scope.attribute_kind(node.attribute, variable)

    def _add(self, item: tree.ReturnItem, column: ResultColumn) -> None:
        name = item.alias.text if item.alias else column.name
        span = item.alias.span if item.alias else item.span
        grouping = item.alias is None and column.attribute in self._group_by
        window = self._query.window is not None and name in WINDOW_COLUMNS
        taken = name in self._columns or window
        if taken or (name in self._group_by and not grouping):
            self._findings.add(
                "E209", f"two result columns are called `{name}`", span, "name one with AS"
            )
            return
        self._columns[name] = ResultColumn(
            name, column.aggregate, column.log2, column.variable, column.attribute, column.repeated,
            column.expression,
        )  # fmt: skip

    def _aggregate(self, aggregate: tree.Aggregate) -> AggregateColumn:
        kind = self._scope.aggregate_kind(aggregate)
        if aggregate.variable is not None:
            self._scope.positive(aggregate.variable, counted=aggregate.attribute is None)
        variable = aggregate.variable.text if aggregate.variable else None
        attribute = aggregate.attribute.text if aggregate.attribute else None
        distinct = tuple(name.text for name in aggregate.distinct)
        if distinct:
            self._check_distinct(aggregate)
            kind = ValueKind.INTEGER
        elif attribute is None and not self._is_exact() and self._counts.is_whole(variable):
            kind = ValueKind.INTEGER
        key = aggregate.function, variable, attribute, distinct
        if key not in self._aggregates:
            column = AggregateColumn("", *key[:3], kind, distinct)
            # `SUM(A.b_c)` and `SUM(A_b.c)` get the same name, and each needs its own.
            name = base = _name_of(column)
            number = 2
            while name in self._kinds:
                name, number = f"{base}_{number}", number + 1
            self._aggregates[key] = msgspec.structs.replace(column, name=name)
            self._spans[key] = aggregate.span
            if kind is not ValueKind.UNKNOWN and aggregate.attribute and variable:
                self._taken[key] = self._scope.attribute_kind(aggregate.attribute, variable)
            self._kinds[name] = kind
        return self._aggregates[key]

    def _spread(self, call: tree.Call) -> Spread | None:
        """Plan a variance, and refuse it where only counts are known (§5.7)."""
        if isinstance(self._query.pattern, tree.Conjunction):
            message = "`AND` makes sets of matches, which have no variance"
            self._findings.add("E304", message, call.span, "return COUNT, SUM, AVG, MIN or MAX")
        if self._is_exact():
            message = (
                f"`NUMBERS exact` cannot compute `{format_expression(call)}`: it has a quotient"
            )
            self._findings.add("E321", message, call.span, "leave `NUMBERS exact` out")
        spread = plan_spread(call, self._scope)
        return spread and self._spreads.setdefault(spread.name, spread)

    def _check_distinct(self, aggregate: tree.Aggregate) -> None:
        """Check that every partition is one of the keys that are counted (§5.6)."""
        names = list(dict.fromkeys(name.text for name in aggregate.distinct))
        strange = [name for name in aggregate.distinct if name.text not in self._partition]
        for name in strange:
            schema = self._scope.source.schema
            if schema is not None and schema.kind(name.text) is None:
                self._scope.attribute_kind(name)  # It reports that there is none of this name.
                continue
            message = f"`{name.text}` is counted, but it is not equal among the events of a match"
            help_ = f"write `WHERE [{name.text}]`, or `GROUP-BY {name.text}`"
            self._findings.add("E348", message, name.span, help_)
        left = [name for name in self._partition if name not in (*names, *self._group_by)]
        if not strange and left:
            counted, others = ", ".join(names), " and ".join(f"`{name}`" for name in left)
            verb = "partition" if len(left) > 1 else "partitions"
            message = f"`{counted}` is only a part of the key: {others} {verb} the stream, too, "
            message += "and which keys have a match would have to be remembered for every window"
            self._findings.add(
                "E416",
                message,
                aggregate.span,
                f"count whole keys: `COUNT(DISTINCT {', '.join([*names, *left])})`",
                f"or get a row for each: `GROUP-BY {', '.join([*self._group_by, *names])}`",
            )

    def _plan_having(self, kind: OutputKind) -> tree.Expression | None:
        having = self._query.having
        if having is None:
            return None
        if kind is not OutputKind.AGGREGATES:
            self._findings.add(
                "E318",
                "`HAVING` filters aggregates, but this query returns none",
                having.span,
                "put conditions on matches into WHERE",
            )
            return having
        for node in tree.walk(having):
            if isinstance(node, tree.Equivalence):
                message = "an equivalence predicate is not allowed in `HAVING`"
                self._findings.add("E313", message, node.span, "move it to WHERE")
        having = tree.transform(having, self._named)
        Typing(self._having_kind, self._findings).check_condition(having, "HAVING")
        return having

    def _named(self, node: tree.Node) -> tree.Node:
        """Let a name stand for a variance, that only HAVING may ask for."""
        if not (isinstance(node, tree.Call) and is_spread(node)):
            return node
        spread = self._spread(node)
        name = node.function if spread is None else spread.name
        return tree.Word(span=node.span, text=name)

    def _having_kind(self, node: tree.Attribute | tree.Aggregate | tree.Word) -> ValueKind:
        match node:
            case tree.Aggregate():
                return self._aggregate(node).kind
            case tree.Word(text=text):
                return self._having_name(node, text)
            case tree.Attribute():
                text = format_expression(node)
                message = f"`{text}` has a value for every event, but `HAVING` filters result rows"
                each = format_expression(msgspec.structs.replace(node, anchor=tree.Anchor.EACH))
                help_ = f"aggregate it: `MAX({each})`, or move it to WHERE"
                self._findings.add("E317", message, node.span, help_)
                return ValueKind.UNKNOWN

    def _having_name(self, node: tree.Word, text: str) -> ValueKind:
        column = self._columns.get(text)
        if text in self._spreads or (column is not None and column.aggregate in self._spreads):
            return ValueKind.DOUBLE
        if column is None and text in SPREADS:
            # A variance that was refused.
            return ValueKind.UNKNOWN
        if column is not None and column.aggregate is not None:
            return ValueKind.DOUBLE if column.log2 else self._kinds[column.aggregate]
        attribute = column.attribute if column is not None else None
        if attribute is not None or text in self._group_by:
            return self._scope.attribute_kind(tree.Name(span=node.span, text=attribute or text))
        known = [*self._columns, *self._group_by]
        self._findings.add(
            "E211",
            f"the result has no column `{text}`",
            node.span,
            suggest_names(text, known, owner="the result"),
        )
        return ValueKind.UNKNOWN

    def _check_conjunction(self, kind: OutputKind) -> None:
        """Refuse what sets of matches do not have: attributes, and keys to count (§2.10)."""
        pattern = self._query.pattern
        if not isinstance(pattern, tree.Conjunction):
            return
        others = [k for k, c in self._aggregates.items() if c.distinct]
        if kind not in (OutputKind.AGGREGATES, OutputKind.MATCHES) or others:
            span = self._spans[others[0]] if others else pattern.span
            message = (
                "`AND` gives sets of matches, which have no attributes of their own and no keys"
            )
            help_ = "return COUNT, SUM, AVG, MIN or MAX, or MATCHES"
            self._findings.add("E304", message, span, help_)

    def _is_exact(self) -> bool:
        numbers = self._query.numbers
        return numbers is not None and numbers.numbers is tree.Numbers.EXACT

    def _check_exact(self) -> None:
        """Refuse ``NUMBERS exact`` for values that are not integers (§5.5)."""
        if not self._is_exact():
            return
        words = {tree.AggregateFunction.SUM: "sum", tree.AggregateFunction.AVG: "average"}
        for key, kind in self._taken.items():
            word = words.get(key[0])
            whole = kind in (ValueKind.INTEGER, ValueKind.DURATION, ValueKind.UNKNOWN)
            if word is not None and not whole:
                self._findings.add(
                    "E321",
                    f"`NUMBERS exact` cannot {word} values of kind {kind.value}",
                    self._spans[key],
                    f"leave `NUMBERS exact` out, or {word} whole numbers",
                )

    def _check_expiry(self, kind: OutputKind) -> None:
        emit = self._query.emit_on_expiry
        if emit is not None and kind is not OutputKind.AGGREGATES:
            self._findings.add(
                "E316",
                "`EMIT ON EXPIRY` adds rows of aggregates, but this query lists matches",
                emit.span,
                "leave it out, or return aggregates: `RETURN COUNT(*)`",
            )

        early = self._query.emit_early
        if early is not None and kind is not OutputKind.AGGREGATES:
            self._findings.add(
                "E328",
                "`EMIT EARLY` reports aggregates of open windows, but this query lists matches",
                early.span,
                "leave it out, or return aggregates: `RETURN COUNT(*)`",
            )

    def _plan_limit(self, kind: OutputKind) -> int | None:
        limit = self._query.limit
        if limit is None:
            return None
        assert isinstance(limit.value, int), "the parser reads a whole number"
        if limit.value == 0:
            message = "`LIMIT 0` would return nothing"
            self._findings.add("E315", message, limit.span, "write `LIMIT 1` or more")
        if kind is OutputKind.AGGREGATES:
            self._findings.add(
                "E320",
                "`LIMIT` stops the listing of matches, but this query returns aggregates",
                limit.span,
                "filter result rows with HAVING",
            )
        return limit.value


def _is_unknown(expression: tree.Expression) -> bool:
    """Check for a call of a function that there is not, such as an aggregate of SQL."""
    known = isinstance(expression, tree.OwnCall)
    unknown = isinstance(expression, tree.Call) and expression.function not in LANGUAGE_FUNCTIONS
    return unknown and not known


def _name_of(column: AggregateColumn) -> str:
    """Build the documented name of an aggregate: ``sum_A_x``."""
    parts = [column.function.value.lower(), column.variable, column.attribute]
    parts += ["distinct", *column.distinct] if column.distinct else []
    return "_".join(part for part in parts if part)
