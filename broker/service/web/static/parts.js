// What several screens are made of: lists that change in place, questions before something goes, facts.

import { button, h, say } from "./dom.js";

/**
 * A list that shows entries and changes in place: only what differs is made anew, and what has the
 * focus keeps it. Returns the function that shows entries.
 */
export function keyed(list, key, render) {
  const shown = new Map(); // key -> { json, element }
  return (entries) => {
    const keys = new Set(entries.map(key));
    for (const [each, { element }] of shown) {
      if (!keys.has(each)) {
        element.remove();
        shown.delete(each);
      }
    }
    let before = null;
    for (const entry of entries) {
      const json = JSON.stringify(entry);
      const old = shown.get(key(entry));
      let element = old?.element;
      if (!old || old.json !== json) {
        element = render(entry);
        shown.set(key(entry), { json, element });
        if (old) again(old.element, element);
      }
      const place = before ? before.nextSibling : list.firstChild;
      if (place !== element) list.insertBefore(element, place);
      before = element;
    }
  };
}

// Put an element in the place of another; the focus and what is unfolded stay.
function again(old, element) {
  const focused = old.contains(document.activeElement) ? document.activeElement.textContent : null;
  const unfolded = [...old.querySelectorAll("details")].map((each) => each.open);
  old.replaceWith(element);
  [...element.querySelectorAll("details")].forEach((each, at) => {
    each.open = unfolded[at] || false;
  });
  if (focused !== null) [...element.querySelectorAll("button, summary, a")].find((each) => each.textContent === focused)?.focus();
}

/** Do it now and every so many seconds while the page is seen; returns what ends it. */
export function often(act, seconds) {
  let timer = 0;
  let ended = false;
  const turn = async () => {
    clearTimeout(timer);
    if (ended) return;
    if (!document.hidden) await act().catch(() => {}); // it is tried again, and the header says so
    if (!ended) timer = setTimeout(turn, seconds * 1000);
  };
  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", turn);
  };
}

/** A button whose act may fail: it is out of use meanwhile, and what goes wrong is told. */
export function doing(label, act, props = {}) {
  const element = button(
    label,
    async () => {
      element.disabled = true;
      try {
        await act();
      } catch (error) {
        say(error.message, true);
      } finally {
        element.disabled = false;
      }
    },
    props,
  );
  return element;
}

/** A button that asks first. `more` are elements between the question and the answers. */
export function asking(label, question, text, act, { answer = label.replace("…", ""), more = [], props = {} } = {}) {
  const ask = () => {
    const dialog = h(
      "dialog",
      { "aria-labelledby": "question" },
      h("h2", { id: "question" }, question),
      h("p", {}, text),
      ...more,
      h(
        "div",
        { class: "row" },
        doing(answer, async () => {
          await act();
          dialog.close();
        }, { class: props.class === "danger" ? "danger" : "main" }),
        button("Cancel", () => dialog.close()),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      element.focus();
    });
    document.getElementById("main").append(dialog);
    dialog.showModal();
  };
  const element = button(label, ask, props);
  return element;
}

/** A field with its label. */
export function field(id, label, props = {}) {
  return h("label", { for: id }, h("span", {}, label), h("input", { id, autocomplete: "off", spellcheck: "false", ...props }));
}

/** A choice with its label; options are texts, or pairs of value and text. */
export function choice(id, label, options, props = {}) {
  const made = options.map((each) => (Array.isArray(each) ? h("option", { value: each[0] }, each[1]) : h("option", { value: each }, each)));
  return h("label", { for: id }, h("span", {}, label), h("select", { id, ...props }, made));
}

/** A box to tick. */
export function tick(id, label, props = {}) {
  return h("label", { for: id, class: "check" }, h("input", { id, type: "checkbox", ...props }), ` ${label}`);
}

/** Facts as pairs of name and value; what is null is left out. */
export function facts(pairs) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, given.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** What a list says that has nothing in it. */
export function nothing(title, ...rest) {
  return h("div", { class: "nothing" }, h("h2", {}, title), ...rest.map((each) => (typeof each === "string" ? h("p", {}, each) : each)));
}

/** A part of a screen with a heading of its own, and what stands beside that. */
export function part(title, beside, ...rest) {
  return h("section", { class: "part", "aria-label": title }, h("header", {}, h("h2", {}, title), beside && h("div", { class: "row" }, beside)), ...rest);
}
