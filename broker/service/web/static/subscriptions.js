// Subscriptions: the list, with matches a day; and one of them, with its text, picture and history.

import { change, get, operates } from "./api.js";
import { button, h, s, say } from "./dom.js";
import { editor } from "./editor.js";
import { moment, number, plural, size } from "./format.js";
import { graph } from "./graph.js";
import { card } from "./match_card.js";
import { coloured, laidOut, unlabelled } from "./xscl.js";

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
    h("header", { class: "top" }, h("h1", {}, "Subscriptions"), h("div", { class: "row" }, operates() ? h("a", { class: "button", href: "#/sharing" }, "What they share") : null, h("a", { class: "button main", href: "#/subscriptions/new" }, "New subscription"))),
    h("form", { class: "filters two", role: "search", on: { submit: (event) => event.preventDefault() } }, h("label", { for: "prefix" }, h("span", {}, "Begins with"), begin), h("label", { for: "status" }, h("span", {}, "Status"), state)),
    list,
    more,
  );
  const load = async (after) => {
    const found = await get("subscriptions", { prefix, status, after, limit: PAGE });
    const lines = new Map(found.map((each) => [each.id, h("div", { class: "spark" })]));
    list.append(...found.map((each) => row(each, lines.get(each.id))));
    if (found.length) sparks(lines).catch(() => {}); // without them the list is as good
    if (found.length === PAGE) more.replaceChildren(button("Show more", () => load(found[found.length - 1].id)));
    else if (list.childNodes.length) more.replaceChildren();
    else more.replaceChildren(h("div", { class: "nothing" }, h("h2", {}, prefix || status ? "None is like that" : "No subscriptions yet"), h("p", {}, "A subscription is a query: it says which documents belong together."), h("div", { class: "row" }, h("a", { class: "button main", href: "#/start" }, "Begin with a ready one"), h("a", { class: "button", href: "#/subscriptions/new" }, "Write one"))));
  };
  load("").catch((error) => say(error.message, true));
}

function row(each, line) {
  return h(
    "li",
    { class: "card entry" },
    h("div", { class: "what" }, h("h2", {}, h("a", { href: `#/subscriptions/${encodeURIComponent(each.id)}` }, each.id), badge(each.status)), h("p", { class: "oneline" }, h("code", {}, unlabelled(each).slice(0, 200))), told(each) ? h("p", { class: "warn" }, each.reason) : null),
    line,
  );
}

// Whether the reason says more than the status.
function told({ reason, status }) {
  return reason && reason !== status;
}

export function badge(status) {
  return h("span", { class: `badge ${status}` }, status);
}

// Matches a day of the last two weeks, of all that are shown: one question, whatever their number.
async function sparks(lines) {
  const found = await get("matches/days", { subscription: [...lines.keys()], days: DAYS });
  for (const each of found) lines.get(each.subscription)?.replaceChildren(...spark(each));
}

function spark({ subscription: id, days, more }) {
  const most = Math.max(1, ...days);
  const width = 100 / DAYS;
  const total = days.reduce((sum, count) => sum + count, 0);
  const said = `${more ? "more than " : ""}${number(total)} in ${DAYS} days`;
  const bars = days.map((count, at) => {
    const height = count ? Math.max(2, (count / most) * 22) : 1;
    return s("rect", { class: count ? null : "none", x: at * width + 0.75, y: 24 - height, width: width - 1.5, height });
  });
  return [
    s("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": `Matches a day: ${days.join(", ")}` }, bars),
    h("a", { href: `#/matches?subscription=${encodeURIComponent(id)}` }, said),
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
  const picture = h("section", { class: "card", "aria-live": "polite", "aria-label": "The query as a picture" }, h("h2", {}, "What passes"), h("p", { class: "quiet" }, "Counting…"));
  const findings = h("div", { id: "findings", class: "findings", "aria-live": "polite" });
  const dry = h("section", { class: "part", "aria-label": "Dry run" });
  const save = h("button", { type: "button", class: "main", on: { click: store } }, "Save");
  const edit = editor(stored ? laidOut(stored) : text, () => later());
  const options = moreOptions(stored);
  let timer = 0;
  let turn = 0;

  main.append(
    h("header", { class: "top" }, h("h1", {}, stored ? stored.id : "New subscription"), stored ? badge(stored.status) : null, stored ? actions(stored, main, go) : null),
    ...(stored && told(stored) ? [h("p", { class: "card warn alert" }, stored.reason)] : []),
    h("div", { class: "beside" }, h("section", {}, h("div", {}, h("label", { for: "text", class: "label" }, "The query, in XSCL"), edit.element), findings, options.element, h("div", { class: "row acts" }, save, button("Dry run", tryOut))), picture),
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
    if (!written.trim()) {
      undrawn("Nothing is written yet.");
      return findings.replaceChildren(h("p", { class: "quiet" }, "Write a query: Ctrl and the blank suggest what may come."));
    }
    try {
      const found = await change("POST", "check", { text: written });
      if (mine !== turn) return;
      edit.show(found.findings);
      const wrong = found.findings.some((each) => each.severity === "error");
      save.disabled = wrong;
      findings.replaceChildren(
        ...found.findings.slice(0, 6).map((each) => h("div", { class: `finding ${each.severity}` }, h("pre", { tabindex: "0" }, (each.rendered || each.message).replace("<request>:", "line ")))),
        wrong ? "" : h("p", { class: "good" }, found.queries.map((each) => `${each.id}: ${{ new: "will be added", replaced: "will replace the text that is there, and begin anew", unchanged: "is as it is stored" }[each.outcome]}`).join("; ")),
      );
      if (wrong) return undrawn("It is drawn as soon as the text has no error.");
      picture.setAttribute("aria-busy", "true");
      const told = stored && found.queries.every((each) => each.outcome === "unchanged") ? await get(`subscriptions/${encodeURIComponent(stored.id)}/why`) : await change("POST", "why", { text: written });
      const of = (each) => found.queries.find((query) => query.id === each.query);
      if (mine === turn) picture.replaceChildren(h("h2", {}, "What passes"), ...told.flatMap((each) => [graph(each, of(each)?.outline), priced(of(each)?.price)]).filter((each) => each));
    } catch (error) {
      if (mine === turn) undrawn(error.message);
    } finally {
      if (mine === turn) picture.removeAttribute("aria-busy");
    }
  }

  function undrawn(why) {
    picture.replaceChildren(h("h2", {}, "What passes"), h("p", { class: "quiet" }, why));
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
      if (history && history.matches) go({ subscription: made.length === 1 ? made[0].id : "" }, "matches");
      else if (made[0].id === id) {
        // It is shown already, as it was.
        main.replaceChildren();
        subscription(main, id, go);
      } else go({}, `subscriptions/${encodeURIComponent(made[0].id)}`);
    } catch (error) {
      say(error.message, true);
      save.disabled = false;
    }
  }
}

