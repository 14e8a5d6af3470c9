"""Copies of nodes, as text: grafting them into a tree would rename their prefixes."""

from __future__ import annotations

import re

from lxml import etree

from broker.text.markup import text_xml
from xscl.stage1.tree import Node

_TAG_NAME = re.compile(r"<[^\s/>]+")


def node_xml(node: Node, default_namespace: str = "") -> str:
    """A copy of an element, or the text of another node.

    `default_namespace` is the one in scope where the copy goes.
    """
    if isinstance(node, str):
        return text_xml(node)
    copy = etree.tostring(node, encoding="unicode", with_tail=False)
    if default_namespace and isinstance(node.tag, str) and None not in node.nsmap:
        # Names without a namespace stay without.
        return _TAG_NAME.sub(lambda start: f'{start[0]} xmlns=""', copy, count=1)
    return copy
