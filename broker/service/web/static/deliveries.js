// Channels and deliveries: where matches go, how far each has got, and what was given up.

import { change, get } from "./api.js";
import { button, h, say } from "./dom.js";
import { ago, number, plural, short } from "./format.js";
import { when } from "./match_card.js";
import { asking, choice, doing, field, keyed, nothing, often, part } from "./parts.js";

const PAGE = 50;
const KINDS = [
  ["webhook", "webhook: posts each match, signed"],
  ["file", "file: appends each match"],
  ["mail", "mail: digests"],
  ["pull", "pull: a program asks for them"],
];

/** The screen. */
export function deliveries(main) {
  const list = h("ul", { class: "rows" });
  const none = h("div", {});
  const render = keyed(list, (channel) => channel.name, (channel) => row(channel, load));
  const dead = given_up();
  const readers = addresses();
  main.append(h("header", { class: "top" }, h("h1", {}, "Deliveries")), making(load), list, none, dead.element, readers.element);
  async function load() {
    const found = await get("channels");
    render(found);
    none.replaceChildren(found.length ? "" : nothing("No channels yet", "Matches are in the log and on this page. A channel brings them elsewhere as well."));
    await dead.load();
  }
  readers.load().catch((error) => say(error.message, true));
  return often(load, 5);
}

function row(channel, load) {
  const path = `channels/${encodeURIComponent(channel.name)}`;
  const act = (label, way, said) => doing(label, async () => {
    await change("POST", `${path}/${way}`);
    say(`${channel.name} ${said}.`);
    await load();
  }, { "aria-label": `${label} ${channel.name}` });
  const from = field("reset-after", "Behind the match with the number", { type: "number", min: "0", value: "0" });
  const state = channel.status === "active" && channel.last_error ? "failing" : channel.status;
  return h(
    "li",
    { class: "card entry acting" },
    h(
      "div",
      { class: "what" },
      h("h2", {}, channel.name, h("span", { class: `badge ${state}` }, state), h("span", { class: "quiet small" }, channel.kind)),
      h("p", { class: "oneline small" }, [target(channel), channel.subscription === null ? "all subscriptions" : channel.subscription].filter((each) => each).join(" · ")),
      channel.last_error ? h("p", { class: "bad small" }, short(channel.last_error, 300)) : null,
      channel.reason ? h("p", { class: "warn small" }, channel.reason) : null,
      h(
        "p",
        { class: "quiet small facts-line" },
        h("span", {}, `${number(channel.delivered)} delivered`),
        h("span", { class: channel.waiting ? "warn" : null }, `${number(channel.waiting)}${channel.waiting >= 10_000 ? "+" : ""} waiting`),
        channel.last_success ? h("span", {}, "last ", when(channel.last_success)) : null,
        channel.failing_since ? h("span", {}, "failing since ", when(channel.failing_since)) : null,
        channel.next_try ? h("span", {}, Date.parse(channel.next_try) <= Date.now() ? "tried now" : `tried again ${ago(channel.next_try)}`) : null,
        channel.draining ? h("span", {}, "goes when it has delivered what it has") : null,
      ),
    ),
    h(
      "div",
      { class: "row" },
      channel.kind === "pull" ? null : doing("Test", async () => {
        const told = await change("POST", `${path}/test`);
        say(`${channel.name}: ${told.detail}`, !told.ok);
      }, { "aria-label": `Test ${channel.name}` }),
      channel.status === "active" ? act("Pause", "pause", "is paused") : act("Resume", "resume", "delivers again"),
      asking("Reset…", `Deliver again from ${channel.name}?`, "All matches that are in the log behind this number are delivered, also those that were before. 0 is all of them.", async () => {
        await change("POST", `${path}/reset`, { after: Number(from.querySelector("input").value) });
        say(`${channel.name} begins again.`);
        await load();
      }, { answer: "Deliver again", more: [from], props: { "aria-label": `Reset ${channel.name}…` } }),
      asking("Remove…", `Remove ${channel.name}?`, "What it has not delivered stays in the log, and is not delivered by it.", async () => {
        await change("DELETE", path);
        say(`${channel.name} is removed.`);
        await load();
      }, { props: { class: "danger", "aria-label": `Remove ${channel.name}…` } }),
    ),
  );
}

function target(channel) {
  const { url, path, to } = channel.settings;
  return url || path || (Array.isArray(to) ? to.join(", ") : to) || "";
}

// -- a new one -------------------------------------------------------------------------------------

