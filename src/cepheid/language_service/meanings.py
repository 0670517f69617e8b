"""Meanings of the words of the language, in a sentence each, with the rule that defines them.

Rules are those of docs/semantics.md; a test checks that each is there, and that every keyword of
the grammar has an entry.
"""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """A sentence and the number of a rule."""

    text: str
    section: str


def _table(**rows: tuple[str, str]) -> dict[str, Meaning]:
    return {name: Meaning(*row) for name, row in rows.items()}


KEYWORDS = _table(
    RETURN=("What to report: aggregates of all matches, attributes of each, or MATCHES.", "§5.1"),
    MATCHES=("List the matches, one row each, with their events.", "§7.1"),
    AS=("Name what stands before it, or define a situation by a condition.", "§7.3"),
    PATTERN=("What to look for: event types in sequence, with repetition and negation.", "§2"),
    SEQ=("A match of each part after the other; other events may lie between.", "§2.4"),
    ANY=("One event of any type, bound to the variable that follows.", "§2.4"),
    DISTINCT=("Count different keys that have a match, or in SELECT different values.", "§5.6"),
    NEXT=("`NOT NEXT N`: the event directly beside the match is no N.", "§2.14"),
    GREEDY=("The loop takes every event that fits before what follows comes.", "§2.15"),
    RELUCTANT=("What follows the loop takes the first event that fits.", "§2.15"),
    SEMANTICS=("How a match may skip events: any, next or contiguous.", "§3"),
    TO=("The link from one variable to the next, or the end of a range of values.", "§3.6"),
    STEP=("The distance of the values of a SWEEP.", "§16.2"),
    SWEEP=("Run the query for every one of these values; each row tells its value.", "§16.1"),
    UNTIL=("The first event of any type that meets the condition ends the loop.", "§3.7"),
    WITHOUT=("No match of the pattern that follows lies between two rounds of the loop.", "§2.13"),
    WHERE=("What must be true: of single events, of neighbours, or of the whole match.", "§4"),
    AND=("Both hold; between two patterns, pairs of a match of each.", "§4"),
    OR=("One of the two holds or matches; a match counts once.", "§2.4"),
    NOT=("Inside of SEQ, no match of this lies there; in a condition, the opposite.", "§2.5"),
    IN=("Equals one of the values of the list.", "§4.6"),
    BETWEEN=("From the first value to the second, both included.", "§4.9"),
    IS=("`IS NULL` is true where a value is missing.", "§4.6"),
    NULL=("No value; a condition that is NULL is not true.", "§4.6"),
    LIKE=("Fits a text in which `%` is any characters and `_` any one.", "§4.6"),
    TRUE=("The condition that holds.", "§4.6"),
    FALSE=("The condition that does not hold.", "§4.6"),
    GROUP_BY=("One result row for each value; matches have one value of it.", "§6.5"),
    HAVING=("Keep the result rows for which this is true.", "§5.3"),
    WITHIN=("The length of the window that holds all events of a match.", "§6.2"),
    SLIDE=("The distance from the start of one window to that of the next.", "§6.2"),
    EVENTS=("Count the length of a window in events of the partition.", "§6.6"),
    EMIT=("When rows leave: also when matches expire, or before a window closes.", "§6.4"),
    ON=("The condition on the pairs of a join.", "§10.6"),
    EXPIRY=("Add a row when events leave the window and its matches change.", "§6.4"),
    EARLY=("Report a window of a live stream before it closes, and again later.", "§6.7"),
    TIES=("How events of one time are ordered: strict, or by arrival.", "§1.3"),
    NUMBERS=("How counts and sums are computed: as doubles, or exact.", "§5.5"),
    MIN_LENGTH=("Keep matches of at least so many events.", "§2.11"),
    LIMIT=("Stop after so many rows.", "§7.1"),
    AFTER_MATCH_SKIP=("Choose matches that do not overlap; each drops others.", "§14.1"),
    FROM=("The stream that is read.", "§10.1"),
    PARTITION_BY=("Cut the stream by these values; each part stands on its own.", "§9.1"),
    DEFINE=("Situations: the longest runs of events for which a condition is true.", "§9.2"),
    AT_LEAST=("The situation lasts so long or longer, or has so many events or more.", "§9.4"),
    AT_MOST=("The situation lasts so long or shorter, or has so many events or fewer.", "§9.4"),
    SITUATIONS=("List the situations themselves, when they have ended.", "§9.9"),
    DETECTED=("The match is certain so soon after its first situation began.", "§9.7"),
    SELECT=("Filter single events, aggregate windows of them, or join two streams.", "§10.1"),
    JOIN=("Pairs of an event of each stream that are near in time and meet ON.", "§10.6"),
    WINDOW=("The windows that events are aggregated in, or how far apart pairs are.", "§10.4"),
    CASE=("The value after the first condition that is true.", "§4.12"),
    WHEN=("A condition of CASE.", "§4.12"),
    THEN=("The value of CASE if the condition before it is true.", "§4.12"),
    ELSE=("The value of CASE if no condition is true; NULL without it.", "§4.12"),
    END=("The end of CASE.", "§4.12"),
    CAST=("Convert a value to a type; what does not convert is an error.", "§4.12"),
    FILTER=("Aggregate the events for which this is true.", "§10.15"),
    SESSION=("Windows that end where no event comes for so long.", "§10.9"),
    ORDER_BY=("Sort the rows of the whole answer.", "§10.10"),
    CREATE=("Make every row of a query an event of a stream for later queries.", "§15.1"),
    STREAM=("A stream of the rows of a query, as events with a time.", "§15.3"),
    TOP=("The matches with the largest value, without building the others.", "§17.4"),
    LONGEST=("The matches with the most events.", "§17.4"),
    BY=("The value by which TOP compares matches.", "§17.3"),
)
"""By the names of terminals of the grammar."""

