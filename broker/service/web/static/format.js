// Numbers, times and sizes for people.

const STEPS = [
  [60, 1, "second"],
  [3600, 60, "minute"],
  [86400, 3600, "hour"],
  [604800, 86400, "day"],
  [2629800, 604800, "week"],
  [31557600, 2629800, "month"],
  [Infinity, 31557600, "year"],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const grouped = new Intl.NumberFormat("en");

/** "3 minutes ago", of an ISO time. */
export function ago(time, now = Date.now()) {
  const seconds = (Date.parse(time) - now) / 1000;
  if (Math.abs(seconds) < 10) return "just now";
  const [, size, unit] = STEPS.find(([below]) => Math.abs(seconds) < below);
  return relative.format(Math.round(seconds / size), unit);
}

/** The time in full, in the reader's time zone. */
export function moment(time) {
  return exact.format(Date.parse(time));
}

/** How long from one time to another, in words. */
export function apart(start, end) {
  const seconds = Math.abs(Date.parse(end) - Date.parse(start)) / 1000;
  return span(seconds);
}

/** Seconds in words: "2 days". */
export function span(seconds) {
  if (seconds < 1) return "less than a second";
  const [, size, unit] = STEPS.find(([below]) => seconds < below * 1.5 || below === Infinity);
  const count = Math.round(seconds / size);
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

export function number(n) {
  return grouped.format(n);
}

/** "1 feed", "2 feeds". */
export function plural(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** Bytes: "1.2 MB". */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let n = bytes;
  let at = 0;
  while (n >= 1000 && at < units.length - 1) {
    n /= 1000;
    at += 1;
  }
  return `${at && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}

/** A text that is not longer than so much. */
export function short(text, most = 300) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
