"""A template's conjunctive query as SQL (dissertation, section 6.4.2, Algorithm 4).

RL are the witness rows of stored documents, RR those of the current batch, RT the template's
parameters, one row per canonical query. A batch is joined as a whole, its documents with each
other too: every new combination has a first block, in pattern order, that the batch brought. That
block is the *pivot*; blocks before it come from older documents, blocks after it from all.
"""

from __future__ import annotations

from broker.query.join_order import before_of, join_order
from broker.query.residual import ResidualSql, parameters
from xscl.normal import ir
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


def conjunctive_query(
    template: Template, number: int, pivot: int, stored: str = "rl", some: bool = False
) -> str:
    """The SQL whose rows are candidate matches with `pivot` as first new block.

    `stored` is RL, or the part of it that can take part. Parameters: `$first` and `$last` are the
    numbers of the batch's own documents; no row outside `$low` to `$high` is within the widest
    window of the batch; at most `$most` combinations are made. With `some`, only the canonical
    queries `$queries` count. Columns: `cq`, a document per block, per position
    the node if it is selected, per joined position the list of its nodes, and the number of
    combinations that the row stands for.

    The joins stand in an order in which they can be run, each with all conditions that can be
    checked by then.
    """
    aliases = _Aliases(template)
    order = join_order(template, pivot)
    on = {
        position: _edge(template, aliases, position) for b in order for position in aliases.edges(b)
    }
    place = {position: i for i, position in enumerate(on)}
    for i, block in enumerate(order):
        top, *_ = edges = aliases.edges(block)
        document = aliases.document(block)
        if block != pivot:
            # Implied by the windows; as constants they let DuckDB skip old rows.
            for position in edges:
                on[position] += [f'e{position}."end" >= $low', f'e{position}."start" <= $high']
        if block < pivot:
            on[top].append(f"({document}.doc < $first OR {document}.doc > $last)")
        on[top].append(f"{document}.base >= t.first_doc")
        on[top] += [f"{document}.doc <> {aliases.document(b)}.doc" for b in order[:i]]
        on[top] += _early(template, aliases, order[: i + 1])
    for a, b in template.joins:
        on[max(a, b, key=place.__getitem__)].append(f"e{a}.value = e{b}.value")
    for blocks, condition in _time(template, aliases):
        on[aliases.edges(max(blocks, key=order.index))[0]].append(condition)
    residual = ResidualSql(template, aliases.node, aliases.document, stored)
    residuals: list[str] = []
    for part in template.residuals:
        leaves = [*ir.leaves(part)]
        nodes = [leaf.node for leaf in leaves if isinstance(leaf, ir.NodeValue)]
        here = residuals
        if nodes and not any(isinstance(leaf, ir.SomeNode) for leaf in leaves):
            here = on[max(nodes, key=place.__getitem__)]
        here.append(residual.condition(part))
    relations = {block: "rr" if block == pivot else stored for block in order}
    joins = [
        f"JOIN {relations[template.nodes[p][0]]} e{p} ON " + "\n  AND ".join(conditions)
        for p, conditions in on.items()
    ]
    size = range(len(template.nodes))
    listed = [p for p in size if reported(template, p)]
    combination = ["t.cq"]
    combination += [f"{aliases.document(b)}.doc AS d{b}" for b in range(template.blocks)]
    combination += [f"CASE WHEN t.s{p} THEN {aliases.node(p)} END AS n{p}" for p in size]
    combination += [f"{aliases.node(p)} AS m{p}" for p in listed]
    columns = ["cq", *(f"d{b}" for b in range(template.blocks)), *(f"n{p}" for p in size)]
    columns += [f"list(DISTINCT m{p}) AS l{p}" for p in listed]
    queries = parameter_table(number)
    if some:
        queries = f"(SELECT * FROM {queries} WHERE cq IN (SELECT unnest($queries::BIGINT[])))"
    return "\n".join(
        [
            f"SELECT {', '.join(columns)}, count(*)",
            "FROM (",
            f"SELECT {', '.join(combination)}",
            f"FROM {queries} t",
            *joins,
            *(["WHERE " + "\n  AND ".join(residuals)] if residuals else []),
            "LIMIT $most)",
            "GROUP BY ALL",
        ]
    )


def _edge(template: Template, aliases: _Aliases, position: int) -> list[str]:
    """The conditions that make a row of witnesses an edge of its block."""
    block, parent = template.nodes[position]
    alias, document = f"e{position}", aliases.document(block)
    above = "0" if parent is None else f"t.v{parent}"
    conditions = [f"{alias}.var1 = {above}", f"{alias}.var2 = t.v{position}"]
    if alias != document:
        conditions.append(f"{alias}.doc = {document}.doc")
    if parent is not None and aliases.node(parent) != f"{alias}.node1":
        conditions.append(f"{alias}.node1 = {aliases.node(parent)}")
    return conditions


def _time(template: Template, aliases: _Aliases) -> list[tuple[list[int], str]]:
    """Order and windows, each with its blocks: `FOLLOWED BY` is strict, windows include their
    edge."""
    conditions = []
    for i, operator in enumerate(operators_of(template.operators)):
        blocks = blocks_of(operator)
        if isinstance(operator, FollowedBy):
            before = _extreme("greatest", "end", blocks_of(operator.left), aliases)
            after = _extreme("least", "start", blocks_of(operator.right), aliases)
            conditions.append((blocks, f"{before} < {after}"))
        conditions.append((blocks, f"{_duration(blocks, aliases)} <= t.w{i}"))
    every = blocks_of(template.operators)
    conditions.append((every, f"{_duration(every, aliases)} <= t.w{template.windows - 1}"))
    return conditions


def _early(template: Template, aliases: _Aliases, order: list[int]) -> list[str]:
    """What order and windows say of the last of some blocks and those before it, while the other
    blocks of their operators are not there: the blocks next to it in time, and the pivot."""
    *placed, block = order
    before = before_of(template)
    last = [a for a in placed if (a, block) in before]
    last = [a for a in last if not any((a, c) in before for c in last)]
    first = [b for b in placed if (block, b) in before]
    first = [b for b in first if not any((c, b) in before for c in first)]
    windows = [*map(blocks_of, operators_of(template.operators))]
    conditions = []
    for other in dict.fromkeys([*last, *first, *placed[:1]]):
        around = [i for i, blocks in enumerate(windows) if {other, block} <= {*blocks}]
        narrowest = min(around, key=lambda i: len(windows[i]))
        if {*windows[narrowest]} <= {*order}:
            continue  # all of its blocks are there, so it is asked as a whole
        if (other, block) in before or (block, other) in before:
            a, b = (other, block) if (other, block) in before else (block, other)
            conditions.append(f'{aliases.document(a)}."end" < {aliases.document(b)}."start"')
        conditions.append(f"{_duration([other, block], aliases)} <= t.w{narrowest}")
    return conditions


def _duration(blocks: list[int], aliases: _Aliases) -> str:
    last = _extreme("greatest", "end", blocks, aliases)
    return f"{last} - {_extreme('least', 'start', blocks, aliases)}"


def _extreme(function: str, column: str, blocks: list[int], aliases: _Aliases) -> str:
    times = [f'{aliases.document(b)}."{column}"' for b in blocks]
    return times[0] if len(times) == 1 else f"{function}({', '.join(times)})"