SITUATION_KEYWORDS = _table(
    PATTERN=("How the situations lie to each other, by Allen's relations.", "§9.3"),
    WITHIN=("The most time from the first start to the last end of a match.", "§9.4"),
    RETURN=("Values over the events of each situation: FIRST, LAST, COUNT, AVG and so on.", "§9.8"),
    BETWEEN=("The situation lasts from the first length to the second.", "§9.4"),
    WHERE=("Which single events there are for the query.", "§9.1"),
    AS=("The condition that is true during the situation.", "§9.2"),
)
SELECT_KEYWORDS = _table(
    WHERE=("Keep the events, or pairs, for which this is true.", "§10.1"),
    WITHIN=("How long events of this stream wait for those of the other.", "§10.6"),
    GROUP_BY=("Rows for each combination of values; NULL is a value.", "§10.5"),
    HAVING=("Keep the rows of whole windows for which this is true.", "§10.8"),
    LIMIT=("The first so many rows of the whole answer.", "§10.10"),
    DISTINCT=("Count different values that are not NULL; after SELECT, different rows.", "§10.3"),
    EVENTS=("Count the length of a window in events of the group.", "§10.4"),
    SLIDE=("The distance from the start of one window to that of the next.", "§10.4"),
)
ROW_PATTERN_KEYWORDS = _table(
    MATCH_RECOGNIZE=("Find sequences of consecutive rows that match a pattern.", "§11"),
    MEASURES=("The values of each match.", "§11"),
    DEFINE=("The condition of each variable of the pattern.", "§11"),
    PATTERN=("Variables in sequence; of several matches the preferred one counts.", "§11.1"),
    WITHIN=("The last row is less than this after the first.", "§11.2"),
    AFTER=("Where the search goes on after a match.", "§11.1"),
    SUBSET=("A name for several variables together.", "§11"),
)

