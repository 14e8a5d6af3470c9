// Figures over time, as small areas: each with its last value, and its highest.

import { h, s } from "./dom.js";

const HEIGHT = 48;
const WIDTH = 240;

/** A figure. `points` are [milliseconds, value or null] in order; `from` and `to` bound the time. */
export function chart(title, points, { from, to, show, note = null, none = "the first point comes in a moment" }) {
  const known = points.filter(([, value]) => value !== null);
  const most = Math.max(...known.map(([, value]) => value), 0);
  const last = known.length ? known[known.length - 1][1] : null;
  const x = (time) => Math.round(((time - from) / (to - from)) * WIDTH * 10) / 10;
  const y = (value) => Math.round((HEIGHT - 2 - (most ? value / most : 0) * (HEIGHT - 6)) * 10) / 10;
  if (known.length === 1) known.unshift([known[0][0] - (to - from) / 60, known[0][1]]); // one point alone has no length
  const line = known.map(([time, value]) => `${x(time)},${y(value)}`);
  const area = line.length ? `${x(known[0][0])},${HEIGHT} ${line.join(" ")} ${x(known[known.length - 1][0])},${HEIGHT}` : "";
  return h(
    "figure",
    { class: "card chart" },
    h("figcaption", {}, h("span", {}, title), h("b", {}, last === null ? "–" : show(last))),
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${last === null ? "nothing yet" : `now ${show(last)}, at most ${show(most)}`}` }, s("polygon", { points: area }), s("polyline", { points: line.join(" ") })),
    h("p", { class: "quiet small" }, known.length ? note || `at most ${show(most)}` : none),
  );
}

/** Parts of a whole as bars, the largest first: [name, value]. */
export function bars(title, parts, show) {
  const whole = parts.reduce((sum, [, value]) => sum + value, 0);
  const sorted = [...parts].sort((a, b) => b[1] - a[1]).slice(0, 8);
  return h(
    "figure",
    { class: "card chart bars" },
    h("figcaption", {}, h("span", {}, title)),
    sorted.length ? h("dl", {}, sorted.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { width: whole ? (value / whole) * 100 : 0, height: 6, rx: 1 })), h("span", {}, show(value)))))) : h("p", { class: "quiet small" }, "nothing yet"),
  );
}
