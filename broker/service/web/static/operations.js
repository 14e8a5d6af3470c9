// Operations: how the service is, the last hour and day, events, settings, backups, tokens.

import { change, get } from "./api.js";
import { bars, chart } from "./chart.js";
import { button, h, say } from "./dom.js";
import { moment, number, plural, short, size, span as words } from "./format.js";
import { when } from "./match_card.js";
import { facts, field, keyed, nothing, often, part } from "./parts.js";
import { tokens } from "./tokens.js";

const LENGTH = { hour: 3_600_000, day: 86_400_000 };
const NEWEST = Number.MAX_SAFE_INTEGER;

/** The screen. */
export function operations(main, params, go) {
  const wanted = params.get("span") === "day" ? "day" : "hour";
  const state = h("span", { class: "live", role: "status" }, "Asking…");
  const reasons = h("div", {});
  const figures = h("div", { class: "charts" });
  const choices = h("div", { class: "segments", role: "group", "aria-label": "Time" }, ["hour", "day"].map((each) => button(`Last ${each}`, () => go({ span: each }), { "aria-pressed": String(each === wanted) })));
  const glance = h("div", { class: "card" });
  const events = log("Events", "events", (event) => [h("b", {}, event.kind), ` ${event.text}`], "Subscriptions that were suspended, channels that were disabled, deliveries that were given up: none so far.");
  const changes = log("Changes", "changes", (entry) => [h("b", {}, inWords(entry.action)), ` ${short(entry.subject, 160)}`, h("span", { class: "quiet" }, ` by ${entry.who || "the service's own token"} from ${entry.address}`)], "Nothing was changed so far.");
  const copies = backups();
  const secrets = tokens();
  main.append(h("header", { class: "top" }, h("h1", {}, "Operations"), state, h("div", { class: "row" }, choices)), reasons, figures, glance, events.element, copies.element, secrets.element, settings(), changes.element);

  async function look() {
    let status;
    try {
      status = await get("status");
    } catch (error) {
      state.className = "live";
      state.textContent = error.message;
      return;
    }
    state.className = status.ready ? "live on" : "live";
    state.textContent = status.ready ? `Well, up for ${words(status.uptime_seconds)}` : "Not ready";
    reasons.replaceChildren(...[...status.reasons.map((each) => each.message), ...Object.entries(status.maintenance).map(([task, why]) => `${task}: ${why}`)].map((each) => h("p", { class: "card warn alert" }, each)));
    glance.replaceChildren(h("h2", {}, "Now"), at_a_glance(status));
    draw(await get("course", { span: wanted }), status);
  }

  function draw(points, status) {
    const to = Date.parse(status.now);
    const of = (value) => points.map((point) => [Date.parse(point.at), value(point)]);
    const bounds = { from: to - LENGTH[wanted], to };
    const rate = (n) => `${n < 10 ? Math.round(n * 10) / 10 : number(Math.round(n))}/s`;
    const stages = {};
    const spark = status.pipeline.spark?.batch >= 0 ? status.pipeline.spark : null;
    for (const point of points) for (const [name, seconds] of Object.entries(point.stages)) stages[name] = (stages[name] || 0) + seconds;
    figures.replaceChildren(
      chart("Documents", of((p) => p.documents / p.seconds), { ...bounds, show: rate }),
      chart("Matches", of((p) => p.matches / p.seconds), { ...bounds, show: rate }),
      chart("Backlog", of((p) => p.backlog), { ...bounds, show: number }),
      chart("Latency", of((p) => (p.batches ? p.waited / p.batches : null)), { ...bounds, show: brief, note: points.some((p) => p.batches) ? `slowest ${brief(Math.max(...points.map((p) => p.slowest)))}` : null, none: "no batch in this time" }),
      chart("Memory", of((p) => p.memory), { ...bounds, show: size }),
      chart("Disk", of((p) => p.files), { ...bounds, show: size, note: `${size(status.disk_free)} free` }),
      bars("Where the time goes", Object.entries(stages), brief),
      spark ? bars(`Spark’s batch ${number(spark.batch)}`, Object.entries(spark.phases).filter(([name]) => name !== "triggerExecution"), brief) : "",
    );
  }
  const ends = [often(look, 5), often(events.load, 10), often(copies.load, 30), often(secrets.load, 30), often(changes.load, 15)];
  return () => ends.forEach((each) => each());
}

