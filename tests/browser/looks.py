"""Checks of a page, in the language of browsers: each returns a list of faults."""

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

CONTRAST = """() => {
  const known = {}, grounds = new Map(), opacities = new Map();
  const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const parse = (text) => {
    if (known[text]) return known[text];
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    return known[text] = [...context.getImageData(0, 0, 1, 1).data];
  };
  const linear = (value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const kept = (map, e, found) => map.has(e) ? map.get(e) : map.set(e, found()).get(e);
  const ground = (e) => e ? kept(grounds, e, () => {
    const colour = parse(getComputedStyle(e).backgroundColor);
    return colour[3] > 250 ? colour : ground(e.parentElement);
  }) : [255, 255, 255];
  const opaque = (e) => e ? kept(opacities, e, () => getComputedStyle(e).opacity * opaque(e.parentElement)) : 1;
  const mixed = (ink, paper, e) => paper.map((value, i) => value + (ink[i] - value) * (ink[3] / 255) * opaque(e));
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!(text || e.matches('input, select, textarea')) || !e.checkVisibility() || e.closest('.unseen, svg, option')) continue;
    const paper = ground(e).slice(0, 3);
    const ink = getComputedStyle(e, e.placeholder && !e.value ? '::placeholder' : null).color;
    const [one, other] = [light(mixed(parse(ink), paper, e)), light(paper)];
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

PUSHED = """() => innerWidth > 400 ? [] : [...document.querySelectorAll('.wide:not(details *, #domains)')]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .map((e) => `${e.getAttribute('aria-label')}: ${e.scrollWidth} of ${e.clientWidth}`)"""
"""Tables that have to be pushed sideways to be read on a phone; those with all numbers, which one opens, may."""

CHECKS = (CONTRAST, NAMELESS, CUT, SIDEWAYS, PUSHED)
VIEWS = ((1440, "light"), (1440, "dark"), (1024, "light"), (1024, "dark"), (390, "light"), (390, "dark"))
AXE = ((1440, "light"), (390, "dark"))
"""Where axe looks too, which takes a hundred times as long: at the first and last of VIEWS, so at what depends on width or on colours."""
_OF_AXE = {"resultTypes": ["violations"], "preload": False, "rules": {"color-contrast": {"enabled": False}}}
"""Most of its time goes into contrast, which CONTRAST computes in all views, and more strictly."""

DRAWN = """() => !document.querySelector('canvas') ||
  new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))"""
"""A map is drawn again in the frame after its width has changed."""

_ALL = f"async () => {{ await ({DRAWN})(); return [{', '.join(f'...({check})()' for check in CHECKS)}]; }}"


def faults(page: Page, views: tuple[tuple[int, str], ...] = VIEWS, axe: tuple[tuple[int, str], ...] = AXE) -> list[str]:
    """What is wrong with *page* in each of *views*, into which it is moved in turn without being loaded again."""
    found = []
    for width, scheme in views:
        page.set_viewport_size({"width": width, "height": 900 if width > 400 else 844})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        said = page.evaluate(_ALL)
        if (width, scheme) in axe:
            said += found_by_axe(page)
        found += [f"{width} {scheme}: {each}" for each in said]
    return found


def found_by_axe(page: Page) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    violations = page.evaluate("(options) => axe.run(options).then((found) => found.violations)", _OF_AXE)
    return [f"{each['id']}: {node['html'][:120]}" for each in violations for node in each["nodes"]]


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
