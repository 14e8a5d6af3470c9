// Why a match is one: the blocks of its query in order, each with the nodes that matched, and between
// them what joins. Where the query is no longer there, the nodes alone.

import { change, get } from "./api.js";
import { h } from "./dom.js";
import { apart, moment, short } from "./format.js";
import { coloured, laidOut, tokens } from "./xscl.js";

const queries = new Map(); // what is known of each query that was asked for

/** What unfolds below a match. */
export async function why(match) {
  if (!queries.has(match.query)) {
    const asked = asking(match.query);
    queries.set(match.query, asked);
    asked.catch(() => queries.delete(match.query));
  }
  const query = await queries.get(match.query);
  const left = new Map(Object.entries(match.values));
  const blocks = query ? query.outline.map((part) => drawn(part, match, left)) : [];
  return h(
    "div",
    {},
    h("p", { class: "quiet" }, match.start === match.end ? `Its documents are of ${moment(match.start)}.` : `Its documents are of ${moment(match.start)} to ${moment(match.end)}, ${apart(match.start, match.end)} apart.`),
    blocks.length ? h("ol", { class: "chain" }, blocks) : null,
    left.size ? nodes(match, [...left], "Further values") : null,
    query ? h("pre", { class: "code wrapped", tabindex: "0" }, h("code", {}, coloured(query.text))) : h("p", { class: "quiet" }, "The subscription was removed since."),
  );
}

// The text of a subscription and its parts; null if it was removed.
async function asking(id) {
  try {
    const text = laidOut(await get(`subscriptions/${encodeURIComponent(id)}`));
    const { queries: found } = await change("POST", "check", { text });
    return { text, outline: found.find((each) => each.id === id)?.outline || [] };
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// A part of the query; the values of its variables are taken from what is left.
function drawn(part, match, left) {
  if (part.kind !== "block") {
    const said = [part.name || (part.text || part.window ? "" : "together"), part.window ? `within ${part.window}` : ""].filter((each) => each).join(" ");
    return h("li", { class: part.kind === "holder" ? "edge held" : "edge" }, h("p", {}, h("b", {}, said), part.text ? h("code", {}, short(part.text, 200)) : null));
  }
  const names = [...tokens(part.text)].filter(([kind]) => kind === "variable").map(([, text]) => text.slice(2).trim());
  const found = names.filter((name) => left.has(name)).map((name) => [name, left.get(name)]);
  for (const [name] of found) left.delete(name);
  return h("li", { class: "box" }, h("code", {}, short(part.text, 400)), found.length ? nodes(match, found, `The nodes of ${short(part.text, 60)}`) : null);
}

function nodes(match, values, label) {
  const rows = values.map(([name, found]) => {
    const group = match.joined.findIndex((names) => names.includes(name));
    const equals = group >= 0 ? `equals ${match.joined[group].filter((other) => other !== name).join(", ")}` : "";
    return h("tr", { class: group >= 0 ? "joins" : null }, h("th", { scope: "row" }, h("code", {}, name)), h("td", { dir: "auto" }, found.map((value) => h("span", { class: "value" }, short(value, 400))), equals ? h("span", { class: "quiet small equals" }, equals) : null));
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", { class: "nodes" }, h("tbody", {}, rows)));
}
