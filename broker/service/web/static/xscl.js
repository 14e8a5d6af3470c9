// The words of XSCL, for colours and completion; and XML in lines. Both give elements of text.

import { h } from "./dom.js";

export const KEYWORDS =
  "SELECT FROM WHERE WITHIN PUBLISH LET NAMESPACE FOLLOWED BY JOIN NEXT FOLD AND OR NOT AS AT END OVER GROUP HAVING PARTITION USING SKIP TILL ANY MATCH STRICT CONTIGUITY NON OVERLAPPING ONE PER START WAIT AFTER INFINITY".split(" ");
const WORDS = new Set(KEYWORDS);
const UNITS = /^(ms|s|seconds?|min|minutes?|h|hours?|d|days?|weeks?)$/i;

const TOKENS =
  /(?<comment>--[^\n]*)|(?<string>"[^"\n]*"?|'[^'\n]*'?)|(?<variable>->\s*[\p{L}_][\p{L}\p{N}_]*'*)|(?<number>\d+(?:\.\d+)?)|(?<word>[\p{L}_](?:[\p{L}\p{N}_.]|-(?!>))*'*)|(?<mark>[{}()[\];,]|[<>!]?=|[<>]|\/\/?)|(?<rest>\s+|.)/gsu;

/** The tokens of a text: [kind, text]. */
export function* tokens(text) {
  let before = "";
  for (const { groups } of text.matchAll(TOKENS)) {
    let [kind, part] = Object.entries(groups).find(([, value]) => value !== undefined);
    if (kind === "word") {
      const asName = before === "/" || before === "//" || before === "@";
      if (!asName && WORDS.has(part.toUpperCase())) kind = "keyword";
      else if (/^\d/.test(before) && UNITS.test(part)) kind = "number";
    }
    if (part.trim()) before = part;
    yield [kind, part];
  }
}

/** A text of XSCL as coloured parts. */
export function coloured(text) {
  return [...tokens(text)].map(([kind, part]) => (kind === "rest" ? part : h("span", { class: `t-${kind}` }, part)));
}

/** The query of a subscription without its label. */
export function unlabelled({ id, text }) {
  return text.startsWith(`${id}: `) ? text.slice(id.length + 2) : text;
}

/** The text of a subscription in lines, with its label: each clause, and each block behind a join. */
export function laidOut(subscription) {
  const clauses = new Set("FROM FOLLOWED JOIN NEXT WHERE WITHIN WAIT PARTITION USING GROUP HAVING PUBLISH".split(" "));
  const query = unlabelled(subscription);
  let out = "";
  let last = "";
  let joins = false; // between the word of a join and the brace that closes its condition
  for (const [kind, part] of tokens(query)) {
    if (kind === "rest" && !part.trim() && last === "}" && joins) {
      joins = false;
      out += "\n    ";
      continue;
    }
    const word = kind === "keyword" ? part.toUpperCase() : "";
    if (clauses.has(word) && last !== "(") out = `${out.trimEnd()}\n  `;
    if (word === "FOLLOWED" || word === "JOIN" || word === "NEXT") joins = true;
    if (part.trim()) last = part;
    out += part;
  }
  return query === subscription.text ? `${out}\n` : `${subscription.id}:\n  ${out}\n`;
}

/** XML as indented, coloured lines; of a long text only the beginning. */
export function xml(text, most = 100_000) {
  const lines = [];
  let depth = 0;
  for (const part of text.slice(0, most).match(/<[^>]*>|[^<]+/g) || []) {
    if (!part.trim()) continue;
    const closing = part.startsWith("</");
    if (closing) depth -= 1;
    const last = lines[lines.length - 1];
    if (closing && last && last.opens && last.depth === depth) last.parts.push(part);
    else if (!part.startsWith("<") && last && last.opens) last.parts.push(part);
    else lines.push({ depth: Math.max(0, depth), parts: [part], opens: false });
    const line = lines[lines.length - 1];
    line.opens = !closing && part.startsWith("<") && !part.endsWith("/>") ? true : line.opens && !closing;
    if (part.startsWith("<") && !closing && !part.endsWith("/>") && !part.startsWith("<?")) depth += 1;
  }
  const shown = lines.flatMap(({ depth: by, parts }) => [
    "  ".repeat(Math.min(by, 20)),
    ...parts.map((part) => (part.startsWith("<") ? h("span", { class: "t-tag" }, part) : part)),
    "\n",
  ]);
  if (text.length > most) shown.push(`… and ${(text.length - most).toLocaleString("en")} characters more`);
  return h("pre", { class: "code", tabindex: "0" }, h("code", {}, ...shown));
}
