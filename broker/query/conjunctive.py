"""A template's conjunctive query as SQL (dissertation, section 6.4.2, Algorithm 4).

RL are the witness rows of stored documents, RR those of the current batch, RT the template's
parameters, one row per canonical query. A batch is joined as a whole, its documents with each
other too: every new combination has a first block, in pattern order, that the batch brought. That
block is the *pivot*; blocks before it come from older documents, blocks after it from all.
"""

from __future__ import annotations

from broker.query.residual import ResidualSql, parameters
from xscl.normal.operators import FollowedBy, blocks_of, operators_of
from xscl.normal.template import Template


def parameter_table(number: int) -> str:
    return f"rt_{number}"


def create_parameter_table(template: Template, number: int) -> str:
    """RT: canonical query, variables and selection flags by position, constants, windows."""
    size = len(template.nodes)
    columns = ["cq BIGINT", "first_doc BIGINT"]
    columns += [f"v{i} INTEGER" for i in range(size)]
    columns += [f"s{i} BOOLEAN" for i in range(size)]
    columns += [f"u{i} INTEGER" for i in range(len(template.quantified))]
    columns += [f"k{i} {'DOUBLE' if n else 'VARCHAR'}" for i, n in parameters(template)]
    columns += [f"w{i} BIGINT" for i in range(template.windows)]
    return f"CREATE OR REPLACE TEMP TABLE {parameter_table(number)} ({', '.join(columns)})"


def reported(template: Template, position: int) -> bool:
    """Whether a match lists the nodes at a position, as those whose values were compared."""
    return template.valued(position) or template.read(position)


def has_edge(template: Template, position: int) -> bool:
    """Whether a position has a relation of its own, the edge that leads to it.

    The top of a block needs none where an edge to a child already names its node.
    """
    return (
        template.nodes[position][1] is not None
        or all(parent != position for _, parent in template.nodes)
        or reported(template, position)
    )


class _Aliases:
    """The SQL aliases by which a query refers to the node or the edge of each position."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.children: dict[int, list[int]] = {}
        for position, (_, parent) in enumerate(template.nodes):
            if parent is not None:
                self.children.setdefault(parent, []).append(position)

    def edges(self, block: int) -> list[int]:
        return [p for p in self.template.block_positions(block) if has_edge(self.template, p)]

    def node(self, position: int) -> str:
        if has_edge(self.template, position):
            return f"e{position}.node2"
        return f"e{self.children[position][0]}.node1"

    def document(self, block: int) -> str:
        return f"e{self.edges(block)[0]}"


def conjunctive_query(template: Template, number: int, pivot: int, stored: str = "rl") -> str:
    """The SQL whose rows are candidate matches with `pivot` as first new block.

    `stored` is RL, or the slice of it that can take part. Parameters: `$first` and `$last` are the
    numbers of the batch's own documents; no row outside `$low` to `$high` is within the widest
    window of the batch. Columns: `cq`, a document per block, per position the node if it is
    selected, per joined position the list of its nodes.
    """
    aliases = _Aliases(template)
    sources = [f"{parameter_table(number)} t"]
    conditions: list[str] = []
    for block in range(template.blocks):
        relation = "rr" if block == pivot else stored
        document = aliases.document(block)
        for position in aliases.edges(block):
            parent = template.nodes[position][1]
            alias = f"e{position}"
            sources.append(f"{relation} {alias}")
            above = "0" if parent is None else f"t.v{parent}"
            conditions += [f"{alias}.var1 = {above}", f"{alias}.var2 = t.v{position}"]
            if block != pivot:
                # Implied by the windows; as constants they let DuckDB skip old rows.
                conditions += [f'{alias}."end" >= $low', f'{alias}."start" <= $high']
            if alias != document:
                conditions.append(f"{alias}.doc = {document}.doc")
            if parent is not None and aliases.node(parent) != f"{alias}.node1":
                conditions.append(f"{alias}.node1 = {aliases.node(parent)}")
        if block < pivot:
            conditions.append(f"({document}.doc < $first OR {document}.doc > $last)")
        conditions.append(f"{document}.base >= t.first_doc")
        conditions += [f"{document}.doc <> {aliases.document(b)}.doc" for b in range(block)]
    conditions += [f"e{a}.value = e{b}.value" for a, b in template.joins]
    conditions += _time(template, aliases)
    residual = ResidualSql(template, aliases.node, aliases.document, stored)
    conditions += [residual.condition(part) for part in template.residuals]
    columns = ["t.cq"]
    columns += [f"{aliases.document(b)}.doc AS d{b}" for b in range(template.blocks)]
    columns += [
        f"CASE WHEN t.s{p} THEN {aliases.node(p)} END AS n{p}" for p in range(len(template.nodes))
    ]
    lists = [
        f"list(DISTINCT {aliases.node(p)}) AS l{p}"
        for p in range(len(template.nodes))
        if reported(template, p)
    ]
    return (
        f"SELECT {', '.join([*columns, *lists])}\n"
        f"FROM {', '.join(sources)}\n"
        "WHERE " + "\n  AND ".join(conditions) + "\nGROUP BY ALL"
    )


def _time(template: Template, aliases: _Aliases) -> list[str]:
    """Order and windows: `FOLLOWED BY` is strict, windows include their edge."""
    conditions = []
    for i, operator in enumerate(operators_of(template.operators)):
        if isinstance(operator, FollowedBy):
            before = _extreme("greatest", "end", blocks_of(operator.left), aliases)
            after = _extreme("least", "start", blocks_of(operator.right), aliases)
            conditions.append(f"{before} < {after}")
        conditions.append(f"{_duration(blocks_of(operator), aliases)} <= t.w{i}")
    every = _duration(blocks_of(template.operators), aliases)
    conditions.append(f"{every} <= t.w{template.windows - 1}")
    return conditions


def _duration(blocks: list[int], aliases: _Aliases) -> str:
    last = _extreme("greatest", "end", blocks, aliases)
    return f"{last} - {_extreme('least', 'start', blocks, aliases)}"


def _extreme(function: str, column: str, blocks: list[int], aliases: _Aliases) -> str:
    times = [f'{aliases.document(b)}."{column}"' for b in blocks]
    return times[0] if len(times) == 1 else f"{function}({', '.join(times)})"
