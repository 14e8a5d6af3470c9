// A query as a picture: a box for each block with the documents that passed it, an edge for each join
// with the pairs that agree, come in order and lie within the window. Red where nothing passes.

import { h, s } from "./dom.js";
import { moment, number, plural, short } from "./format.js";

/**
 * The picture of an entry of /v1/why, with the sentence that says the most important thing. The parts
 * of an event pattern are in `outline`, as /v1/check has them.
 */
export function graph(told, outline) {
  if (told.kind === "pattern") return pattern(told, outline);
  return h(
    "div",
    { class: "graph" },
    h("p", { class: "sentence" }, told.sentence),
    h("ol", { class: "chain" }, told.blocks.map((block) => [edge(told.joins.filter((join) => Math.max(join.left, join.right) === block.number), told.blocks), box(block)])),
    whole(told),
    h("p", { class: "quiet" }, told.documents < told.stored ? `Of the newest ${number(told.documents)} of ${plural(told.stored, "stored document")}.` : `Of ${plural(told.stored, "stored document")}.`),
  );
}

function box(block) {
  const empty = block.passed === 0;
  return h(
    "li",
    { class: empty ? "box none" : "box" },
    h("p", { class: "count" }, bar(block.passed, block.documents), h("span", {}, h("b", {}, number(block.passed)), ` of ${plural(block.documents, "document")} pass`)),
    h("code", {}, short(block.block, 400)),
    block.hint ? h("p", { class: "warn" }, block.hint) : null,
    block.fell.filter((fell) => fell.documents).slice(0, 6).map((fell) => h("p", { class: "fell" }, h("b", {}, number(fell.documents)), " fail at ", h("code", {}, short(fell.condition, 160)), fell.hint && empty ? h("span", { class: "warn" }, ` ${fell.hint}`) : null)),
  );
}

// How much of the whole, as a thin bar.
function bar(part, all) {
  const share = all ? Math.max(part ? 0.03 : 0, part / all) : 0;
  return s("svg", { class: "bar", viewBox: "0 0 60 8", "aria-hidden": "true" }, s("rect", { class: "all", width: 60, height: 8, rx: 4 }), s("rect", { class: "part", width: 60 * share, height: 8, rx: 4 }));
}

function edge(joins, blocks) {
  return joins.map((join) => {
    const steps = [
      ["agree", join.agree],
      ...(join.operator === "FOLLOWED BY" ? [["in order", join.ordered]] : []),
      [join.window ? `within ${join.window}` : "no window", join.within],
      ...(join.predicates.length ? [["pass the rest", join.passed]] : []),
    ];
    const empty = join.passed === 0;
    return h(
      "li",
      { class: empty ? "edge none" : "edge" },
      h("p", {}, h("b", {}, join.operator), blocks.length > 2 ? h("span", { class: "quiet" }, ` blocks ${join.left + 1} and ${join.right + 1}`) : null, join.equalities.map((each) => h("code", {}, each.text))),
      h("p", { class: "steps" }, steps.map(([label, count]) => h("span", { class: count ? null : "zero" }, h("b", {}, `${number(count)}${join.exact ? "" : "+"}`), ` ${label}`))),
      join.predicates.length ? h("p", { class: "quiet" }, join.predicates.map((each) => h("code", {}, short(each, 200)))) : null,
      join.hint ? h("p", { class: "warn" }, join.hint) : null,
      empty && join.near.length ? h("p", { class: "quiet" }, "Came near: ", short(join.near[0].values.join(", "), 160), ` (${join.near[0].detail})`) : null,
    );
  });
}

function whole({ whole: all, blocks, status }) {
  if (blocks.length < 2) return null;
  return h("p", { class: all.matched ? "whole" : "whole none" }, h("b", {}, `${number(all.matched)}${all.exact ? "" : "+"}`), all.matched === 1 ? " combination matches" : " combinations match", status && all.counted !== null ? `, ${number(all.counted)} since it was added` : "");
}

function pattern(told, outline) {
  return h(
    "div",
    { class: "graph" },
    h("p", { class: "sentence" }, told.sentence),
    h("p", { class: "quiet" }, `It answers ${told.answers}.`),
    drawn(outline || told.blocks.map((block) => ({ depth: 0, kind: "block", name: "", text: block.block, window: null })), told.blocks),
    told.waiting_count ? h("div", { class: "waits" }, h("p", {}, h("b", {}, number(told.waiting_count)), told.waiting_count === 1 ? " waits to be decided" : " wait to be decided"), h("ul", {}, told.waiting.slice(0, 5).map((each) => h("li", {}, short(each.documents.map((document) => document.id).join(", "), 120), each.decides ? ` · until ${moment(each.decides)}` : " · for ever")))) : null,
    told.blocked_count ? h("div", { class: "waits" }, h("p", {}, h("b", {}, number(told.blocked_count)), told.blocked_count === 1 ? " was blocked" : " were blocked"), h("ul", {}, told.blocked.slice(0, 5).map((each) => h("li", {}, short(each.documents.map((document) => document.id).join(", "), 100), " by ", h("code", {}, short(each.absent, 100)))))) : null,
  );
}

// The parts of a pattern, deeper ones in what holds them. `counts` are the blocks with their documents.
function drawn(parts, counts) {
  const left = [...counts];
  const root = h("ol", { class: "chain" });
  const places = [root]; // by depth
  let absent = -1; // the depth of the NOT that we are in
  for (const part of parts) {
    if (part.depth <= absent) absent = -1;
    const into = places[part.depth] || root;
    if (part.kind === "holder") {
      const inner = h("ol", { class: "chain" });
      places[part.depth + 1] = inner;
      if (part.name === "NOT" && absent < 0) absent = part.depth;
      const says = [part.name || (part.text || part.window ? "" : "together"), part.window ? `within ${part.window}` : "", part.text].filter((each) => each).join(", ");
      into.append(h("li", { class: part.name === "NOT" ? "holder absent" : "holder" }, h("p", {}, h("b", {}, says)), inner));
    } else if (part.kind === "operator") {
      into.append(h("li", { class: "edge" }, h("p", {}, h("b", {}, part.name), part.text ? h("code", {}, short(part.text, 200)) : null), part.window ? h("p", { class: "steps" }, h("span", {}, `within ${part.window}`)) : null));
    } else {
      const at = left.findIndex((each) => each.block === part.text || each.block.startsWith(`${part.text.split("->")[0]}`));
      const [taken] = at >= 0 ? left.splice(at, 1) : [null];
      const empty = taken && !taken.documents && absent < 0;
      into.append(h("li", { class: empty ? "box none" : "box" }, taken ? h("p", {}, h("b", {}, number(taken.documents)), taken.documents === 1 ? " document taken" : " documents taken") : null, h("code", {}, short(part.text, 400))));
    }
  }
  return root;
}
