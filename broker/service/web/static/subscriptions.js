// Subscriptions: the list, with matches a day; and one of them, with its text, picture and history.

import { change, get, lines } from "./api.js";
import { button, h, s, say } from "./dom.js";
import { editor } from "./editor.js";
import { moment, number, plural } from "./format.js";
import { graph } from "./graph.js";
import { card } from "./match_card.js";
import { coloured } from "./xscl.js";

const PAGE = 50;
const DAYS = 14;

/** The list. */
export function subscriptions(main, params, go) {
  const prefix = params.get("prefix") || "";
  const status = params.get("status") || "";
  const list = h("ul", { class: "rows" });
  const more = h("div", { class: "end" });
  let timer = 0;
  const begin = h("input", { type: "search", id: "prefix", value: prefix, autocomplete: "off", on: { input: () => {
    clearTimeout(timer);
    timer = setTimeout(() => go({ prefix: begin.value, status: state.value }), 350);
  } } });
  const state = h("select", { id: "status", on: { change: () => go({ prefix: begin.value, status: state.value }) } }, ["", "active", "paused", "suspended"].map((each) => h("option", { value: each, selected: each === status }, each || "all")));
  main.append(
    h("header", { class: "top" }, h("h1", {}, "Subscriptions"), h("div", { class: "row" }, h("a", { class: "button", href: "#/sharing" }, "What they share"), h("a", { class: "button main", href: "#/subscriptions/new" }, "New subscription"))),
    h("form", { class: "filters two", role: "search", on: { submit: (event) => event.preventDefault() } }, h("label", { for: "prefix" }, h("span", {}, "Begins with"), begin), h("label", { for: "status" }, h("span", {}, "Status"), state)),
    list,
    more,
  );
  const load = async (after) => {
    const found = await get("subscriptions", { prefix, status, after, limit: PAGE });
    list.append(...found.map(row));
    if (found.length === PAGE) more.replaceChildren(button("Show more", () => load(found[found.length - 1].id)));
    else if (list.childNodes.length) more.replaceChildren();
    else more.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, prefix || status ? "None is like that" : "No subscriptions yet"), h("p", {}, "A subscription is a query: it says which documents belong together."), h("div", { class: "row" }, h("a", { class: "button main", href: "#/start" }, "Begin with a ready one"), h("a", { class: "button", href: "#/subscriptions/new" }, "Write one"))));
  };
  load("").catch((error) => say(error.message, true));
}

function row(each) {
  const line = h("div", { class: "spark" });
  spark(each.id).then((found) => line.append(...found), () => {});
  return h(
    "li",
    { class: "card entry" },
    h("div", { class: "what" }, h("h2", {}, h("a", { href: `#/subscriptions/${encodeURIComponent(each.id)}` }, each.id), badge(each.status)), h("p", { class: "oneline" }, h("code", {}, unlabelled(each).slice(0, 200))), each.reason ? h("p", { class: "warn" }, each.reason) : null),
    line,
  );
}

export function badge(status) {
  return h("span", { class: `badge ${status}` }, status);
}

// Matches a day of the last two weeks, of the newest thousand.
async function spark(id) {
  const { found } = await lines("matches", { subscription: id, before: Number.MAX_SAFE_INTEGER, limit: 200 });
  const today = Math.floor(Date.now() / 86_400_000);
  const days = new Array(DAYS).fill(0);
  for (const match of found) {
    const at = DAYS - 1 - (today - Math.floor(Date.parse(match.taken) / 86_400_000));
    if (at >= 0 && at < DAYS) days[at] += 1;
  }
  const most = Math.max(1, ...days);
  const points = days.map((count, at) => `${(at * 100) / (DAYS - 1)},${23 - (count / most) * 20}`).join(" ");
  const total = days.reduce((sum, count) => sum + count, 0);
  const full = found.length === 200 ? "at least " : "";
  return [
    s("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": `${full}${plural(total, "match", "matches")} in ${DAYS} days` }, s("polyline", { points })),
    h("a", { href: `#/matches?subscription=${encodeURIComponent(id)}` }, `${full}${number(total)} in ${DAYS} days`),
  ];
}

// -- one subscription ------------------------------------------------------------------------------

const EXAMPLE = `-- the same link in two feeds within two days
same-link:
  SELECT title, link
  FROM S//item[./item_url->link][./title->title][./channel_title->site]
  FOLLOWED BY {link = link2 AND site != site2, 2 days}
  S//item[./item_url->link2][./channel_title->site2]
`;

