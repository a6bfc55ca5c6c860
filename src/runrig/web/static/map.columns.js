// Part of map.js.  Where the nodes stand on the map: one column for each domain of the finest level that is shown, in groups, in zones.
const [GAP, APART] = [3, 9];
const HEAD = 22;

// Columns of nodes, one for each domain of the finest level that is shown.  *zone*, *group*: the coarsest domain, and all but the finest.
function columns(layout, first, count) {
  const racks = [];
  const walk = (tree, path) => {
    for (const [label, first, count, below] of tree) below.length ? walk(below, [...path, label]) : racks.push({ label, zone: path[0] || "", path, group: path.join(" "), first, count });
  };
  walk(layout.tree, []);
  const placed = racks.reduce((sum, each) => sum + each.count, 0);
  if (placed < layout.nodes.length) racks.push({ zone: "", path: [], group: racks.length ? "no label" : "", first: placed, count: layout.nodes.length - placed });
  // Where all that is shown lies in one domain, the finest ones are named.
  const inside = racks.filter((rack) => rack.first < first + count && rack.first + rack.count > first);
  if (inside.every((rack) => rack.label && rack.group === inside[0].group)) for (const rack of inside) Object.assign(rack, { group: rack.label, path: [...rack.path, rack.label] });
  const tallest = Math.max(8, Math.ceil(Math.sqrt(count / 2)));
  return racks.flatMap((rack) => {
    const from = Math.max(rack.first, first);
    const many = Math.min(rack.first + rack.count, first + count) - from;
    const parts = Math.ceil(many / tallest);
    const size = Math.ceil(many / parts);
    return Array.from({ length: Math.max(0, parts) }, (_, i) => ({ ...rack, first: from + i * size, count: Math.min(size, many - i * size) })).filter((part) => part.count > 0);
  });
}

// Zones as lists of groups, which are lists of columns.
function grouped(list) {
  const zones = new Map();
  for (const each of list) {
    if (!zones.has(each.zone)) zones.set(each.zone, new Map());
    const groups = zones.get(each.zone);
    if (!groups.has(each.group)) groups.set(each.group, []);
    groups.get(each.group).push(each);
  }
  return [...zones.values()].map((groups) => [...groups.values()]);
}

// How a zone is laid: groups on a line, and columns of a group on a line.  Groups that are longer than a line begin one each.
function laid(groups, columnWidth, width) {
  const longest = Math.max(...groups.map((each) => each.length));
  const most = Math.max(1, Math.floor((width + GAP) / (columnWidth + GAP)));
  const fit = Math.floor((width + APART) / (longest * (columnWidth + GAP) - GAP + APART));
  if (!fit) return [1, Math.ceil(longest / Math.ceil(longest / most)), groups.reduce((sum, each) => sum + Math.ceil(each.length / Math.ceil(longest / Math.ceil(longest / most))), 0)];
  const lines = Math.ceil(groups.length / fit);
  return [Math.ceil(groups.length / lines), longest, lines];
}

const rowsOf = (zones, columnWidth, width) => zones.reduce((sum, groups) => sum + laid(groups, columnWidth, width)[2], 0);

// Where each column stands: [column, x, row, whether it is the first of its group on the line].
function placing(zones, columnWidth, width) {
  const found = [];
  let row = 0;
  for (const groups of zones) {
    const [together, long] = laid(groups, columnWidth, width);
    const beside = long * (columnWidth + GAP) - GAP + APART;
    groups.forEach((members, number) => {
      members.forEach((each, i) => found.push([each, (number % together) * beside + (i % long) * (columnWidth + GAP), row + Math.floor(i / long), i % long === 0]));
      if (together === 1) row += Math.ceil(members.length / long);
      else if (number % together === together - 1 || number === groups.length - 1) row += 1;
    });
  }
  return found;
}

// The columns as wide, and the nodes as high, as make the largest cells.
function sized(zones, width, height, room, tall, pixel) {
  let [columnWidth, rows, nodeHeight, best] = [room, 1, pixel, -1];
  for (let tried = Math.min(room, width); tried <= Math.min(room * 12, width); tried += room / 2) {
    const count = rowsOf(zones, tried, width);
    const tallness = Math.min(22, Math.floor((height / count - HEAD) / tall / pixel) * pixel);
    const value = Math.min(tried / room, tallness * 1.3);
    if (value > best) [columnWidth, rows, nodeHeight, best] = [tried, count, Math.max(pixel, tallness), value];
  }
  for (let tried = columnWidth; tried <= Math.min(room * 60, width) && rowsOf(zones, tried, width) === rows; tried += 1) columnWidth = tried;
  return [columnWidth, rows, nodeHeight];
}
