// A match as a card: a headline, its items side by side, and the values that join, marked in each.

import { h, httpUrl, outside } from "./dom.js";
import { ago, apart, moment, short } from "./format.js";
import { why } from "./why.js";
import { xml } from "./xscl.js";

const opened = new Set(); // what the reader has unfolded, also while it is out of sight

/** The article of a match. `fresh`: it has just come in. */
export function card(match, { fresh = false, onSubscription = null } = {}) {
  const joined = joins(match);
  const values = joined.map((join) => join.value);
  // A value is one of each document if as many variables hold it; with two documents, always.
  const inEach = joined.filter((join) => match.documents.length === 2 || join.names.length >= match.documents.length).map((join) => join.value);
  const title = h("h2", { id: `m${match.n}`, class: "clamped", dir: "auto" }, short(headline(match, joined), 160));
  const query = onSubscription
    ? h("button", { type: "button", class: "chip", title: "Only matches of this subscription", on: { click: () => onSubscription(match.query) } }, match.query)
    : h("span", { class: "chip" }, match.query);
  return h(
    "article",
    { class: fresh ? "card match fresh" : "card match", "aria-labelledby": `m${match.n}`, "data-n": match.n },
    h("header", {}, query, when(match.taken || match.end), match.left_out ? h("span", { class: "quiet" }, `${match.left_out} more left out by its throttle`) : null),
    title,
    h("div", { class: "items" }, match.documents.map((document, at) => item(document, at ? match.documents[0] : null, values, inEach))),
    joined.length ? h("dl", { class: "joined" }, joined.map(joinedRow)) : null,
    others(match, joined),
    h("footer", {}, unfolding(match, "why", "Why", () => why(match)), unfolding(match, "xml", "XML", () => Promise.resolve(xml(match.result)))),
  );
}

/** A time, relative, in full when pointed at. */
export function when(time, now) {
  return h("time", { datetime: time, title: moment(time) }, ago(time, now));
}

// What joins: the names that are equal, and the value.
function joins(match) {
  return match.joined
    .map((names) => {
      const name = names.find((each) => match.values[each]?.length);
      return name ? { names, value: match.values[name][0] } : null;
    })
    .filter((each) => each);
}

function headline(match, joined) {
  const said = joined.map((join) => join.value).find((value) => value.length <= 160 && !httpUrl(value) && /\p{L}{2}/u.test(value));
  const titles = match.documents.map((document) => document.title).filter((title) => title);
  if (titles.length && joined.length && !titles.includes(said)) return titles[titles.length - 1];
  return said || titles[titles.length - 1] || match.query;
}

// When something was, beside the first.
function after(first, time) {
  const seconds = (Date.parse(time) - Date.parse(first)) / 1000;
  if (Math.abs(seconds) < 1) return "at the same time";
  return `${apart(first, time)} ${seconds > 0 ? "later" : "earlier"}`;
}

function item(document, first, values, inEach) {
  const time = first ? after(first.timestamp, document.timestamp) : ago(document.timestamp);
  const title = short(document.title || document.id, 240);
  return h(
    "div",
    { class: "item" },
    h("p", { class: "where" }, h("b", {}, ...marked(document.feed || document.stream, values)), " ", h("time", { datetime: document.timestamp, title: moment(document.timestamp) }, time)),
    h("p", { class: "title clamped", dir: "auto" }, document.link ? outside(document.link, ...marked(title, values)) : marked(title, values)),
    document.link && httpUrl(document.link) ? h("p", { class: "host" }, values.includes(document.link) ? h("mark", {}, short(plain(document.link), 80)) : new URL(document.link).host) : null,
    inEach.filter((value) => !visible(document, value)).map((value) => h("p", { class: "also clamped", dir: "auto" }, h("mark", {}, short(plain(value), 120)))),
  );
}

// Whether a value stands in what is shown of a document.
function visible(document, value) {
  return document.link === value || document.title === value || [document.title, document.feed || document.stream].some((text) => (text || "").slice(0, 240).includes(value));
}

function plain(url) {
  return httpUrl(url) ? url.replace(/^https?:\/\//, "") : url;
}

function joinedRow({ names, value }) {
  const shown = short(value, 200);
  return h("div", {}, h("dt", {}, names.join(" = ")), h("dd", { class: "clamped", dir: "auto" }, h("mark", {}, httpUrl(value) ? outside(value, shown) : shown)));
}

// Selected values that neither join nor stand in a title.
function others(match, joined) {
  const known = new Set([...joined.flatMap((join) => join.names)]);
  const said = new Set(match.documents.flatMap((document) => [document.title, document.link, document.feed]));
  const rows = Object.entries(match.values)
    .filter(([name, found]) => !known.has(name) && found.length && !found.every((value) => said.has(value)))
    .slice(0, 12)
    .map(([name, found]) => h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, short(found.join(", "), 300))));
  return rows.length ? h("dl", { class: "values" }, rows) : null;
}

/** A text whose parts that are among the values are marked; so is one that begins a longer value. */
export function marked(text, values) {
  const begun = text.endsWith("…") ? text.slice(0, -1) : "";
  if (begun && values.some((value) => value.startsWith(begun))) return [h("mark", {}, text)];
  const found = values.filter((value) => value.length > 1 && value.length <= text.length && text.includes(value)).sort((a, b) => b.length - a.length);
  if (!found.length) return [text];
  const [value] = found;
  const at = text.indexOf(value);
  return [...marked(text.slice(0, at), found.slice(1)), h("mark", {}, value), ...marked(text.slice(at + value.length), found.slice(1))].filter((part) => part !== "");
}

// -- what unfolds ----------------------------------------------------------------------------------

function unfolding(match, kind, label, make) {
  const key = `${match.id} ${kind}`;
  const place = h("div", { class: "unfolded" });
  const element = h("details", { open: opened.has(key) }, h("summary", {}, label), place);
  let filled = false;
  const fill = async () => {
    if (filled) return;
    filled = true;
    try {
      place.replaceChildren(await make());
    } catch (error) {
      filled = false; // unfolded once more, it is asked again
      place.replaceChildren(h("p", { class: "bad" }, error.message));
    }
  };
  element.addEventListener("toggle", () => {
    if (element.open) {
      opened.add(key);
      fill();
    } else opened.delete(key);
  });
  if (element.open) fill();
  return element;
}
