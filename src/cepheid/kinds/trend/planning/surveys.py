"""Plan a survey: read SAMPLE, TOP, LONGEST and BLAME, and check that counts can answer it (§17)."""

from __future__ import annotations

from cepheid.errors import Span
from cepheid.events.schema import NUMERIC, ValueKind
from cepheid.expressions.format import format_expression
from cepheid.kinds.trend.planning.predicates import Predicates
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.scope import Scope
from cepheid.plans.plan import Partition, WindowKind, WindowPlan
from cepheid.plans.survey import MatchValue, Survey, SurveyForm

SURVEYS = ("SAMPLE", "TOP", "LONGEST", "BLAME", "HISTOGRAM", "PERCENTILE", "MEDIAN")
DISTRIBUTIONS = SURVEYS[-3:]
DRAWS_MAX = 1_000_000
BEST_MAX = 1_000
SEED_MAX = 2**63 - 1

_EXAMPLES = {
    "SAMPLE": "write `RETURN SAMPLE(100)`, or `SAMPLE(100, 7)` with a seed",
    "TOP": "write `RETURN TOP 10 BY SUM(S.price)`; values are LENGTH, DURATION, COUNT and SUM",
    "LONGEST": "write `RETURN LONGEST 5`",
    "BLAME": "write `RETURN BLAME()`",
    "HISTOGRAM": "write `RETURN HISTOGRAM(LENGTH)`; values are LENGTH, DURATION, COUNT and SUM",
    "PERCENTILE": "write `RETURN PERCENTILE(SUM(S.price), 0.5, 0.9)`, with numbers from 0 to 1",
    "MEDIAN": "write `RETURN MEDIAN(LENGTH)`; values are LENGTH, DURATION, COUNT and SUM",
}


def survey_call(query: tree.Query) -> tree.Call | None:
    """Find the survey that RETURN asks for, wherever it stands."""
    items = query.returns.items if query.returns else ()
    nodes = (node for item in items for node in tree.walk(item.expression))
    calls = (node for node in nodes if isinstance(node, tree.Call))
    return next((call for call in calls if call.function in SURVEYS), None)


def plan_survey(query: tree.Query, scope: Scope) -> Survey | None:
    """Plan what a survey tells; report a mistake in what it asks for (E361)."""
    call = survey_call(query)
    if call is None or query.returns is None:
        return None
    items = query.returns.items
    if len(items) > 1 or items[0].expression is not call or items[0].alias is not None:
        message = f"`{call.function}` has columns of its own, so nothing stands beside it"
        help_ = f"return it alone: `RETURN {format_expression(call)}`"
        scope.findings.add("E361", message, query.returns.span, help_)
        return None
    nodes = [node for node in tree.walk(query.pattern) if isinstance(node, tree.EventPattern)]
    written = dict.fromkeys(n.variable.text for n in sorted(nodes, key=lambda n: n.span.start))
    numbers = [_whole(argument) for argument in call.arguments]
    text = format_expression(call)
    if call.function in DISTRIBUTIONS:
        return _plan_distribution(call, scope, tuple(written), text)
    match call.function, numbers:
        case "BLAME", []:
            return Survey(SurveyForm.BLAME, written=tuple(written), text=text)
        case "SAMPLE", [int(number)] | [int(number), int(_)]:
            seed = numbers[1] if len(numbers) > 1 else 0
            _check_number(call, number, DRAWS_MAX, scope.findings)
            assert seed is not None, "the pattern has seen it"
            return Survey(SurveyForm.SAMPLE, number, seed, None, tuple(written), text)
        case "LONGEST", [int(number)]:
            value: MatchValue | None = MatchValue("length")
        case "TOP", [int(number), None]:
            value = value_of_match(call.arguments[1], scope)
            if value is None:
                argument = call.arguments[1]
                message = f"`{format_expression(argument)}` is not a value of one match"
                scope.findings.add("E361", message, argument.span, _EXAMPLES["TOP"])
        case _:
            message = f"`{text}` is not what `{call.function}` takes"
            scope.findings.add("E361", message, call.span, _EXAMPLES[call.function])
            return None
    _check_number(call, number, BEST_MAX, scope.findings)
    return Survey(SurveyForm.TOP, number, 0, value, tuple(written), text)


def _plan_distribution(
    call: tree.Call, scope: Scope, written: tuple[str, ...], text: str
) -> Survey | None:
    """Plan HISTOGRAM, PERCENTILE and MEDIAN: a value, and fractions (§17.7, §17.8)."""
    given = [a.value if isinstance(a, tree.Literal) else None for a in call.arguments[1:]]
    fractions = [float(x) for x in given if isinstance(x, int | float) and 0 <= x <= 1]
    fits = len(fractions) == len(given) and bool(given) == (call.function == "PERCENTILE")
    value = value_of_match(call.arguments[0], scope) if call.arguments and fits else None
    if value is None:
        message = f"`{text}` is not what `{call.function}` takes"
        scope.findings.add("E361", message, call.span, _EXAMPLES[call.function])
        return None
    if call.function == "HISTOGRAM":
        return Survey(SurveyForm.HISTOGRAM, value=value, written=written, text=text)
    found = tuple(fractions) or (0.5,)
    return Survey(SurveyForm.PERCENTILE, 0, 0, value, written, text, found)


