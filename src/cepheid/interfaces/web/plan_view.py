"""A plan as the page draws it: its graphs, its sections, and the places that reasons name."""

from __future__ import annotations

import re
from typing import Any

from cepheid.api import CompiledQuery
from cepheid.errors import Span, visible
from cepheid.jobs.kind import kind_of
from cepheid.jobs.picture import Condition, Graph
from cepheid.language_service.places import to_utf16

_PLACE = re.compile(r"\bat (\d+):(\d+)\b")
_WORD = re.compile(r"[\w-]+|\S")


def plan_view(compiled: CompiledQuery) -> dict[str, Any]:
    """Describe a plan: title, evaluator with its cost and state, graphs, sections with places."""
    plan = compiled.plan
    title, sections = kind_of(plan).describe(plan, spark=False)
    choice = plan.choice
    return {
        "title": visible(title),
        "evaluator": choice.evaluator.value,
        "time": visible(choice.time),
        "state": visible(choice.state),
        "keys": list(plan.partition.attributes),
        "lists_matches": plan.lists_matches,
        "streams": list(dict.fromkeys(plan.streams)),
        "graphs": [_graph(graph, plan.text) for graph in kind_of(plan).graphs(plan)],
        "sections": [
            {"name": name, "lines": [_line(line, plan.text) for line in lines]}
            for name, lines in sections
        ],
    }


def _graph(graph: Graph, text: str) -> dict[str, Any]:
    places = range(len(graph.nodes))
    types = graph.types or ("",) * len(graph.nodes)
    local = graph.conditions or ((),) * len(graph.nodes)
    return {
        "nodes": [
            {
                "name": visible(graph.nodes[place]),
                "type": visible(types[place]),
                "end": place in graph.ends,
                "conditions": [_condition(one, text) for one in local[place]],
            }
            for place in places
        ],
        "links": [
            {
                "source": link.source,
                "target": link.target,
                "guard": visible(link.label),
                "conditions": [_condition(one, text) for one in link.conditions],
            }
            for link in graph.links
        ],
    }


def _condition(condition: Condition, text: str) -> dict[str, Any]:
    return {"text": visible(condition.text), "span": _span(condition.span, text)}


def _span(span: Span, text: str) -> list[int]:
    return [to_utf16(text, span.start), to_utf16(text, span.end)]


def _line(line: str, text: str) -> dict[str, Any]:
    """Find the places that a line of the plan names, as spans of the text."""
    found = [_span(_named(line, match, text), text) for match in _PLACE.finditer(line)]
    return {"text": visible(line), "spans": found}


def _named(line: str, match: re.Match[str], text: str) -> Span:
    """Find how far a place reaches: as the words before it do, or one word."""
    number, column = int(match[1]), int(match[2])
    lines = text.split("\n")
    start = sum(len(one) + 1 for one in lines[: number - 1]) + column - 1
    said = re.sub(r"\s+", " ", line[: match.start()]).rstrip("`] ")
    end, best = start, 0
    while end < len(text) and end - start <= len(said) + 40:
        end += 1
        quoted = re.sub(r"\s+", " ", text[start:end])
        if not quoted[-1:].isspace() and said.endswith(quoted):
            best = end
    word = _WORD.match(text, start)
    return Span(start, best or (word.end() if word else start))