/** The screen of one subscription, or of a new one. */
export async function subscription(main, id, go, text = EXAMPLE) {
  let stored = null;
  if (id !== "new") {
    try {
      stored = await get(`subscriptions/${encodeURIComponent(id)}`);
    } catch (error) {
      main.append(h("header", { class: "top" }, h("h1", {}, id)), h("p", { class: "bad" }, error.message));
      return;
    }
  }
  const picture = h("section", { class: "card", "aria-live": "polite", "aria-label": "The query as a picture" }, h("h2", {}, "What passes"));
  const findings = h("div", { id: "findings", class: "findings", "aria-live": "polite" });
  const dry = h("section", { "aria-label": "Dry run" });
  const save = h("button", { type: "button", class: "main", on: { click: store } }, "Save");
  const edit = editor(stored ? laidOut(stored) : text, () => later());
  const options = moreOptions(stored);
  let timer = 0;
  let turn = 0;

  main.append(
    h("header", { class: "top" }, h("h1", {}, stored ? stored.id : "New subscription"), stored ? badge(stored.status) : null, stored ? actions(stored, main, go) : null),
    ...(stored?.reason ? [h("p", { class: "warn" }, stored.reason)] : []),
    h("div", { class: "beside" }, h("section", {}, h("label", { for: "text", class: "label" }, "The query, in XSCL"), edit.element, findings, options.element, h("div", { class: "row acts" }, save, button("Dry run", tryOut))), picture),
    dry,
    ...(stored ? [about(stored)] : []),
  );
  check();

  function later() {
    turn += 1; // what is still being asked is about a former text
    clearTimeout(timer);
    timer = setTimeout(check, 350);
  }

  async function check() {
    const mine = (turn += 1);
    const written = edit.area.value;
    save.disabled = true;
    if (!written.trim()) return findings.replaceChildren(h("p", { class: "quiet" }, "Write a query: Ctrl and blank suggest what may come."));
    try {
      const found = await change("POST", "check", { text: written });
      if (mine !== turn) return;
      edit.show(found.findings);
      const wrong = found.findings.some((each) => each.severity === "error");
      save.disabled = wrong;
      findings.replaceChildren(
        ...found.findings.slice(0, 6).map((each) => h("div", { class: `finding ${each.severity}` }, h("pre", { tabindex: "0" }, each.rendered || each.message))),
        wrong ? "" : h("p", { class: "good" }, found.queries.map((each) => `${each.id}: ${{ new: "will be added", replaced: "will replace the text that is there, and begin anew", unchanged: "is as it is stored" }[each.outcome]}`).join("; ")),
      );
      if (wrong) return;
      picture.setAttribute("aria-busy", "true");
      const told = stored && found.queries.every((each) => each.outcome === "unchanged") ? await get(`subscriptions/${encodeURIComponent(stored.id)}/why`) : await change("POST", "why", { text: written });
      if (mine === turn) picture.replaceChildren(h("h2", {}, "What passes"), ...told.map((each) => graph(each, found.queries.find((query) => query.id === each.query)?.outline)));
    } catch (error) {
      if (mine === turn) picture.replaceChildren(h("h2", {}, "What passes"), h("p", { class: "quiet" }, error.message));
    } finally {
      if (mine === turn) picture.removeAttribute("aria-busy");
    }
  }

  async function tryOut() {
    dry.replaceChildren(h("p", { class: "quiet", "aria-busy": "true" }, "Looking through the stored documents…"));
    try {
      const found = await change("POST", "subscriptions", { text: edit.area.value, dry_run: true });
      dry.replaceChildren(
        h("h2", {}, `${plural(found.matches.length, "match", "matches")} among ${plural(found.documents, "stored document")}`),
        found.suspended.length ? h("p", { class: "warn" }, `${found.suspended.join(", ")} found too much, and was given up there.`) : "",
        ...found.matches.slice(-20).reverse().map((match, at) => card({ ...match, n: `d${at}` })),
        found.matches.length > 20 ? h("p", { class: "quiet" }, "These are the newest twenty. Nothing was stored.") : h("p", { class: "quiet" }, "Nothing was stored."),
      );
    } catch (error) {
      dry.replaceChildren(h("p", { class: "bad" }, error.message));
    }
  }

  async function store() {
    save.disabled = true;
    try {
      const made = await change("POST", "subscriptions", { text: edit.area.value, ...options.given() });
      const history = made[0].history;
      say(`${made.map((each) => `${each.id} ${{ new: "is added", replaced: "is replaced", unchanged: "stays as it is" }[each.outcome]}`).join(", ")}${history ? `; ${plural(history.matches, "match", "matches")} in what is stored` : ""}.`);
      go({}, history && history.matches ? "matches" : `subscriptions/${encodeURIComponent(made[0].id)}`);
    } catch (error) {
      say(error.message, true);
      save.disabled = false;
    }
  }
}