AGGREGATES = _table(
    COUNT=("The number of matches, or with a variable of its events in them.", "§5.1"),
    SUM=("The sum over the events of a variable, once for every match they are in.", "§5.1"),
    AVG=("The mean over the events of a variable in all matches.", "§5.2"),
    MIN=("The least value over the events of a variable in all matches.", "§5.1"),
    MAX=("The largest value over the events of a variable in all matches.", "§5.1"),
)
SELECT_AGGREGATES = _table(
    COUNT=("The number of events, or of those where a value is not NULL.", "§10.3"),
    SUM=("The sum of values; NULL is skipped.", "§10.3"),
    AVG=("The mean of values; NULL is skipped.", "§10.3"),
    MIN=("The least value.", "§10.3"),
    MAX=("The largest value.", "§10.3"),
    MEDIAN=("The value in the middle, exact.", "§10.3"),
    PERCENTILE=("The value below which this part of all values lies, exact.", "§10.3"),
    APPROX_COUNT_DISTINCT=("About how many different values there are.", "§10.14"),
    APPROX_PERCENTILE=("About the value below which this part of all values lies.", "§10.14"),
)
ANCHORS = _table(
    NEXT=("The event that follows directly in the match.", "§4.4"),
    PREV=("The event directly before in the match.", "§4.4"),
    FIRST=("The first event of the variable in the match.", "§4.5"),
    LAST=("The last event of the variable in the match.", "§4.5"),
)
SURVEYS = _table(
    FUNNEL=("How many keys reach each step of a SEQ, and how long they take.", "§12.1"),
    SAMPLE=("Matches drawn at random, each with the same probability.", "§17.2"),
    BLAME=("How many matches each event is in.", "§17.5"),
    HISTOGRAM=("How many matches have each value, such as each length.", "§17.7"),
    PERCENTILE=("The value that a part of all matches does not exceed.", "§17.8"),
    MEDIAN=("The value that half of all matches do not exceed.", "§17.8"),
)
MODES = {
    "skip-till-any-match": Meaning("Any event may be skipped, so all matches are found.", "§3.1"),
    "skip-till-next-match": Meaning("A partial match takes the first event that fits.", "§3.2"),
    "contiguous": Meaning("No other event of the partition lies between.", "§3.3"),
    "any": Meaning("Any event may be skipped, so all matches are found.", "§3.1"),
    "next": Meaning("A partial match takes the first event that fits.", "§3.2"),
    "cont": Meaning("No other event of the partition lies between.", "§3.3"),
    "strict": Meaning("Events of one time never see each other.", "§1.3"),
    "arrival": Meaning("Events of one time come in the order of tie-breakers or arrival.", "§1.4"),
    "exact": Meaning("Counts and sums of whole numbers have all digits.", "§5.5"),
    "default": Meaning("Counts and sums are doubles where they may be large.", "§5.4"),
}
RELATIONS = {
    "before": Meaning("The first situation ends before the second begins.", "§9.3"),
    "meets": Meaning("The second begins when the first ends.", "§9.3"),
    "overlaps": Meaning("The second begins during the first and ends after it.", "§9.3"),
    "starts": Meaning("Both begin together, and the first ends earlier.", "§9.3"),
    "during": Meaning("The first lies inside of the second.", "§9.3"),
    "finishes": Meaning("Both end together, and the first begins later.", "§9.3"),
    "equals": Meaning("Both begin and end together.", "§9.3"),
    "finished by": Meaning("Both end together, and the first begins earlier.", "§9.3"),
    "contains": Meaning("The second lies inside of the first.", "§9.3"),
    "started by": Meaning("Both begin together, and the first ends later.", "§9.3"),
    "overlapped by": Meaning("The first begins during the second and ends after it.", "§9.3"),
    "met by": Meaning("The first begins when the second ends.", "§9.3"),
    "after": Meaning("The first situation begins after the second has ended.", "§9.3"),
    "intersects": Meaning("The two have some time in common: nine relations in one word.", "§9.3"),
}
MARKS = {
    "+": Meaning("One or more matches in sequence.", "§2.4"),
    "*": Meaning("Any number of matches in sequence, also none.", "§2.4"),
    "?": Meaning("One match or none.", "§2.4"),
    "{": Meaning("`{n}` matches in sequence, `{n,}` at least n, `{n,m}` from n to m.", "§2.4"),
    "!": Meaning("Inside of SEQ, no match of this lies there.", "§2.5"),
    "[": Meaning("All events of a match have equal values of these attributes.", "§4.2"),
}
"""Marks of patterns and conditions."""

SKIPS = {
    "PAST LAST": Meaning("Matches that begin before the chosen one has ended drop.", "§14.3"),
    "TO NEXT": Meaning("Other matches with the same first event drop.", "§14.3"),
    "TO FIRST": Meaning("Matches that begin before the first event of a variable drop.", "§14.3"),
    "TO LAST": Meaning("Matches that begin before the last event of a variable drop.", "§14.3"),
    "TO LATEST": Meaning("Of matches with the same last event all but the latest drop.", "§14.6"),
}
EVENT_TYPE = Meaning("One event of this type that meets its local conditions.", "§2.4")
VARIABLE = Meaning("A variable: the events of this part of a match.", "§2.1")
ATTRIBUTE = Meaning("An attribute of events.", "§4.1")
FUNCTION = Meaning("A function of values; it means what it means in Spark SQL.", "§4.6")
DURATION = Meaning("A length of time.", "§6.2")
DERIVED = Meaning("A derived stream: the rows of its query are events of this type.", "§15.2")
