// An editor of XSCL: a text area, so that undo, phones and screen readers work as everywhere, over the
// same text in colours. It completes keywords, streams, fields and values that were really seen.

import { get } from "./api.js";
import { h } from "./dom.js";
import { short } from "./format.js";
import { KEYWORDS, coloured } from "./xscl.js";

const known = { streams: null, paths: new Map() };

/** The editor. `onChange` gets the text; `show(findings)` underlines what is wrong. */
export function editor(text, onChange) {
  const colours = h("code", {});
  const under = h("pre", { class: "colours", "aria-hidden": "true" }, colours);
  const list = h("ul", { class: "choices", role: "listbox", id: "choices", "aria-label": "Completions", hidden: true });
  const area = h("textarea", {
    id: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", rows: 12, "aria-autocomplete": "list", "aria-controls": "choices", "aria-describedby": "findings",
  });
  const element = h("div", { class: "editor" }, under, area, list);
  let findings = [];
  let choices = [];
  let chosen = -1;

  const paint = () => {
    colours.replaceChildren(...underlined(area.value, findings), "\n");
    area.rows = Math.min(28, Math.max(8, area.value.split("\n").length + 1));
    under.scrollTo(area.scrollLeft, area.scrollTop);
  };
  const close = () => {
    list.hidden = true;
    choices = [];
    area.removeAttribute("aria-activedescendant");
  };
  const choose = (at) => {
    chosen = at;
    [...list.children].forEach((each, place) => each.setAttribute("aria-selected", place === at ? "true" : "false"));
    area.setAttribute("aria-activedescendant", `choice-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const accept = (at) => {
    const { from, text: insert } = choices[at];
    area.focus();
    area.setSelectionRange(from, area.selectionStart);
    if (!document.execCommand("insertText", false, insert)) area.setRangeText(insert, from, area.selectionStart, "end");
    close();
  };
  let turn = 0;
  const complete = async (asked) => {
    const mine = (turn += 1);
    const found = await completions(area.value, area.selectionStart, asked);
    if (mine !== turn) return;
    choices = found;
    if (!found.length) return close();
    const before = area.value.slice(0, found[0].from).split("\n");
    const style = getComputedStyle(area);
    const width = colourWidth(under);
    list.style.top = `${before.length * parseFloat(style.lineHeight) + parseFloat(style.paddingTop) + 4 - area.scrollTop}px`;
    list.replaceChildren(...found.map((each, at) => h("li", { role: "option", id: `choice-${at}`, on: { mousedown: (event) => (event.preventDefault(), accept(at)) } }, h("b", {}, each.text.trim()), each.note ? h("span", {}, each.note) : null)));
    list.hidden = false;
    const beside = before[before.length - 1].length * width + parseFloat(style.paddingLeft) - area.scrollLeft;
    list.style.left = `${Math.max(0, Math.min(element.clientWidth - list.offsetWidth, beside))}px`;
    choose(0);
  };
  area.addEventListener("input", () => {
    findings = [];
    paint();
    onChange(area.value);
    complete(false);
  });
  area.addEventListener("scroll", paint);
  area.addEventListener("blur", close);
  area.addEventListener("click", close);
  area.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      complete(true);
    } else if (list.hidden) {
      return;
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose((chosen + (event.key === "ArrowDown" ? 1 : choices.length - 1)) % choices.length);
    } else if (event.key === "Enter" || event.key === "Tab") {
      event.preventDefault();
      accept(chosen);
    } else if (event.key === "Escape") {
      event.preventDefault();
      close();
    } else if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
      close();
    }
  });
  area.value = text;
  queueMicrotask(paint);
  return {
    element,
    area,
    show(found) {
      findings = found;
      paint();
    },
  };
}

let measured = 0;
function colourWidth(under) {
  if (!measured) {
    const probe = h("span", {}, "0".repeat(100));
    under.append(probe);
    measured = probe.getBoundingClientRect().width / 100;
    probe.remove();
  }
  return measured;
}

// The coloured text, with what is wrong underlined.
function underlined(text, findings) {
  const lines = text.split("\n");
  const starts = [0];
  for (const line of lines) starts.push(starts[starts.length - 1] + line.length + 1);
  const marks = findings
    .filter((each) => each.line && each.line <= lines.length)
    .map((each) => {
      // Columns count characters, and JavaScript counts half of some.
      const units = [...lines[each.line - 1]].slice(0, each.column - 1).join("").length;
      const from = starts[each.line - 1] + units;
      return { from, to: from + Math.max(1, each.length || 1), kind: each.severity };
    })
    .sort((a, b) => a.from - b.from);
  const parts = [];
  let at = 0;
  for (const { from, to, kind } of marks) {
    if (from < at) continue;
    parts.push(...coloured(text.slice(at, from)), h("span", { class: `wrong ${kind}` }, text.slice(from, to) || " "));
    at = to;
  }
  return [...parts, ...coloured(text.slice(at))];
}

// -- completion ------------------------------------------------------------------------------------

async function completions(text, caret, asked) {
  const before = text.slice(0, caret);
  if (/--[^\n]*$/.test(before)) return [];
  const value = before.match(/\.\/([\p{L}\p{N}_:.@/-]+)\s*(?:=|!=|,)\s*'([^'\n]*)$/u);
  if (value) return values(before, value[1], value[2], caret);
  const path = before.match(/(?:\/\/?|@)([\p{L}\p{N}_.-]*)$/u);
  if (path) return fields(before, path[1], caret, before.endsWith(path[0]) && /\[[^\]]*$/.test(before));
  const word = before.match(/[\p{L}_][\p{L}\p{N}_.-]*$/u);
  if (!word && !asked) return [];
  const typed = word ? word[0] : "";
  if (typed.length < 2 && !asked) return [];
  const from = caret - typed.length;
  const streams = (await seenStreams()).map(({ name, documents }) => ({ text: `${name}//`, note: `${documents.toLocaleString("en")} documents`, from }));
  const words = KEYWORDS.map((each) => ({ text: `${each} `, note: "", from }));
  return [...streams, ...words].filter((each) => each.text.toLowerCase().startsWith(typed.toLowerCase()) && each.text.trim() !== typed).slice(0, 12);
}

async function seenStreams() {
  known.streams ??= get("streams").catch(() => []);
  return known.streams;
}

async function seenPaths(before) {
  const blocks = [...before.matchAll(/([\p{L}_][\p{L}\p{N}_.-]*)?\/\/?[\p{L}*]/gu)].map((found) => found[1]).filter((name) => name);
  const streams = (await seenStreams()).map((each) => each.name);
  const stream = blocks.reverse().find((name) => streams.includes(name)) || "S";
  if (!known.paths.has(stream)) known.paths.set(stream, get(`streams/${encodeURIComponent(stream)}`).then((found) => found.paths).catch(() => []));
  return known.paths.get(stream);
}

async function fields(before, typed, caret, inside) {
  const names = new Map();
  for (const { path, documents, values } of await seenPaths(before)) {
    const parts = path.split("/").filter((part) => part);
    if (inside && parts.length < 2) continue;
    const name = parts[parts.length - 1].replace(/^@/, "");
    if (name && !names.has(name)) names.set(name, values?.length ? short(values[0].value, 40) : `${documents} documents`);
  }
  return [...names]
    .filter(([name]) => name.toLowerCase().startsWith(typed.toLowerCase()) && name !== typed)
    .slice(0, 12)
    .map(([name, note]) => ({ text: name, note, from: caret - typed.length }));
}

async function values(before, path, typed, caret) {
  const wanted = path.split("/").pop();
  const seen = (await seenPaths(before)).find((each) => each.path.split("/").pop() === wanted);
  return (seen?.values || [])
    .filter(({ value }) => value.toLowerCase().startsWith(typed.toLowerCase()) && value !== typed && !value.includes("'") && value.length < 200)
    .slice(0, 12)
    .map(({ value, documents }) => ({ text: value, note: `${documents} times`, from: caret - typed.length }));
}
