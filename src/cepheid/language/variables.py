"""Expressions without the names of their variables, so that equal ones can be found."""

from __future__ import annotations

import msgspec

from cepheid.language import tree


def without_variable(expression: tree.Expression) -> tree.Expression:
    """Return a local predicate with ``_`` in the place of its variable."""

    def forget(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Attribute):
            name = msgspec.structs.replace(node.variable, text="_")
            return msgspec.structs.replace(node, variable=name)
        return node

    return tree.transform(expression, forget)
