// The page: who is signed in, which screen is shown, and the way between screens.

import { get, onSignedOut, operates, session, signedInAs, signIn, signOut } from "./api.js";
import { button, h, say } from "./dom.js";
import { matches } from "./matches.js";

// The icons are paths in a square of 24. Screens that one does not begin with come when they are asked for.
// Some are for operators alone.
const SCREENS = [
  { path: "matches", label: "Matches", icon: "M4 6h16M4 12h16M4 18h10", show: matches },
  {
    path: "subscriptions",
    label: "Subscriptions",
    icon: "M5 7a2 2 0 1 0 4 0a2 2 0 1 0-4 0M15 17a2 2 0 1 0 4 0a2 2 0 1 0-4 0M9 7h6a4 4 0 0 1 0 8h-6a4 4 0 0 0-3 2",
    show: async (main, params, go, rest) => {
      const screens = await import("./subscriptions.js");
      return rest ? screens.subscription(main, rest, go) : screens.subscriptions(main, params, go);
    },
  },
  {
    path: "feeds",
    label: "Feeds",
    operators: true,
    icon: "M5 19h.01M5 12a7 7 0 0 1 7 7M5 5a14 14 0 0 1 14 14",
    show: async (main, params) => (await import("./feeds.js")).feeds(main, params),
  },
  {
    path: "deliveries",
    label: "Deliveries",
    icon: "M4 12 20 4l-5 16-4-7zM11 13l9-9",
    show: async (main) => (await import("./deliveries.js")).deliveries(main),
  },
  {
    path: "operations",
    label: "Operations",
    operators: true,
    icon: "M3 12h4l3-8 4 16 3-8h4",
    show: async (main, params, go) => (await import("./operations.js")).operations(main, params, go),
  },
];

// Screens that others lead to.
const FURTHER = [
  { path: "start", label: "Start", show: async (main, params, go) => (await import("./start.js")).start(main, params, go) },
  { path: "sharing", label: "Sharing", operators: true, show: async (main) => (await import("./sharing.js")).sharing(main) },
];

const page = document.getElementById("page");
let close = () => {};
let here = null; // the screen that is shown

async function start() {
  onSignedOut(() => welcome("You are signed out: the session is over, or its token was revoked."));
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname);
    try {
      await signIn(code);
    } catch (error) {
      if (!(await session().catch(() => null))) return welcome(error.message);
    }
    return first();
  }
  try {
    if (await session()) await first();
    else welcome("");
  } catch (error) {
    welcome(error.message);
  }
}

// Without an address: the matches, or the start where there is nothing yet.
async function first() {
  if (!location.hash.replace(/^#\/?/, "")) {
    const some = await get("subscriptions", { limit: 1 }).catch(() => [null]);
    if (!some.length) history.replaceState(null, "", "#/start");
  }
  show();
}

// -- screens ---------------------------------------------------------------------------------------

function show() {
  close();
  close = () => {};
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const screen = [...SCREENS, ...FURTHER].filter(allowed).find((each) => each.path === path.split("/")[0]) || SCREENS[0];
  const main = h("main", { id: "main", tabindex: "-1" });
  const writing = page.className === "in" && here === screen ? written() : null;
  here = screen;
  page.className = "in";
  page.replaceChildren(h("a", { href: "#main", class: "skip", on: { click: (event) => (event.preventDefault(), main.focus()) } }, "To the content"), navigation(screen), main, h("footer", { class: "below" }, ways()));
  document.title = `${screen.label} · Broker`;
  const go = (params, to = screen.path) => {
    const given = Object.entries(params).filter(([, value]) => value);
    location.hash = `/${to}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
  };
  const rest = decodeURIComponent(path.split("/").slice(1).join("/"));
  Promise.resolve(screen.show(main, new URLSearchParams(query), go, rest)).then(
    (end) => {
      if (!main.isConnected) end?.();
      else close = end || (() => {});
    },
    (error) => say(error.message, true),
  );
  writing?.();
}

function allowed(screen) {
  return operates() || !screen.operators;
}

// A filter shows its screen anew while one is still writing: returns what lets one go on in the same
// field, with what was written meanwhile.
function written() {
  const field = document.activeElement;
  if (!(field instanceof HTMLInputElement) || !field.id) return null;
  const [from, to] = [field.selectionStart, field.selectionEnd];
  return () => {
    const again = document.getElementById(field.id);
    if (!again) return;
    again.focus();
    if (field.dataset.written && again.value !== field.value) {
      again.value = field.value;
      again.dispatchEvent(new Event("input", { bubbles: true }));
    }
    if (from !== null) again.setSelectionRange(from, to);
  };
}

function navigation(current) {
  return h(
    "nav",
    { "aria-label": "Screens" },
    h("a", { class: "brand", href: "#/" }, h("img", { src: "ui/icon.svg", alt: "", width: 26, height: 26 }), h("span", {}, "Broker")),
    h("ul", {}, SCREENS.filter(allowed).map((screen) => h("li", {}, h("a", { href: `#/${screen.path}`, "aria-current": screen === current ? "page" : null }, icon(screen.icon), h("span", {}, screen.label))))),
    h("div", { class: "foot" }, ways()),
  );
}

// What is behind the screens; on a phone it is at the end of each.
function ways() {
  const name = signedInAs();
  return [name ? h("span", { class: "quiet" }, `Signed in as ${name}`) : null, h("a", { href: "docs" }, "The API"), button("Sign out", leave, { class: "plain" })];
}

function icon(path) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(ns, "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

async function leave() {
  try {
    await signOut();
    welcome("You are signed out.");
  } catch (error) {
    say(error.message, true);
  }
}

// -- signing in ------------------------------------------------------------------------------------

function welcome(why) {
  close();
  close = () => {};
  document.title = "Sign in · Broker";
  const code = h("input", { id: "code", name: "code", autocomplete: "one-time-code", autocapitalize: "characters", spellcheck: "false", required: true, maxlength: 40, placeholder: "XXXX-XXXX-XXXX" });
  const reason = h("p", { class: "why", role: "alert" }, why);
  const enter = async (event) => {
    event.preventDefault();
    try {
      await signIn(code.value);
      await first();
    } catch (error) {
      reason.textContent = error.message;
      code.select();
    }
  };
  page.className = "out";
  page.replaceChildren(
    h(
      "main",
      { class: "welcome" },
      h("img", { src: "ui/icon.svg", alt: "", width: 56, height: 56 }),
      h("h1", {}, "Broker"),
      reason,
      h("p", {}, "On the machine of the service, ", h("code", {}, "broker open"), " opens this page and signs you in. It also shows a code, good for two minutes:"),
      h("form", { on: { submit: enter } }, h("label", { for: "code" }, "Code"), h("div", { class: "row" }, code, h("button", { class: "main" }, "Sign in"))),
    ),
  );
  code.focus();
}

window.addEventListener("hashchange", () => {
  if (page.className === "in") show();
  else start();
});
start();
