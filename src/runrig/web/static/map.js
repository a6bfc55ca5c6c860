// The map: a cell for each GPU, drawn into a buffer of pixels.  It keeps what `/page/state` said, and changes it as `/page/live` says.
const box = document.getElementById("map");
const canvas = box.querySelector("canvas");
const here = document.getElementById("here");
const PRIORITIES = ["HIGH", "NORMAL", "LOW"];
const [GAP, HEAD] = [3, 22];
const STATES = [", promised", "", ", stopping"];
let layout = null;
let gangs = new Map();
let revision = 0;
let mode = "pool";
let cells = [];
let at = -1;

async function json(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

function named(runs) {
  return runs.flatMap(([head, first, digits, count]) => Array.from({ length: count }, (_, i) => (digits ? head + String(first + i).padStart(digits, "0") : head)));
}

async function load() {
  const state = await json("/page/state");
  if (!layout || layout.tag !== state.layout) {
    layout = await json("/page/layout");
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

// Columns of nodes, one for each domain of the finest level.  *zone*, *group*: the coarsest domain, and all but the finest.
function columns() {
  const racks = [];
  const walk = (tree, path) => {
    for (const [label, first, count, below] of tree) below.length ? walk(below, [...path, label]) : racks.push({ zone: path[0] || "", group: path.join(" "), first, count });
  };
  walk(layout.tree, []);
  const placed = racks.reduce((sum, each) => sum + each.count, 0);
  if (placed < layout.nodes.length) racks.push({ zone: "", group: racks.length ? "without a label" : "", first: placed, count: layout.nodes.length - placed });
  const tallest = Math.max(8, Math.ceil(Math.sqrt(layout.nodes.length / 2)));
  return racks.flatMap((each) => {
    const parts = Math.ceil(each.count / tallest);
    const size = Math.ceil(each.count / parts);
    return Array.from({ length: parts }, (_, i) => ({ ...each, first: each.first + i * size, count: Math.min(size, each.count - i * size) })).filter((part) => part.count > 0);
  });
}

// Where each column stands: [column, x, row, label].  A zone begins a row, and its rows are about equally long.
function placing(list, columnWidth, width) {
  const most = Math.max(1, Math.floor((width + GAP) / (columnWidth + GAP)));
  const zones = new Map();
  for (const each of list) zones.set(each.zone, [...(zones.get(each.zone) || []), each]);
  const found = [];
  let row = 0;
  for (const members of zones.values()) {
    const long = Math.ceil(members.length / Math.ceil(members.length / most));
    let before = null;
    members.forEach((each, i) => {
      found.push([each, (i % long) * (columnWidth + GAP), row + Math.floor(i / long), each.group !== before || (i % long === 0 && i > 0) ? each.group : ""]);
      before = each.group;
    });
    row += Math.ceil(members.length / long);
  }
  return [found, row];
}

function rgb(name) {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

function palette() {
  const of = Object.fromEntries(["panel", "free", "ink", "ink2", "over", "firm", "grey", "run", "good"].map((name) => [name, rgb(`--${name}`)]));
  const pools = {};
  for (const chip of document.querySelectorAll("#keys [data-pool]")) pools[chip.dataset.pool] = rgb(`--${chip.classList[1]}`);
  return { ...of, pools };
}

const packed = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;
const mixed = (one, other, part) => one.map((value, i) => Math.round(value * part + other[i] * (1 - part)));

function colour(gang, free, colours) {
  if (mode === "free") return gang ? colours.grey : colours.free;
  if (!gang) return colours.free;
  const paler = (value) => (gang[2] === 2 ? mixed(value, colours.panel, 0.52) : value);
  if (mode === "priority") return gang[2] === 2 ? mixed(colours.firm, colours.panel, 0.45) : gang[2] === 1 ? colours.firm : colours.ink;
  return paler(colours.pools[gang[1].split("--")[0]] || colours.grey);
}

function draw() {
  if (!layout) return;
  box.hidden = false;
  const list = columns();
  const colours = palette();
  const holders = held();
  const width = Math.max(200, canvas.parentElement.clientWidth);
  const scale = window.devicePixelRatio || 1;
  const room = Math.max(1, ...layout.room);
  const tall = Math.max(1, ...list.map((each) => each.count));
  const height = box.closest(".large") ? Math.max(360, window.innerHeight - 300) : Math.max(320, Math.min(window.innerHeight - 330, 640));
  // The width of columns with which cells are largest, both ways.
  let [columnWidth, placed, rows, nodeHeight, best] = [0, [], 1, 1, -1];
  for (let tried = Math.min(room, width); tried <= Math.min(room * 12, width); tried += room / 2) {
    const [found, count] = placing(list, tried, width);
    const tallness = Math.min(14, Math.floor((height / count - HEAD) / tall));
    const value = Math.min(tried / room, tallness * 1.3);
    if (value > best) [columnWidth, placed, rows, nodeHeight, best] = [tried, found, count, Math.max(1, tallness), value];
  }
  for (let tried = columnWidth; tried <= room * 20; tried += 1) {
    const [found, count] = placing(list, tried, width);
    if (count === rows && Math.max(...found.map((each) => each[1])) + tried <= width) [columnWidth, placed] = [tried, found];
  }
  const total = rows * (tall * nodeHeight + HEAD);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(total * scale);
  canvas.style.height = `${total}px`;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const fill = (x, y, w, h, value) => {
    const [x0, x1] = [Math.round(x * scale), Math.round((x + w) * scale)];
    for (let line = Math.round(y * scale); line < Math.round((y + h) * scale); line++) pixels.fill(value, line * canvas.width + x0, line * canvas.width + x1);
  };
  cells = Array(layout.nodes.length);
  const labels = [];
  const woven = packed(mixed(colours.ink2, colours.panel, 0.45));
  for (const [column, x, row, label] of placed) {
    const y0 = row * (tall * nodeHeight + HEAD) + 16;
    if (label) labels.push([label, x, y0 - 4]);
    for (let i = 0; i < column.count; i++) {
      const node = column.first + i;
      const y = y0 + i * nodeHeight;
      cells[node] = [x, y, columnWidth, nodeHeight];
      const size = layout.room[node] || 1;
      const each = columnWidth / size;
      const line = nodeHeight > 4 ? 1 : nodeHeight > 2 ? 0.5 : 0;
      for (let gpu = 0; gpu < size; gpu++) {
        const gang = holders[node][gpu] || null;
        const inner = gang && holders[node][gpu + 1] === gang ? each : each - (each > 3 ? 1 : 0.25);
        fill(x + gpu * each, y, inner, nodeHeight - line, packed(colour(gang, 0, colours)));
        // What moves, and what is closed, is told by a pattern too.
        if (nodeHeight > 3 && ((gang && gang[3] !== 1) || (!gang && layout.shut.has(node)))) for (let dx = 0; dx < inner; dx += 3) fill(x + gpu * each + dx, y, 1, nodeHeight - line, gang ? packed(colours.panel) : woven);
      }
    }
  }
  context.putImageData(image, 0, 0);
  context.scale(scale, scale);
  context.fillStyle = `rgb(${colours.ink2.join(",")})`;
  context.font = "11.5px Inter, system-ui, sans-serif";
  for (const [text, x, y] of labels) context.fillText(text, x, y);
  if (at >= 0 && cells[at]) {
    context.strokeStyle = `rgb(${colours.ink.join(",")})`;
    context.lineWidth = 2;
    context.strokeRect(...[cells[at][0] - 1.5, cells[at][1] - 1.5, cells[at][2] + 3, cells[at][3] + 3]);
  }
  canvas.holders = holders;
  box.dataset.drawn = revision;
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
  const parts = [...amounts].map(([gang, count]) => `${count} GPU${count === 1 ? "" : "s"} ${gang[0] ? `${gang[0]}, ${PRIORITIES[gang[2]]}${STATES[gang[3]]}` : "work of another pool"}`);
  if (layout.shut.has(node)) parts.push("takes nothing new");
  return `${[...pathOf(node), `node ${layout.nodes[node]}`].join(", ")}: ${[...parts, `${free} free`].join("; ")}`;
}

function go(node) {
  if (node < 0 || node >= layout.nodes.length) return;
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
  const steps = { ArrowDown: () => at + 1, ArrowUp: () => at - 1, ArrowRight: () => beside(1), ArrowLeft: () => beside(-1), Home: () => 0, End: () => layout.nodes.length - 1 };
  if (event.key in steps) {
    event.preventDefault();
    go(at < 0 ? 0 : steps[event.key]());
  } else if (event.key === "Enter" && at >= 0) {
    visit(at, canvas.holders[at].find((gang) => gang && gang[0]));
  } else if (event.key === "Escape") {
    at = -1;
    here.textContent = "";
    draw();
  }
});

function visit(node, gang) {
  location.href = gang ? `/workflow/${encodeURIComponent(gang[0].split("/")[0])}` : `/node/${encodeURIComponent(layout.nodes[node])}`;
}

function under(event) {
  const bounds = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
  const node = cells.findIndex((cell) => cell && x >= cell[0] && x < cell[0] + cell[2] && y >= cell[1] && y < cell[1] + cell[3]);
  return [node, node < 0 ? null : canvas.holders[node][Math.floor(((x - cells[node][0]) / cells[node][2]) * layout.room[node])]];
}

canvas.addEventListener("mousemove", (event) => {
  const [node] = under(event);
  here.textContent = node < 0 ? "" : words(node);
});
canvas.addEventListener("click", (event) => {
  const [node, gang] = under(event);
  if (node >= 0) visit(node, gang && gang[0] ? gang : null);
});

for (const button of box.querySelectorAll("[data-mode]")) {
  button.addEventListener("click", () => {
    mode = button.dataset.mode;
    for (const each of box.querySelectorAll("[data-mode]")) each.setAttribute("aria-pressed", String(each === button));
    draw();
  });
}

document.addEventListener("change", ({ detail }) => {
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
document.addEventListener("reset", () => load().catch(() => {}));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
new ResizeObserver(() => draw()).observe(box.parentElement);

load().then(() => document.getElementById("map-table").removeAttribute("open")).catch(() => {});
