"""In which order, or by which tree, the parts of a pattern are combined.

In: how many there are of each part within the window, and the selectivities of what is asked of
them. Out: a tree. Nothing here knows documents, patterns or a store.
"""

from broker.planner.model import Attached, Model, Problem, Shape, is_order, of_order, parts_of
from broker.planner.planning import (
    DEFAULT,
    METHODS,
    PLANNING,
    SECONDS,
    Method,
    Planning,
    plan,
)

__all__ = [
    "DEFAULT",
    "METHODS",
    "PLANNING",
    "SECONDS",
    "Attached",
    "Method",
    "Model",
    "Planning",
    "Problem",
    "Shape",
    "is_order",
    "of_order",
    "parts_of",
    "plan",
]
