// Elements made by hand. Whatever comes from documents becomes text, never markup: there is no
// place here that reads HTML, and the browser refuses to (Trusted Types).

/** An element. `props`: attributes; `on` a map of listeners; `class`; null and false are left out. */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** An element of SVG. */
export function s(tag, props = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A link to elsewhere: only http and https, in a tab of its own, which learns nothing of this one. */
export function outside(url, ...children) {
  const safe = httpUrl(url);
  if (!safe) return h("span", {}, ...children);
  return h("a", { href: safe, target: "_blank", rel: "noopener noreferrer nofollow", referrerpolicy: "no-referrer" }, ...children);
}

/** The address, if it is one of http or https; else null. */
export function httpUrl(url) {
  try {
    const found = new URL(url);
    return found.protocol === "http:" || found.protocol === "https:" ? found.href : null;
  } catch {
    return null;
  }
}

/** A button with a listener. */
export function button(label, act, props = {}) {
  return h("button", { type: "button", ...props, on: { click: act } }, label);
}

/** Tell it to everybody: shown for a moment at the edge, and read out. */
export function say(text, bad = false) {
  const place = document.getElementById("says");
  const note = h("p", { class: bad ? "note bad" : "note" }, text);
  place.replaceChildren(note);
  clearTimeout(say.timer);
  say.timer = setTimeout(() => note.remove(), bad ? 12000 : 5000);
}