def _whole(argument: tree.Expression) -> int | None:
    """Read a whole number; None for anything else."""
    if isinstance(argument, tree.Literal) and type(argument.value) is int:
        return argument.value
    return None


def _check_number(call: tree.Call, number: int, most: int, findings: Findings) -> None:
    if not 1 <= number <= most:
        message = f"`{call.function}` takes 1 to {most:,} matches, not {number:,}"
        findings.add("E361", message, call.arguments[0].span, _EXAMPLES[call.function])


def value_of_match(expression: tree.Expression, scope: Scope) -> MatchValue | None:
    """Read a value of single matches (§17.3); None if it is none."""
    functions = tree.AggregateFunction
    match expression:
        case tree.Word(text=text) if text.upper() in ("LENGTH", "DURATION"):
            return MatchValue(text.lower())
        case tree.Aggregate(function=functions.COUNT, variable=tree.Name() as variable):
            scope.positive(variable)
            return MatchValue("count", variable.text)
        case tree.Aggregate(
            function=functions.SUM,
            variable=tree.Name() as variable,
            attribute=tree.Name() as attribute,
        ):
            scope.positive(variable)
            kind = scope.attribute_kind(attribute, variable.text)
            if kind not in NUMERIC | {ValueKind.UNKNOWN}:
                message = f"`{format_expression(expression)}` adds up numbers, and "
                message += f"`{attribute.text}` is of kind {kind.value}"
                scope.findings.add("E206", message, expression.span)
            return MatchValue("sum", variable.text, attribute.text)
    return None


def check_survey(
    query: tree.Query,
    semantics: tree.Semantics,
    predicates: Predicates,
    partition: Partition,
    window: WindowPlan,
    findings: Findings,
) -> None:
    """Refuse what the counts of single events cannot answer (§17.6)."""
    call = survey_call(query)
    if call is None:
        return
    name = call.function
    for why, span, help_ in _reasons(query, semantics, predicates, partition, window):
        findings.add("E421", f"{why}, so `{name}` cannot survey such matches", span, help_)
    clauses = {
        "HAVING": query.having,
        "LIMIT": query.limit,
        "EMIT ON EXPIRY": query.emit_on_expiry,
        "EMIT EARLY": query.emit_early,
        "NUMBERS": query.numbers,
    }
    for clause, node in clauses.items():
        if node is not None:
            message = f"`{name}` has no `{clause}`"
            findings.add("E361", message, node.span, "leave it out")


def _reasons(
    query: tree.Query,
    semantics: tree.Semantics,
    predicates: Predicates,
    partition: Partition,
    window: WindowPlan,
) -> list[tuple[str, Span, str]]:
    """List why matches cannot be surveyed, each with its place and a way out."""
    found: list[tuple[str, Span, str]] = []
    call = survey_call(query)
    counts = call is not None and call.function in DISTRIBUTIONS
    selecting = (tree.Semantics.NEXT_MATCH, tree.Semantics.CONTIGUOUS)
    if semantics is not tree.Semantics.ANY_MATCH and not (counts and semantics in selecting):
        span = query.semantics.span if query.semantics else query.pattern.span
        why = "which events a match skips depends on those before it"
        found.append((why, span, "survey `SEMANTICS any`, or list matches: `RETURN MATCHES`"))
    if isinstance(query.pattern, tree.Conjunction):
        help_ = "survey each pattern in a separate query"
        found.append(("`AND` makes sets of matches", query.pattern.span, help_))
    if query.skip is not None:
        why = "which matches are chosen depends on those before them"
        found.append((why, query.skip.span, "list the chosen matches: `RETURN MATCHES`"))
    for spanning in predicates.globals[:1]:
        why = "a condition on the whole match is known when the match is built"
        help_ = "compare neighbours: `S.price > NEXT(S).price`"
        found.append((why, spanning.expression.span, help_))
    for edge in [e for e in predicates.edges if e.separation is None and not counts][:1]:
        why = f"a condition on neighbours does not separate ({edge.reason})"
        help_ = "write it as a comparison of one event with the other"
        found.append((why, edge.expression.span, help_))
    for partial in partition.partial[:1]:
        why = "only some events of a match share an attribute"
        found.append((why, partial.span, f"write `[{partial.attribute}]`"))
    if window.kind in (WindowKind.TRAILING, WindowKind.COUNT) and query.window is not None:
        why = "these windows end with single events"
        if window.kind is WindowKind.COUNT:
            why = "windows of events end at another time in each partition"
        help_ = "give the windows a time and SLIDE: `WITHIN 10 minutes SLIDE 10 minutes`"
        found.append((why, query.window.span, help_))
    return found
