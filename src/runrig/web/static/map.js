// The map: a cell for each GPU, drawn into a buffer of pixels.  It keeps what `/page/state` said, and changes it as `/page/live` says.
const box = document.getElementById("map");
const canvas = box.querySelector("canvas");
const here = document.getElementById("here");
const HINT = here.textContent;
const PRIORITIES = ["HIGH", "NORMAL", "LOW"];
const STATES = [", reserved", "", ", stopping"];
let layout = null;
let gangs = new Map();
let revision = 0;
let told = 0;
let loading = 0;
let mode = box.dataset.by;
let cells = [];
let labels = [];
let at = -1;
let drawnFor = 0;
let colours = null;

// Of an address on a page of an earlier time.
const then = () => (document.body.dataset.at ? `?at=${document.body.dataset.at}` : "");

async function json(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

function named(runs) {
  return runs.flatMap(([head, first, digits, count]) => Array.from({ length: count }, (_, i) => (digits ? head + String(first + i).padStart(digits, "0") : head)));
}

async function load() {
  loading++;
  try {
    await loaded();
  } finally {
    loading--;
  }
  if (!then() && revision < told) await load();
}

async function loaded() {
  const asked = then();
  const state = await json(`/page/state${asked}`);
  if (asked !== then()) return;
  if (!layout || layout.tag !== state.layout) {
    layout = await json(`/page/layout${asked}`);
    layout.nodes = named(layout.names);
    layout.room = layout.gpus.flatMap(([gpus, count]) => Array(count).fill(gpus));
    layout.shut = new Set(layout.closed);
  }
  gangs = new Map(state.gangs.map((each) => [each[0], each]));
  revision = state.r;
  draw();
}

// Masks have up to 53 bits, and operators on bits see 32.
const holds = (mask, gpu) => Math.floor(mask / 2 ** gpu) % 2 === 1;

// The domain that is shown, as first node and number of nodes: the table says so.
function shown() {
  const { first, count } = document.getElementById("domains").dataset;
  return Number(count) ? [Number(first), Number(count)] : [0, layout.nodes.length];
}

const stands = (gang) => !box.dataset.gang || gang[0] === box.dataset.gang || gang[0].startsWith(`${box.dataset.gang}/`);

// Who holds each GPU of each node.
function held() {
  const found = layout.room.map((room) => Array(room).fill(null));
  const counted = [];
  for (const gang of gangs.values()) {
    const runs = gang[4];
    for (let i = 0; i < runs.length; i += 3) {
      for (let node = runs[i]; node < runs[i] + runs[i + 1]; node++) {
        if (runs[i + 2] < 0) counted.push([node, -runs[i + 2], gang]);
        else for (let gpu = 0; gpu < found[node].length; gpu++) if (holds(runs[i + 2], gpu) && (gang[3] !== 0 || !found[node][gpu])) found[node][gpu] = gang;
      }
    }
  }
  for (const [node, count, gang] of counted) {
    let left = count;
    for (let i = 0; i < found[node].length && left; i++) if (!found[node][i]) [found[node][i], left] = [gang, left - 1];
  }
  return found;
}

function rgb(context, name) {
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

function palette() {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const of = Object.fromEntries(["panel", "pale", "free", "ink", "ink2", "firm", "grey", "run", "good", "accent"].map((name) => [name, rgb(probe, `--${name}`)]));
  const pools = {};
  for (const chip of document.querySelectorAll("#keys [data-pool]")) pools[chip.dataset.pool] = rgb(probe, `--${chip.classList[1]}`);
  return { ...of, pools };
}

const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
const mixed = (one, other, part) => one.map((value, i) => Math.round(value * part + other[i] * (1 - part)));

function coloured(gang) {
  const low = gang[2] === 2;
  if (mode === "free") return colours.free;
  if (mode === "priority") return low ? mixed(colours.firm, colours.panel, 0.45) : gang[2] === 1 ? colours.firm : colours.ink;
  const own = colours.pools[gang[1].split("--")[0]] || colours.grey;
  return low ? mixed(own, colours.pale, 0.52) : own;
}

// What is drawn for each holder, and for nobody, on a node with so many of its GPUs held.
function brush() {
  const known = new Map();
  const share = [0, 0.3, 0.55, 0.8, 1].map((part) => packed(mixed(colours.run, colours.free, part)));
  const [free, empty, beside] = [colours.free, colours.good, mixed(colours.good, colours.panel, 0.5)].map(packed);
  return (gang, taken, size, shut) => {
    if (mode === "load") return share[taken === 0 ? 0 : taken >= size ? 4 : 1 + Math.min(2, Math.floor((taken / size) * 3))];
    if (!gang) return mode === "free" && !shut ? (taken ? beside : empty) : free;
    if (!known.has(gang)) known.set(gang, packed(stands(gang) ? coloured(gang) : mixed(coloured(gang), colours.panel, 0.2)));
    return known.get(gang);
  };
}

function draw() {
  if (!layout) return;
  box.hidden = false;
  colours = colours || palette();
  const zones = grouped(columns(layout, ...shown()));
  const list = zones.flat(2);
  const holders = held();
  const width = Math.max(200, canvas.parentElement.clientWidth);
  drawnFor = width;
  const scale = window.devicePixelRatio || 1;
  const room = list.reduce((most, each) => Math.max(most, layout.room[each.first] || 1), 1);
  const tall = list.reduce((most, each) => Math.max(most, each.count), 1);
  const height = box.closest(".large") ? Math.max(360, window.innerHeight - 330) : Math.max(320, Math.min(window.innerHeight - 330, 640));
  const [columnWidth, rows, nodeHeight] = sized(zones, width, height, room, tall, 1 / scale);
  const step = tall * nodeHeight + HEAD;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(rows * step * scale);
  canvas.style.height = `${rows * step}px`;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const fill = (x, y, w, h, value) => {
    const [x0, x1] = [Math.round(x * scale), Math.round((x + w) * scale)];
    for (let line = Math.round(y * scale); line < Math.round((y + h) * scale); line++) pixels.fill(value, line * canvas.width + x0, line * canvas.width + x1);
  };
  const colour = brush();
  const [panel, woven] = [packed(colours.panel), packed(mixed(colours.ink2, colours.panel, 0.45))];
  const inner = nodeHeight - (nodeHeight > 4 ? 1 : nodeHeight > 2 ? 0.5 : 0);
  cells = Array(layout.nodes.length);
  labels = [];
  const placed = placing(zones, columnWidth, width);
  for (const [column, x, row, first] of placed) {
    const y0 = row * step + 16;
    if (first && column.group) labels.push([column.group, x, y0 - 4, column.path.join("/")]);
    for (let i = 0; i < column.count; i++) {
      const node = column.first + i;
      const y = y0 + i * nodeHeight;
      const [own, size] = [holders[node], layout.room[node] || 1];
      const [each, taken] = [columnWidth / size, own.reduce((sum, gang) => sum + (gang ? 1 : 0), 0)];
      cells[node] = [x, y, columnWidth, nodeHeight];
      // Neighbours that look the same are drawn at once: that is most of a full cluster.
      for (let gpu = 0, next; gpu < size; gpu = next) {
        const gang = own[gpu] || null;
        for (next = gpu + 1; next < size && (mode === "load" || ((own[next] || null) === gang && (gang || each <= 3))); ) next++;
        const [left, wide] = [x + gpu * each, (next - gpu) * each - (each > 3 ? 1 : next === size ? 0.25 : 0)];
        fill(left, y, wide, inner, colour(gang, taken, size, layout.shut.has(node)));
        // What moves, and what is closed, is told by a pattern too.
        if (nodeHeight > 3 && ((gang && gang[3] !== 1) || (!gang && layout.shut.has(node)))) for (let dx = 0; dx < wide; dx += 3) fill(left + dx, y, 1, inner, gang ? panel : woven);
      }
    }
  }
  context.putImageData(image, 0, 0);
  context.scale(scale, scale);
  context.fillStyle = `rgb(${colours.ink2.join(",")})`;
  context.font = "11.5px Inter, system-ui, sans-serif";
  labels.forEach(([text, x, y], i) => {
    const after = labels[i + 1] && labels[i + 1][2] === y ? labels[i + 1][1] : width;
    context.fillText(context.measureText(text).width < after - x ? text : text.split(" ").pop(), x, y);
  });
  outline(context, placed, holders);
  canvas.holders = holders;
  box.dataset.drawn = revision;
}

// Frames: domains where a gang of the size fits, the columns of the gang in question, and the node at hand.
function outline(context, placed, holders) {
  const frame = ([x, y, w, h], name, dashes) => {
    context.strokeStyle = `rgb(${colours[name].join(",")})`;
    context.lineWidth = 2;
    context.setLineDash(dashes);
    const left = Math.max(1, x - 1.5); // the whole line, at the edge too
    context.strokeRect(left, y - 1.5, x + w + 0.5 - left, h + 2);
  };
  const { now, low } = document.getElementById("domains").dataset;
  for (const [text, dashes] of [[now, []], [low, [4, 3]]]) {
    for (const [first, count] of (text || "").split(" ").filter(Boolean).map((each) => each.split("+").map(Number))) for (const frameOf of framesOf(placed, first, count)) frame(frameOf, "accent", dashes);
  }
  if (box.dataset.gang) for (const [column] of placed) if (Array.from({ length: column.count }, (_, i) => holders[column.first + i]).some((own) => own.some((gang) => gang && stands(gang)))) for (const frameOf of framesOf(placed, column.first, column.count)) frame(frameOf, "ink", []);
  if (at >= 0 && cells[at]) frame(cells[at], "ink", []);
}

// The frames around *count* nodes: one for each row of the map on which columns of them stand side by side.
function framesOf(placed, first, count) {
  const found = new Map();
  for (const [column, x, row] of placed) {
    if (column.first + column.count <= first || column.first >= first + count) continue;
    const [, top, wide, high] = cells[column.first];
    const [left, y, right, bottom] = found.get(row) || [x, top, x, top];
    found.set(row, [Math.min(left, x), y, Math.max(right, x + wide), Math.max(bottom, top + column.count * high)]);
  }
  return [...found.values()].map(([left, top, right, bottom]) => [left, top, right - left, bottom - top]);
}

// ---------------------------------------------------------------- walking

function pathOf(node) {
  const walk = (tree) => {
    for (const [label, first, count, below] of tree) if (node >= first && node < first + count) return [label, ...walk(below)];
    return [];
  };
  return walk(layout.tree);
}

function words(node) {
  const amounts = new Map();
  for (const gang of canvas.holders[node]) amounts.set(gang, (amounts.get(gang) || 0) + 1);
  const free = layout.shut.has(node) ? 0 : amounts.get(null) || 0;
  amounts.delete(null);
  const parts = [...amounts].map(([gang, count]) => `${count} GPU${count === 1 ? "" : "s"} ${gang[0] ? `${gang[0]}, ${PRIORITIES[gang[2]]}${STATES[gang[3]]}` : "in use by another pool"}`);
  if (layout.shut.has(node)) parts.push("accepts no new pods");
  return `${[...pathOf(node), `node ${layout.nodes[node]}`].join(", ")}: ${[...parts, `${free} free`].join("; ")}`;
}

function go(node) {
  if (!cells[node]) return;
  at = node;
  here.textContent = words(at);
  draw();
}

function beside(direction) {
  const [x, y] = cells[at];
  let best = -1;
  let distance = Infinity;
  cells.forEach((cell, node) => {
    const dx = (cell[0] - x) * direction;
    if (dx <= 0) return;
    const far = dx + Math.abs(cell[1] - y) * 1000;
    if (far < distance) [best, distance] = [node, far];
  });
  return best;
}

canvas.addEventListener("keydown", (event) => {
  const [first, count] = shown();
  const steps = { ArrowDown: () => at + 1, ArrowUp: () => at - 1, ArrowRight: () => beside(1), ArrowLeft: () => beside(-1), Home: () => first, End: () => first + count - 1 };
  if (event.key in steps) {
    event.preventDefault();
    go(at < 0 ? first : steps[event.key]());
  } else if (event.key === "Enter" && at >= 0) {
    visit(at, canvas.holders[at].find((gang) => gang && gang[0]));
  } else if (event.key === "Escape") {
    at = -1;
    here.textContent = HINT;
    draw();
  }
});

function visit(node, gang) {
  location.href = (gang ? `/workflow/${encodeURIComponent(gang[0].split("/")[0])}` : `/node/${encodeURIComponent(layout.nodes[node])}`) + then();
}

function under(event) {
  const bounds = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
  const node = cells.findIndex((cell) => cell && x >= cell[0] && x < cell[0] + cell[2] && y >= cell[1] && y < cell[1] + cell[3]);
  return [node, node < 0 ? null : canvas.holders[node][Math.floor(((x - cells[node][0]) / cells[node][2]) * layout.room[node])]];
}

canvas.addEventListener("mousemove", (event) => {
  const [node] = under(event);
  here.textContent = node < 0 ? HINT : words(node);
});
canvas.addEventListener("click", (event) => {
  const [node, gang] = under(event);
  const [x, y] = [event.offsetX, event.offsetY];
  const label = labels.filter((each) => x >= each[1] && y > each[2] - 13 && y < each[2] + 3).pop();
  if (label && label[3]) location.href = addressed("in", label[3]);
  if (node >= 0) visit(node, gang && gang[0] ? gang : null);
});

// The address of the map with one thing changed: what is shown is the address.
function addressed(name, value) {
  const query = new URLSearchParams(location.search);
  query.set(name, value);
  return `/map?${query}`;
}

for (const link of box.querySelectorAll("[data-mode]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    mode = link.dataset.mode;
    for (const each of box.querySelectorAll("[data-mode]")) each === link ? each.setAttribute("aria-current", "true") : each.removeAttribute("aria-current");
    for (const each of box.querySelectorAll("[data-for]")) each.hidden = each.dataset.for !== mode;
    if (location.pathname === "/map") history.replaceState(null, "", addressed("by", mode));
    draw();
  });
}

document.addEventListener("changed", ({ detail }) => {
  told = detail.r;
  if (loading) return; // what is loaded is compared with this
  if (!layout || detail.from > revision) {
    load().catch(() => {});
    return;
  }
  if (detail.r <= revision) return;
  for (const id of detail["-"]) gangs.delete(id);
  for (const each of detail["+"]) gangs.set(each[0], each);
  revision = detail.r;
  if (detail["+"].length || detail["-"].length) draw();
});
document.addEventListener("travelled", () => load().catch(() => {}));
document.addEventListener("reset", () => {
  told = 0;
  load().catch(() => {});
});
document.addEventListener("refreshed", () => document.getElementById("domains").dataset.now !== undefined && draw());
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", () => {
    colours = null;
    draw();
  });
}
new ResizeObserver(() => canvas.parentElement.clientWidth !== drawnFor && draw()).observe(box.parentElement);

load().then(() => document.getElementById("map-table").removeAttribute("open")).catch(() => {});