const listed = new Intl.ListFormat("en", { type: "conjunction" });

// What a query is expected to cost: an upper estimate by what is stored.
function priced(price) {
  if (!price) return null;
  const about = (n) => (n > 0 && n < 0.1 ? "less than 0.1" : number(n < 10 ? Math.round(n * 10) / 10 : Math.round(n)));
  const blocks = price.documents.length > 1 ? ` from ${listed.format(price.documents.map(about))} documents` : "";
  return h(
    "div",
    { class: "price" },
    h("h3", {}, "Its price"),
    h("p", {}, h("b", {}, about(price.candidates)), ` ${price.candidates === 1 ? "candidate" : "candidates"} a day${blocks}, ${size(price.bytes)} of documents a day, at most`),
    price.grows ? h("p", { class: "warn" }, "It has no window, so each day has more than the one before.") : null,
    price.unjoined && price.documents.length > 1 ? h("p", { class: "warn" }, "No value joins its blocks, so it grows with the square of the documents.") : null,
  );
}

function moreOptions(stored) {
  const field = (id, label, placeholder, value) => h("label", { for: id }, h("span", {}, label), h("input", { id, placeholder, value: value || "", autocomplete: "off" }));
  const history = h("input", { id: "history", type: "checkbox" });
  const element = h(
    "details",
    { open: Boolean(stored?.limit || stored?.throttle) },
    h("summary", {}, "History, limit, throttle"),
    h("div", { class: "unfolded options" }, h("label", { for: "history", class: "check" }, history, " Also deliver what it matches in what is stored"), field("limit", "At most so many matches", "no limit", stored?.limit?.matches), field("limit-period", "in a period of", "1 h", stored?.limit?.period), field("throttle", "Tell of each value once: variable", "none", stored?.throttle?.variable), field("throttle-period", "in a period of", "1 h", stored?.throttle?.period)),
  );
  const value = (id) => element.querySelector(`#${id}`).value.trim();
  // What was there and is emptied is to be there no more.
  const lifted = (name, before) => Boolean(before) && !value(name);
  return {
    element,
    given() {
      const lift = [lifted("limit", stored?.limit) ? "limit" : "", lifted("throttle", stored?.throttle?.variable) ? "throttle" : ""];
      const given = { lift: lift.filter(Boolean) };
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
    stored.limit ? h("p", {}, `At most ${plural(stored.limit.matches, "match", "matches")} in ${stored.limit.period}: with more it is suspended.`) : null,
    stored.throttle ? h("p", {}, `${stored.throttle.variable ? `Each value of ${stored.throttle.variable} is told` : "It tells"} once in ${stored.throttle.period}${stored.throttle.left_out ? `; ${plural(stored.throttle.left_out, "match", "matches")} left out since the last` : ""}.`) : null,
    stored.gaps.length ? h("ul", {}, stored.gaps.slice(-5).map((gap) => h("li", {}, `${gap.reason}: ${gap.since ? moment(gap.since) : ""} to ${gap.until ? moment(gap.until) : "now"}`))) : null,
    h("label", { for: "atom" }, h("span", {}, "Its address for feed readers; it holds a key, so keep it to those concerned"), address),
    h("details", {}, h("summary", {}, "Canonical text"), h("pre", { class: "code", tabindex: "0" }, h("code", {}, coloured(stored.text)))),
  );
}