// The name of an operation of the API: "reset channel".
function inWords(action) {
  return action.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function brief(seconds) {
  if (seconds < 0.001) return "< 1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 100 ? `${Math.round(seconds * 10) / 10} s` : words(seconds);
}

function at_a_glance({ intake, pipeline, engine, deliveries, feeds, files }) {
  return facts([
    ["Documents", `${number(intake.last)} ever, ${number(intake.backlog)} waiting${intake.lag_seconds >= 1 ? ` for ${words(intake.lag_seconds)}` : ""}`],
    ["Pipeline", [pipeline.kind === "spark" ? "Spark" : "in this process", `${number(pipeline.documents_per_second)} documents a second of late`, `${plural(pipeline.batches, "batch", "batches")}, ${plural(pipeline.documents, "document")}, ${plural(pipeline.matches, "match", "matches")} since the start`, pipeline.restarts ? `begun again ${plural(pipeline.restarts, "time")}` : "", pipeline.failure || ""].filter((each) => each).join("; ")],
    ["Spark", pipeline.spark ? inSpark(pipeline.spark) : null],
    ["Last batch", pipeline.last_batch ? when(pipeline.last_batch) : "none yet"],
    ["Subscriptions", engine && h("span", {}, h("a", { href: "#/sharing" }, plural(engine.subscriptions, "subscription")), `, ${number(engine.paused)} not active; ${plural(engine.templates, "template")}, ${plural(engine.nfa_states, "state")} of the automaton`)],
    ["Stored documents", engine && number(engine.live_documents)],
    ["Waiting patterns", engine?.waiting_count ? [`${number(engine.waiting_count)}: `, engine.waiting.slice(0, 3).flatMap((each) => [each.query, each.decides ? ` until ${moment(each.decides)}` : " for ever", "; "]).slice(0, -1)] : null],
    ["Matches", `${number(deliveries.matches)} in the log, ${number(deliveries.taken)} ever`],
    ["Feeds", `${number(feeds.active)} active, ${number(feeds.failing)} failing`],
    ["Files", Object.entries(files).map(([name, bytes]) => `${name} ${size(bytes)}`).join(", ")],
  ]);
}

// What Spark says of its query, of its last micro-batch.
function inSpark({ doing, batch, rows, arriving_per_second: arriving, processed_per_second: processed, phases, waiting }) {
  if (batch < 0) return `${doing}; no batch yet`;
  const took = phases.triggerExecution === undefined ? "" : ` in ${brief(phases.triggerExecution)}`;
  const behind = waiting === null ? "" : `; ${waiting ? plural(waiting, "document") : "none"} behind what it has read`;
  return `${doing}; batch ${number(batch)} had ${plural(rows, "document")}${took}, ${number(processed)} a second processed and ${number(arriving)} arriving${behind}`;
}

// -- lists that go back in time --------------------------------------------------------------------

function log(title, path, told, none) {
  const list = h("ul", { class: "log" });
  const more = h("div", {});
  let most = 10;
  const render = keyed(list, (entry) => entry.number, (entry) => h("li", {}, when(entry.at), h("span", {}, told(entry))));
  async function load() {
    const found = await get(path, { before: NEWEST, limit: most });
    render(found);
    more.replaceChildren(found.length === most ? button("Show more", () => ((most += 50), load())) : found.length ? "" : h("p", { class: "quiet" }, none));
  }
  return { element: part(title, null, h("div", { class: "card" }, list, more)), load };
}

function backups() {
  const list = h("ul", { class: "log" });
  const none = h("div", {});
  const directory = field("backup-to", "New directory on the machine it runs on", { required: true, placeholder: "/var/backups/broker/monday" });
  const render = keyed(list, (entry) => entry.number, (entry) => h("li", {}, when(entry.at), h("span", {}, entry.subject)));
  const copy = h("button", { class: "main" }, "Back up");
  const make = async (event) => {
    event.preventDefault();
    copy.disabled = true;
    try {
      const made = await change("POST", "backup", { directory: directory.querySelector("input").value.trim() });
      say(`Backed up into ${made.directory}: ${size(Object.values(made.files).reduce((sum, each) => sum + each, 0))}.`);
      event.target.reset();
      await load();
    } catch (error) {
      say(error.message, true);
    } finally {
      copy.disabled = false;
    }
  };
  async function load() {
    const found = await get("changes", { action: "backup", before: NEWEST, limit: 10 });
    render(found);
    none.replaceChildren(found.length ? "" : h("p", { class: "quiet" }, "No backup was made yet. It is made while the service goes on."));
  }
  return { element: part("Backups", null, h("div", { class: "card adding" }, h("form", { class: "line", on: { submit: make } }, directory, copy), list, none)), load };
}

// -- settings --------------------------------------------------------------------------------------

function settings() {
  const body = h("div", { class: "unfolded" });
  const only = h("input", { type: "checkbox", id: "only-changed", checked: true, on: { change: () => show() } });
  let known = null;
  const show = () => {
    const rows = known.filter((each) => each.changed || !only.checked);
    const table = h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "setting"), h("th", { scope: "col" }, "value"))), h("tbody", {}, rows.map((each) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, each.name)), h("td", { class: each.changed ? null : "quiet" }, each.value === null ? "not set" : h("code", {}, typeof each.value === "string" ? each.value : JSON.stringify(each.value)))))));
    body.replaceChildren(h("label", { for: "only-changed", class: "check" }, only, " only what is other than by default"), rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Settings" }, table) : nothing("All is as by default"));
  };
  const open = async (event) => {
    if (!event.target.open || known) return;
    try {
      known = await get("settings");
      show();
    } catch (error) {
      say(error.message, true);
    }
  };
  return part("Settings in effect", null, h("details", { class: "card folded", on: { toggle: open } }, h("summary", {}, "Show the settings"), body));
}
