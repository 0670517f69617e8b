"""Expressions of EQL in, texts of the language out; what has no counterpart is an error.

Both have three truth values: a comparison with a missing value is neither true nor false, and NOT
leaves it so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cepheid.expressions.format import format_literal
from cepheid.translate.columns import TEXTS
from cepheid.translate.eql import tree
from cepheid.translate.eql.functions import write_call
from cepheid.translate.eql.list_tests import write_list_test
from cepheid.translate.eql.lists import exactly, list_condition, list_note
from cepheid.translate.eql.meaning import Meaning
from cepheid.translate.eql.missing import is_looked_up, optional_fields
from cepheid.translate.eql.regexes import regex_of
from cepheid.translate.eql.values import Value, WrongTypesError
from cepheid.translate.translated import CannotTranslateError, Settings

NUMBERS = ("integer", "double", "decimal")
_OPPOSITES = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_OPERATORS = {"==": "=", "!=": "<>"}


_NOTHING = {"text": "''", "integer": "0", "double": "0.0", "boolean": "FALSE"}
"""Values that stand beside a NULL, by type."""


class Listed(NamedTuple):
    """A column of lists of texts, and the place of one of them, from 0 on."""

    column: str
    place: int | None


class Writer:
    """Writes the expressions of one query; ``notes`` collects what was taken for granted.

    ``variable`` stands before columns in patterns; it is empty in SELECT.
    """

    def __init__(self, settings: Settings, meaning: Meaning, variable: str = "") -> None:
        self._settings, self._meaning, self._variable = settings, meaning, variable
        self._place: int | None = None
        self.notes: dict[str, None] = {}

    @property
    def ignores_case(self) -> bool:
        """Whether functions compare texts without regard to case."""
        return self._meaning.any_case

    def of(self, variable: str) -> Writer:
        """Return a writer for the events of a variable, with the same notes."""
        return self._with(self._settings, variable)

    def of_match(self, place: int, event: str) -> Writer:
        """Return a writer for ``events[1].field``, of the event of a match at a place."""
        other = self.of(event)
        other._place = place
        return other

    @property
    def ends_first(self) -> bool:
        """Whether ``until`` looks at an event before the stages do."""
        return self._meaning.ends_first

    # Keys --------------------------------------------------------------------------------

    @property
    def null_is_a_key(self) -> bool:
        """Whether events without a key belong together."""
        return self._meaning.null_keys

    def column(self, key: tree.Expression) -> str:
        """Return the name of the column of a key that is a field."""
        assert isinstance(key, tree.Field), "equivalences are of fields"
        return self._settings.fields.get(key.name, key.name)

    def has_plain_keys(self, key: tree.Expression) -> bool:
        """Check whether a key is what an equivalence compares: a value that is there, by case."""
        return not self._meaning.null_keys and isinstance(key, tree.Field)

    def comparable_keys(self, one: Value, two: Value) -> tuple[Value, Value]:
        """Return two keys as they are compared; where types are not known, a note says how."""
        if not self._meaning.any_case:
            return one, two
        if not {one.kind, two.kind} - {""}:
            self.notes[f"texts of `{one.text}` and `{two.text}` are compared by case"] = None
            return one, two
        return self._lowered(one, two)

    def key(self, expression: tree.Expression, *, optional: bool = True) -> list[str]:
        """Write what events are told apart by: the value, and whether there is one.

        Where the type is not known, a note says what was taken for granted. Where events that lack
        a key have none in common, and the key is not ``optional``, the value is all.
        """
        value = self.value(expression)
        if not (optional or self._meaning.null_keys):
            return [value.text]
        nothing = _NOTHING.get(value.kind)
        if nothing is None:
            note = f"events without `{value.text}` are left out"
            also = ", and its texts are compared by case" if self._meaning.any_case else ""
            self.notes[note + also] = None
            return [value.text]
        lowered = value.kind == "text" and self._meaning.any_case
        text = f"LOWER({value.text})" if lowered else value.text
        return [f"COALESCE({text}, {nothing})", f"({text}) IS NULL"]

    # Lists -------------------------------------------------------------------------------

    @property
    def has_wildcards(self) -> bool:
        """Whether ``==`` compares with a wildcard."""
        return self._meaning.wildcards

    def list_of(self, expression: tree.Expression) -> Listed | None:
        """Return the column of a list of texts, and the place of one; None if it is none."""
        if not isinstance(expression, tree.Field) or self._place is not None:
            return None
        if self._settings.type_of(expression.name) != TEXTS or len(expression.places) > 1:
            return None
        column = self._settings.column(expression.name)
        owner = f"{self._variable}." if self._variable else ""
        return Listed(f"{owner}{column}", expression.places[0] if expression.places else None)

    @property
    def one_letter(self) -> str:
        """Return the sign for one letter in a wildcard, empty if there is none."""
        return "" if self._meaning.wildcards else "?"

    def in_list(self, operand: tree.Expression, texts: Iterable[str], *, any_case: bool) -> str:
        """Write that a text of a list fits one of some regular expressions."""
        listed = self.list_of(operand)
        if listed is None:
            what = operand.name if isinstance(operand, tree.Field) else "a value"
            message = f"`{what}` is not known to be a list of texts"
            raise CannotTranslateError(message)
        self._note_list(listed)
        return list_condition(listed.column, texts, any_case=any_case, place=listed.place)

    def _note_list(self, listed: Listed) -> None:
        name = listed.column.removeprefix(f"{self._variable}.")
        self.notes[list_note(name)] = None
        if listed.place is None and self._meaning.any_of_list:
            note = (
                f"a condition on `{name}`, which holds lists, is true if one of its texts meets it"
            )
            self.notes[note] = None

    def compares_list(self, operand: tree.Expression) -> bool:
        """Check whether a comparison is with a text of a list: at a place, or with any of them."""
        listed = self.list_of(operand)
        return listed is not None and (listed.place is not None or self._meaning.any_of_list)

    def any_of_list(self, operand: tree.Expression) -> bool:
        """Check whether a condition is on any text of a list."""
        return self._meaning.any_of_list and self.list_of(operand) is not None

    # Conditions --------------------------------------------------------------------------

    def events(self, events: tree.Events) -> str:
        """Write the condition on events, that on their category among them."""
        tests = [] if events.category == "" else [self._category(events.category)]
        tests.append(self.condition(events.condition))
        kept = [test for test in tests if test != "TRUE"] or ["TRUE"]
        return f"({' AND '.join(kept)})" if len(kept) > 1 else kept[0]

    @property
    def category(self) -> str:
        """Write the column of the category of an event."""
        column = self._settings.column(self._settings.type)
        return f"{self._variable}.{column}" if self._variable else column

    def over_stream(self, category: str) -> Writer:
        """Return a writer for a stream whose events have their category in a column of its own."""
        return self._with(self._settings._replace(type=category), self._variable)

    def _with(self, settings: Settings, variable: str) -> Writer:
        other = Writer(settings, self._meaning, variable)
        other.notes = self.notes
        return other

    @property
    def lists_categories(self) -> bool:
        """Whether an event has a list of categories."""
        return self._settings.type_of(self._settings.type) == TEXTS

    def _category(self, category: str) -> str:
        if self.lists_categories:
            column = tree.Field(self._settings.type)
            return self.in_list(column, [exactly(category)], any_case=False)
        return f"({self.category} = {format_literal(category)})"

    def condition(self, expression: tree.Expression) -> str:
        """Write a condition."""
        listed = None if self._is_unequal(expression) else write_list_test(self, expression)
        if listed is not None:
            return listed
        match expression:
            case tree.Literal(value=bool(value)):
                return "TRUE" if value else "FALSE"
            case tree.Literal(value=None):
                return "NULL"  # Neither true nor false, and so is its opposite.
            case tree.Logic(operator=operator, operands=operands):
                parts = (self.condition(one) for one in operands)
                return f"({f' {operator.upper()} '.join(parts)})"
            case tree.Not(operand=operand):
                return f"(NOT {self._opposed(operand)})"
            case tree.Binary(operator=operator) if operator in _OPPOSITES:
                return self._comparison(expression)
            case tree.OneOf():
                return self._one_of(expression)
            case tree.Related(relation=relation):
                message = f"`{relation} of` follows processes from parent to child, which has no "
                raise CannotTranslateError(message + "counterpart")
        found = self.value(expression)
        if found.kind == "null":
            return "NULL"
        if found.kind != "boolean":
            known = f"is {found.kind}" if found.kind else "is not known to be a truth value"
            message = f"`{found.text}` stands as a condition and {known}"
            raise CannotTranslateError(message)
        return found.text

    def _opposed(self, condition: tree.Expression) -> str:
        """Write a condition whose opposite events without a field meet, if an index answers it."""
        if not self._meaning.indexed:
            return self.condition(condition)
        if is_looked_up(condition):
            for name in optional_fields(condition):
                self._note_optional(name)
            return f"COALESCE({self.condition(condition)}, FALSE)"
        if isinstance(condition, tree.Logic):
            parts = (self._opposed(one) for one in condition.operands)
            return f"({f' {condition.operator.upper()} '.join(parts)})"
        return self.condition(condition)

    def _is_unequal(self, test: tree.Expression) -> bool:
        """Check whether a condition is the opposite of one that an index answers."""
        if not isinstance(test, tree.Binary) or test.operator != "!=" or not self._meaning.indexed:
            return False
        return is_looked_up(tree.Binary("==", test.left, test.right))

    def _note_optional(self, name: str) -> None:
        if not self._settings.type_of(name):
            self.notes[f"`?{name}` is a field of the mapping, which events may lack"] = None

    def _comparison(self, test: tree.Binary) -> str:
        if self._is_unequal(test) and not isinstance(test.left, tree.Call):
            return f"(NOT {self._opposed(tree.Binary('==', test.left, test.right))})"
        left, right, operator = test.left, test.right, test.operator
        if isinstance(left, tree.Literal) and not isinstance(right, tree.Literal):
            left, right, operator = right, left, _OPPOSITES[operator]
        if isinstance(right, tree.Literal):
            if right.value is None:
                return self._with_null(left, operator)
            if isinstance(right.value, bool) and isinstance(left, tree.Call) and is_looked_up(left):
                same = right.value == (operator == "==")
                return self.condition(left if same else tree.Not(left))
            pattern = isinstance(right.value, str) and "*" in right.value
            if pattern and self._meaning.wildcards and operator in _OPERATORS:
                no = "NOT " if operator == "!=" else ""
                value = str(right.value)
                return self.like(left, value, any_case=self._meaning.any_case, no=no)
        if self._meaning.indexed and isinstance(left, tree.Field) and isinstance(right, tree.Field):
            # Of two fields that no mapping has, one is the other.
            for name in (left.name, right.name) if left.optional and right.optional else ():
                self._note_optional(name)
        return self._compared(operator, left, right, any_case=self._meaning.any_case)

    def _with_null(self, operand: tree.Expression, operator: str) -> str:
        if operator not in _OPERATORS:
            return "NULL"  # Nothing is smaller or larger than null, and nothing is not.
        no = "NOT " if operator == "!=" else ""
        listed = self.list_of(operand)
        whole = listed is not None and listed.place is None
        text = listed.column if listed is not None and whole else self.truth_or_value(operand)
        return f"({text} IS {no}NULL)"

    def truth_or_value(self, expression: tree.Expression) -> str:
        """Write a condition or a value, whatever it is."""
        if isinstance(expression, tree.Not | tree.Logic | tree.OneOf | tree.Related):
            return self.condition(expression)
        if isinstance(expression, tree.Binary) and expression.operator in _OPPOSITES:
            return self.condition(expression)
        return self.value(expression).text

    def _compared(
        self, operator: str, left: tree.Expression, right: tree.Expression, *, any_case: bool
    ) -> str:
        one, two = self.value(left), self.value(right)
        if any_case:
            one, two = self._lowered(one, two)
        return f"({one.text} {_OPERATORS.get(operator, operator)} {two.text})"

    def _lowered(self, one: Value, two: Value) -> tuple[Value, Value]:
        """Make two texts comparable without regard to case; other values stay."""
        kinds = {one.kind, two.kind} - {""}
        if "text" in kinds:
            return self.lower(one), self.lower(two)
        if not kinds:
            message = f"whether `{one.text}` and `{two.text}` are texts is not known, and texts "
            raise CannotTranslateError(message + "would be compared without regard to case")
        return one, two

    @staticmethod
    def lower(value: Value) -> Value:
        """Return a text in lower case."""
        if value.text.startswith("'"):
            return Value(value.text.lower(), "text")
        return Value(f"LOWER({value.text})", "text")

    def _one_of(self, test: tree.OneOf) -> str:
        any_case = test.any_case or self._meaning.any_case
        if test.operator == "regex":
            return self._any(self.regex(test.operand, one, any_case=any_case) for one in test.items)
        tests, plain = [], []
        for item in test.items:
            text = item.value if isinstance(item, tree.Literal) else None
            if test.operator == "like" and not isinstance(text, str):
                message = "`like` takes texts"
                raise CannotTranslateError(message)
            if isinstance(item, tree.Literal) and item.value is None:
                message = f"null in the list of `{test.operator}` has no counterpart"
                raise CannotTranslateError(message)
            if isinstance(text, str) and (test.operator == "in" or not self._is_pattern(text)):
                plain.append(text)
            elif isinstance(text, str):
                tests.append(self.like(test.operand, text, any_case=any_case))
            else:
                tests.append(self._compared("==", test.operand, item, any_case=any_case))
        if plain:
            tests.insert(0, self._in_texts(test.operand, plain, any_case=any_case))
        return self._any(tests)

    def _is_pattern(self, text: str) -> bool:
        return "*" in text or bool(self.one_letter and self.one_letter in text)

    def _in_texts(self, operand: tree.Expression, texts: list[str], *, any_case: bool) -> str:
        """Compare a text with several ones that are no patterns."""
        value = self.value(operand)
        kept = dict.fromkeys(text.lower() for text in texts) if any_case else dict.fromkeys(texts)
        value = self.lower(value) if any_case else value
        listed = [format_literal(text) for text in kept]
        if len(listed) == 1:
            return f"({value.text} = {listed[0]})"
        return f"({value.text} IN ({', '.join(listed)}))"

    @staticmethod
    def _any(tests: Iterable[str]) -> str:
        found = list(tests)
        return found[0] if len(found) == 1 else f"({' OR '.join(found)})"

    def like(
        self,
        operand: tree.Expression,
        wildcard: str,
        *,
        any_case: bool,
        no: str = "",
    ) -> str:
        """Compare a text with a wildcard."""
        one = self.one_letter
        value = self.text(operand)
        if any_case:
            value, wildcard = self.lower(value), wildcard.lower()
        if not self._is_pattern(wildcard):
            return f"({value.text} {'<>' if no else '='} {format_literal(wildcard)})"
        return f"({value.text} {no}LIKE {format_literal(_like_pattern(wildcard, one))})"

    def regex(
        self,
        operand: tree.Expression,
        pattern: tree.Expression,
        *,
        any_case: bool,
        whole: bool = True,
    ) -> str:
        """Compare a text, or its beginning, with a regular expression."""
        value = pattern.value if isinstance(pattern, tree.Literal) else None
        if not isinstance(value, str):
            message = "regular expressions that are no constants have no counterpart"
            raise CannotTranslateError(message)
        written, notes = regex_of(value, whole=whole, any_case=any_case)
        self.notes |= dict.fromkeys(notes)
        return f"REGEX_MATCH({self.text(operand).text}, {format_literal(written)})"

    # Values ------------------------------------------------------------------------------

    def value(self, expression: tree.Expression) -> Value:
        """Write a value."""
        match expression:
            case tree.Literal(value=value):
                return Value(format_literal(value), _kind_of(value))
            case tree.Field():
                return self._field(expression)
            case tree.Negative(operand=operand):
                inner = self.value(operand)
                return Value(f"(-{inner.text})", inner.kind)
            case tree.Binary(operator=operator) if operator not in _OPPOSITES:
                return self._arithmetic(expression)
            case tree.Call():
                return write_call(self, expression)
            case _:
                return Value(self.condition(expression), "boolean")

    def text(self, expression: tree.Expression) -> Value:
        """Write a value that is used as a text."""
        value = self.value(expression)
        if value.kind not in ("", "text"):
            message = f"`{value.text}` is {value.kind}, and a text is asked for"
            raise CannotTranslateError(message)
        return value

    def _field(self, field: tree.Field) -> Value:
        if self._place is not None:
            field = self._of_match(field, self._place)
        if field.places:
            message = f"`{field.name}` is an array, and conditions have no elements of arrays"
            raise CannotTranslateError(message)
        kind = self._settings.type_of(field.name)
        if kind in ("other", TEXTS):
            message = f"`{field.name}` is an array or a structure, which conditions do not have"
            raise CannotTranslateError(message)
        column = self._settings.column(field.name)
        kind = "" if kind == "unknown" else kind
        return Value(f"{self._variable}.{column}" if self._variable else column, kind)

    @staticmethod
    def _of_match(field: tree.Field, place: int) -> tree.Field:
        """Return the field of an event of a match."""
        name = field.name.removeprefix("events.")
        if name == field.name or field.places != (place,):
            message = f"a pipe asks for other events of a match than the last, `events[{place}]`, "
            raise CannotTranslateError(message + "which has no counterpart")
        return tree.Field(name)

    def _arithmetic(self, term: tree.Binary) -> Value:
        return self.arithmetic(term.operator, self.value(term.left), self.value(term.right))

    def arithmetic(self, operator: str, left: Value, right: Value) -> Value:
        """Write a sum, a product and so on; a quotient of whole numbers is a whole number."""
        kinds = {left.kind, right.kind}
        if kinds - {"", *NUMBERS}:
            message = (
                f"`{operator}` computes with numbers, and `{left.text}` or `{right.text}` is none"
            )
            if "text" in kinds and operator in "-/":
                raise WrongTypesError(message)
            raise CannotTranslateError(message)
        kind = "double" if "double" in kinds else "" if "" in kinds else "integer"
        text = f"({left.text} {operator} {right.text})"
        if operator == "/" and kind != "double":
            if not kind:
                note = f"`{left.text} / {right.text}` is taken as a quotient of whole numbers"
                self.notes[note] = None
            return Value(f"FLOOR{text}", "integer")
        if operator == "%" and self._meaning.floors:
            return Value(f"(({text} + {right.text}) % {right.text})", kind)
        return Value(text, kind)


def _kind_of(value: str | float | bool | None) -> str:  # noqa: FBT001  # it is the value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    return "integer" if isinstance(value, int) else "double"


def _like_pattern(wildcard: str, one: str) -> str:
    r"""Write a wildcard for LIKE.

    Examples
    --------
    >>> _like_pattern("C:\\*_?", "?")
    'C:\\\\%\\__'
    """
    meant = {"*": "%", "%": r"\%", "_": r"\_", "\\": "\\\\"} | ({one: "_"} if one else {})
    return "".join(meant.get(letter, letter) for letter in wildcard)