function making(load) {
  const kind = choice("kind", "How", KINDS);
  const select = kind.querySelector("select");
  const name = field("channel-name", "Name", { required: true, placeholder: "desk", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: 100 });
  const of = field("channel-of", "Subscription", { placeholder: "all", list: "channel-ids" });
  const where = field("channel-where", "Address", { required: true });
  const ids = h("datalist", { id: "channel-ids" });
  const value = (label) => label.querySelector("input").value.trim();
  const label = where.querySelector("span");
  const input = where.querySelector("input");
  const chosen = () => {
    const [says, example] = { webhook: ["Address", "https://…"], file: ["File on the machine of the service", "/var/log/matches.jsonl"], mail: ["Mail address", "desk@example.org"], pull: ["", ""] }[select.value];
    where.hidden = !says;
    input.required = Boolean(says);
    label.textContent = says;
    input.placeholder = example;
  };
  select.addEventListener("change", chosen);
  chosen();
  const suggest = async () => {
    const found = await get("subscriptions", { prefix: value(of), limit: 20 }).catch(() => []);
    ids.replaceChildren(...found.map((each) => h("option", { value: each.id })));
  };
  of.querySelector("input").addEventListener("focus", suggest);
  of.querySelector("input").addEventListener("input", suggest);
  const settings = () => ({ webhook: { url: value(where) }, file: { path: value(where) }, mail: { to: [value(where)] }, pull: {} })[select.value];
  const make = async (event) => {
    event.preventDefault();
    try {
      const made = await change("PUT", `channels/${encodeURIComponent(value(name))}`, { kind: select.value, subscription: value(of) || null, settings: settings() });
      say(`${made.name} delivers what is found from now on.`);
      shown(made);
      form.reset();
      chosen();
      details.open = false;
      await load();
    } catch (error) {
      say(error.message, true);
    }
  };
  const form = h("form", { class: "unfolded fields", on: { submit: make } }, name, kind, of, where, ids, h("div", { class: "row whole-row" }, h("button", { class: "main" }, "Add channel")));
  // With its secret a receiver checks that what it gets is from here.
  const secret = h("div", { "aria-live": "polite" });
  const shown = ({ name: of_channel, settings: { secret: text } }) => {
    if (!text) return;
    const held = h("input", { id: "channel-secret", readonly: true, value: text });
    secret.replaceChildren(h("div", { class: "card adding" }, h("div", { class: "line" }, h("label", { for: "channel-secret" }, h("span", {}, `The secret that signs for ${of_channel}, shown this once`), held), button("Done", () => secret.replaceChildren()))));
  };
  const details = h("details", { class: "card folded" }, h("summary", {}, "New channel"), form);
  return h("div", { class: "making" }, details, secret);
}

// -- given up --------------------------------------------------------------------------------------

function given_up() {
  const list = h("ul", { class: "rows" });
  const more = h("div", { class: "end" });
  let most = PAGE;
  const all = doing("Resend all", async () => {
    const told = await change("POST", "deliveries/dead/resend", {});
    say(`${plural(told.count, "delivery", "deliveries")} will be tried again.`);
    await load();
  });
  const element = part("Given up", all, h("p", { class: "quiet" }, "Matches that a receiver did not take, however often it was tried."), list, more);
  element.hidden = true;
  const render = keyed(list, (dead) => dead.number, (dead) =>
    h(
      "li",
      { class: "card entry acting" },
      h("div", { class: "what" }, h("h2", {}, dead.channel, h("span", { class: "quiet small" }, `match ${number(dead.n)} of ${dead.subscription}`)), h("p", { class: "bad small" }, short(dead.reason, 300)), h("p", { class: "quiet small facts-line" }, h("span", {}, when(dead.at)), h("span", {}, plural(dead.attempts, "attempt")))),
      h(
        "div",
        { class: "row" },
        doing("Resend", async () => {
          await change("POST", "deliveries/dead/resend", { numbers: [dead.number] });
          say("It will be tried again.");
          await load();
        }),
        doing("Forget", async () => {
          await change("DELETE", "deliveries/dead", undefined, { numbers: dead.number });
          await load();
        }, { class: "danger" }),
      ),
    ));
  async function load() {
    const found = await get("deliveries/dead", { limit: most });
    element.hidden = found.length === 0;
    render(found);
    more.replaceChildren(found.length === most ? button("Show more", () => ((most += PAGE), load())) : "");
  }
  return { element, load };
}

// -- addresses for feed readers --------------------------------------------------------------------

function addresses() {
  const list = h("ul", { class: "rows" });
  const more = h("div", { class: "end" });
  const prefix = h("input", { type: "search", id: "reader-prefix", autocomplete: "off", on: { input: () => later() } });
  let timer = 0;
  let turn = 0;
  const element = part("In a feed reader", null, h("p", { class: "quiet" }, "The address of each subscription holds a key, so keep it to those concerned."), h("label", { for: "reader-prefix", class: "short" }, h("span", {}, "Begins with"), prefix), list, more);
  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => load().catch(() => {}), 300);
  }
  async function load(after = "") {
    const mine = (turn += 1);
    const found = await get("subscriptions", { prefix: prefix.value, after, limit: PAGE });
    if (mine !== turn) return;
    const rows = found.map((each) => h("li", { class: "card reader" }, h("a", { class: "name", href: `#/subscriptions/${encodeURIComponent(each.id)}` }, each.id), h("code", { class: "oneline" }, each.atom_url), doing("Copy", async () => {
      await navigator.clipboard.writeText(each.atom_url);
      say("Copied.");
    }, { "aria-label": `Copy the address of ${each.id}` })));
    if (after) list.append(...rows);
    else list.replaceChildren(...rows);
    more.replaceChildren(found.length === PAGE ? button("Show more", () => load(found[PAGE - 1].id)) : list.childNodes.length ? "" : nothing(prefix.value ? "No subscription is like that" : "No subscriptions yet"));
  }
  return { element, load };
}
