"""Checks of a page, in the language of browsers: each returns a list of faults."""

CONTRAST = """() => {
  const parse = (text) => {
    const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const linear = (value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll('main *, header *')) {
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!text || !e.checkVisibility() || e.closest('.unseen, svg, option')) continue;
    const [one, other] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) bad.push(`${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return bad;
}"""
"""Text and what it stands on, as computed: WCAG wants 4.5 to 1."""

NAMELESS = """() => [...document.querySelectorAll('a, button, input:not([type=hidden]), select, canvas, [role=region], [role=group], nav')]
  .filter((e) => e.checkVisibility() && !(e.textContent.trim() || e.getAttribute('aria-label') || (e.labels && e.labels.length)))
  .map((e) => e.outerHTML.slice(0, 80))"""
"""Elements without a name for people who do not see them."""

SIDEWAYS = """() => document.documentElement.scrollWidth > document.documentElement.clientWidth ? ['the page'] : []"""

CUT = """() => [...document.querySelectorAll('main .panel *, main .figures *')].filter((e) => {
  if (!e.checkVisibility() || e.closest('.unseen, svg, .wide, pre, canvas, option')) return false;
  const [inner, outer] = [e.getBoundingClientRect(), e.closest('.panel, .figures').getBoundingClientRect()];
  return inner.width && (inner.right > outer.right + 1 || inner.left < outer.left - 1);
}).map((e) => e.outerHTML.slice(0, 80))"""
"""Elements that stand over the border of their panel."""

COLOURS = """() => {
  const canvas = document.querySelector('canvas');
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const found = {};
  for (let i = 0; i < data.length; i += 4) {
    const key = `${data[i]},${data[i + 1]},${data[i + 2]}`;
    found[key] = (found[key] || 0) + 1;
  }
  return found;
}"""
"""Colour to pixels of the map."""

SHARES = """
() => {
  const canvas = document.querySelector('canvas');
  const line = canvas.getContext('2d').getImageData(0, Math.round(20 * window.devicePixelRatio), canvas.width, 1).data;
  const found = {};
  for (let i = 0; i < line.length; i += 4) {
    const colour = `${line[i]},${line[i + 1]},${line[i + 2]}`;
    found[colour] = (found[colour] || 0) + 4 / line.length;
  }
  return found;
}
"""
"""The colours along the first row of the map, each with its share of the width."""