// The query without its label.
function unlabelled({ id, text }) {
  return text.startsWith(`${id}: `) ? text.slice(id.length + 2) : text;
}

// The stored text in lines, with its label.
function laidOut(stored) {
  const query = unlabelled(stored);
  const lines = query.replace(/\s+(FROM|FOLLOWED BY|JOIN|NEXT|WHERE|WITHIN|WAIT|PARTITION BY|USING|GROUP BY|HAVING|PUBLISH)\b(?![^'"]*['"](?:[^'"]*['"][^'"]*['"])*[^'"]*$)/g, "\n  $1");
  return query === stored.text ? `${lines}\n` : `${stored.id}:\n  ${lines}\n`;
}

function moreOptions(stored) {
  const field = (id, label, placeholder, value) => h("label", { for: id }, h("span", {}, label), h("input", { id, placeholder, value: value || "", autocomplete: "off" }));
  const history = h("input", { id: "history", type: "checkbox" });
  const element = h(
    "details",
    {},
    h("summary", {}, "History, limit, throttle"),
    h("div", { class: "unfolded options" }, h("label", { for: "history", class: "check" }, history, " Also deliver what it matches in what is stored"), field("limit", "At most so many matches", "no limit", stored?.limit?.matches), field("limit-period", "in a period of", "1 h", stored?.limit?.period), field("throttle", "Tell of each value once: variable", "none", stored?.throttle?.variable), field("throttle-period", "in a period of", "1 h", stored?.throttle?.period)),
  );
  const value = (id) => element.querySelector(`#${id}`).value.trim();
  return {
    element,
    given() {
      const given = {};
      if (history.checked) given.backfill = "INFINITY";
      if (value("limit")) given.limit = { matches: Number(value("limit")), period: value("limit-period") || "1 h" };
      if (value("throttle")) given.throttle = { variable: value("throttle"), period: value("throttle-period") || "1 h" };
      return given;
    },
  };
}

function actions(stored, main, go) {
  const path = `subscriptions/${encodeURIComponent(stored.id)}`;
  const act = async (method, way, said) => {
    try {
      await change(method, way);
      say(said);
      if (method === "DELETE") go({}, "subscriptions");
      else {
        main.replaceChildren();
        subscription(main, stored.id, go);
      }
    } catch (error) {
      say(error.message, true);
    }
  };
  const sure = h("dialog", { "aria-labelledby": "sure" }, h("h2", { id: "sure" }, `Remove ${stored.id}?`), h("p", {}, "Matches that are found already are still delivered, and stay readable."), h("div", { class: "row" }, button("Remove", () => act("DELETE", path, `${stored.id} is removed.`), { class: "danger" }), button("Keep", () => sure.close())));
  return h("div", { class: "row" }, h("a", { class: "button", href: `#/matches?subscription=${encodeURIComponent(stored.id)}` }, "Matches"), stored.status === "active" ? button("Pause", () => act("POST", `${path}/pause`, `${stored.id} is paused.`)) : button("Resume", () => act("POST", `${path}/resume`, `${stored.id} is active.`)), button("Remove…", () => sure.showModal(), { class: "danger" }), sure);
}

function about(stored) {
  const address = h("input", { id: "atom", readonly: true, value: stored.atom_url });
  return h(
    "section",
    { class: "card about" },
    h("h2", {}, "About it"),
    h("p", {}, stored.since ? `It counts since ${moment(stored.since)}.` : "", stored.gaps.length ? ` It has not seen everything: ${plural(stored.gaps.length, "gap")}.` : ""),
    stored.gaps.length ? h("ul", {}, stored.gaps.slice(-5).map((gap) => h("li", {}, `${gap.reason}: ${gap.since ? moment(gap.since) : ""} to ${gap.until ? moment(gap.until) : "now"}`))) : null,
    h("label", { for: "atom" }, h("span", {}, "Its address for feed readers; it holds a key, so keep it to those concerned"), address),
    h("details", {}, h("summary", {}, "Canonical text"), h("pre", { class: "code", tabindex: "0" }, h("code", {}, coloured(stored.text)))),
  );
}
