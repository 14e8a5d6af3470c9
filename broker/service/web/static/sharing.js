// All subscriptions together: the templates that their joins share, and the automaton of their paths.

import { get } from "./api.js";
import { h, s } from "./dom.js";
import { number, plural } from "./format.js";
import { facts, nothing, part } from "./parts.js";

/** The screen. */
export async function sharing(main) {
  main.append(h("header", { class: "top" }, h("h1", {}, "What subscriptions share"), h("div", { class: "row" }, h("a", { class: "button", href: "#/subscriptions" }, "All subscriptions"))));
  const found = await get("sharing");
  if (!found.subscriptions) {
    main.append(nothing("No subscriptions yet", h("a", { class: "button", href: "#/start" }, "Begin here")));
    return;
  }
  main.append(
    h("div", { class: "card" }, facts([
      ["Subscriptions", `${number(found.subscriptions)}, ${number(found.patterns)} of them event patterns`],
      ["Different queries", number(found.queries)],
      ["Templates", `${number(found.template_count)}: queries whose joins have one shape are decided together`],
      ["Automaton", `${plural(found.states, "state")} in place of ${number(Math.max(found.steps, found.states))}: paths with a common beginning are read once`],
    ])),
    part("Templates", null, h("p", { class: "quiet" }, found.templates.length < found.template_count ? `Those of most subscriptions; inner queries have others.` : ""), h("ul", { class: "rows" }, templates(found.templates))),
    part("Paths", null, h("p", { class: "quiet" }, "Each line is a state that all paths below it share; the bar is how much of the automaton lies behind it."), h("ul", { class: "card paths" }, found.paths.map((path) => state(path, found.states)))),
  );
}

function templates(all) {
  const most = Math.max(...all.map((each) => each.subscriptions), 1);
  return all.map((each) =>
    h(
      "li",
      { class: "card template" },
      drawing(each),
      h(
        "div",
        { class: "what" },
        h("h3", {}, shape(each)),
        h("p", { class: "count" }, bar(each.subscriptions / most), ` ${plural(each.subscriptions, "subscription")}, ${plural(each.queries, "different query", "different queries")}${each.conditions ? `, ${plural(each.conditions, "further condition")}` : ""}`),
        h("p", { class: "small" }, each.examples.flatMap((id) => [h("a", { href: `#/subscriptions/${encodeURIComponent(id)}` }, id), " "]), each.subscriptions > each.examples.length ? "…" : ""),
      ),
    ));
}

function shape({ blocks, joins }) {
  if (blocks === 1) return "One document";
  return `${number(blocks)} documents: ${joins.map((join) => `${join.operator.toLowerCase()}${join.equalities ? `, ${plural(join.equalities, "value")} equal` : ""}`).join("; then ")}`;
}

// The blocks of a template in a row, and its joins as arcs between them.
function drawing({ blocks, joins }) {
  const gap = Math.min(46, 150 / Math.max(1, blocks - 1));
  const x = (block) => 16 + block * gap;
  const width = x(blocks - 1) + 16;
  const arcs = joins.map((join) => {
    const from = x(Math.max(...join.left));
    const to = x(Math.min(...join.right));
    return s("path", { class: join.equalities ? "arc" : "arc loose", d: `M${from} 30Q${(from + to) / 2} ${30 - 14 - join.equalities * 4} ${to} 30`, "marker-end": null });
  });
  const boxes = Array.from({ length: blocks }, (_, block) => s("circle", { cx: x(block), cy: 34, r: 9 }));
  const heads = joins.filter((join) => join.operator === "FOLLOWED BY").map((join) => {
    const to = x(Math.min(...join.right));
    return s("path", { class: "head", d: `M${to - 9} 23l7 2.5-5.5 5z` });
  });
  return s("svg", { class: "drawing", viewBox: `0 0 ${Math.max(width, 60)} 48`, "aria-hidden": "true" }, arcs, boxes, heads);
}

function bar(share) {
  return s("svg", { class: "bar", viewBox: "0 0 60 8", "aria-hidden": "true" }, s("rect", { class: "all", width: 60, height: 8, rx: 4 }), s("rect", { class: "part", width: 60 * Math.max(0.03, share), height: 8, rx: 4 }));
}

function state(path, all) {
  return h("li", { class: `depth-${Math.min(path.depth, 9)}` }, h("code", {}, path.label), bar(path.states / all), h("span", { class: "quiet small" }, `${plural(path.states, "state")}${path.ends ? `, ${plural(path.ends, "path ends", "paths end")} here` : ""}`));
}
