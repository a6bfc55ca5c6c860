// A slider over all that is kept: the map and the lists follow it.  Without script the same is a field and links.

const MOST_POINTS = 200;
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [1000, 40];
const bar = document.getElementById("time");
const travel = document.getElementById("travel");
const [first, last] = [Number(bar.dataset.first), Number(bar.dataset.last)];
const slider = document.createElement("input");
// How to fetch a page and put its sections in: live.js, which loads this module, hands both over.
let fetched, swap;
let wanted = null;
let busy = false;

const words = (time) => `${new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
const address = (at) => {
  const query = new URLSearchParams(location.search);
  query.set("at", at);
  return `${location.pathname}?${query}`;
};

export function uses(page) {
  ({ fetched, swap } = page);
}

// Everything that is fetched is of one revision; the page before it stays until it is there.
async function go(where) {
  if (!("at" in document.body.dataset) || !/[?&]at=/.test(where)) {
    location.assign(where);
    return;
  }
  wanted = where;
  if (busy) return;
  busy = true;
  while (wanted) {
    const next = wanted;
    wanted = null;
    try {
      const found = await fetched(next);
      taken(found, next);
    } catch {
      location.assign(next);
      return;
    }
  }
  busy = false;
}

function taken(found, where) {
  document.body.dataset.at = found.body.dataset.at;
  for (const each of document.querySelectorAll("[data-live]")) swap(each.id, found);
  for (const each of document.querySelectorAll("header.top a[href]")) {
    const other = [...found.querySelectorAll("header.top a[href]")].find((link) => link.textContent === each.textContent);
    if (other) each.setAttribute("href", other.getAttribute("href"));
  }
  bar.dataset.moment = found.getElementById("time").dataset.moment;
  document.getElementById("stood").replaceWith(document.adoptNode(found.getElementById("stood")));
  steps(found);
  history.replaceState(null, "", where);
  show();
  document.dispatchEvent(new Event("travelled"));
}

function steps(found) {
  const here = bar.querySelector(".steps");
  const there = found.querySelector("#time .steps");
  const focused = document.activeElement && here.contains(document.activeElement) ? document.activeElement.id : "";
  here.replaceWith(document.adoptNode(there));
  if (focused) (document.getElementById(focused) || slider).focus();
}

function show() {
  const moment = bar.dataset.moment ? Number(bar.dataset.moment) : last;
  if (document.activeElement !== slider || !busy) slider.value = String(moment);
  slider.setAttribute("aria-valuetext", words(moment));
}

// ---------------------------------------------------------------- the curve

function shape(name, attributes) {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  return found;
}

// What held between two points is what the first one says.
function area(points, x, y, below, above) {
  let path = points.map((point, i) => (i ? `H${x(point[0])} V` : `M${x(point[0])},`) + y(above(point))).join(" ") + ` H${WIDTH}`;
  for (const point of [...points].reverse()) path += ` V${y(below(point))} H${x(point[0])}`;
  return `${path} Z`;
}

async function curve() {
  const answer = await fetch(`/page/series?points=${MOST_POINTS}`);
  if (!answer.ok) return;
  const { points, preempted } = await answer.json();
  if (!points.length || last <= first) return;
  const most = Math.max(1, ...points.map((point) => Math.max(point[1] + point[2], point[3])));
  const x = (time) => Math.max(0, Math.round(((time - first) / (last - first)) * WIDTH * 10) / 10);
  const y = (value) => Math.round((HEIGHT - 2 - (value / most) * (HEIGHT - 6)) * 10) / 10;
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "series", role: "img", "aria-label": "GPUs over time: in use by HIGH and NORMAL workflows, in use by LOW workflows, and needed by pending workflows; marks are preemptions" });
  svg.append(shape("path", { class: "firm", d: area(points, x, y, () => 0, (point) => point[1]) }));
  svg.append(shape("path", { class: "low", d: area(points, x, y, (point) => point[1], (point) => point[1] + point[2]) }));
  const line = points.map((point, i) => (i ? `H${x(point[0])} V${y(point[3])}` : `M${x(point[0])},${y(point[3])}`)).join(" ");
  svg.append(shape("path", { class: "waiting", d: `${line} H${WIDTH}` }));
  for (const [time, gangs] of preempted) {
    const mark = shape("rect", { class: "taken", x: x(time) - 1, y: 0, width: 2, height: 5 });
    const title = shape("title", {});
    title.textContent = `${gangs} preempted, ${words(time)}`;
    mark.append(title);
    svg.append(mark);
  }
  slider.before(svg);
  const keys = document.createElement("p");
  keys.className = "legend";
  for (const [kind, text] of [["firm", "HIGH, NORMAL"], ["low", "LOW"], ["waiting", "needed by pending workflows"], ["taken", "preempted"]]) {
    const key = document.createElement("span");
    const mark = document.createElement("span");
    mark.className = `key ${kind}`;
    key.append(mark, text);
    keys.append(key, " ");
  }
  slider.after(keys);
}

// ---------------------------------------------------------------- by hand

slider.type = "range";
slider.id = "slider";
slider.min = String(first);
slider.max = String(last);
slider.step = "any";
slider.setAttribute("aria-label", "Time; arrow keys step from decision to decision");
slider.addEventListener("input", () => {
  const time = Number(slider.value);
  slider.setAttribute("aria-valuetext", words(time));
  if ("at" in document.body.dataset) go(address(new Date(time * 1000).toISOString()));
});
slider.addEventListener("change", () => go(address(new Date(Number(slider.value) * 1000).toISOString())));
slider.addEventListener("keydown", (event) => {
  const id = { ArrowLeft: "back", ArrowDown: "back", ArrowRight: "forward", ArrowUp: "forward", End: "now" }[event.key];
  if (!id) return;
  event.preventDefault();
  const link = document.getElementById(id);
  if (link) go(link.getAttribute("href"));
});
bar.addEventListener("click", (event) => {
  const link = event.target.closest("#back, #forward");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !("at" in document.body.dataset)) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});

const range = document.createElement("div");
range.className = "range";
range.append(slider);
travel.querySelector("summary").after(range);
show();
const begin = () => travel.open && !bar.querySelector("svg") && curve().catch(() => {});
travel.addEventListener("toggle", begin);
begin();
