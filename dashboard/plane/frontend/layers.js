/* The layers above the plot: the sample on a canvas; paths, hover path and handles in an SVG. Everything is kept in
   data coordinates and laid out again whenever the plot's frame moves. */

const SVG = "http://www.w3.org/2000/svg";
const LETTERS = ["A", "B"];
const NEAR = 7; // pixels from the cursor at which a path is pointed at
const MANY = 3000; // points from which on they are drawn smaller
export const MARK = { color: "#FFC000", opacity: 0.5, width: 13 }; // the warning band under a part of a path
let clips = 0;

function svg(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent?.append(node);
  return node;
}

export class Layers {
  constructor(stage) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "plane-points";
    this.svg = svg("svg", { class: "plane-layers" });
    const clip = `plane-clip-${(clips += 1)}`;
    this.clip = svg("rect", {}, svg("clipPath", { id: clip }, svg("defs", {}, this.svg)));
    const clipped = svg("g", { "clip-path": `url(#${clip})` }, this.svg);
    this.group = svg("g", { class: "plane-paths" }, clipped);
    this.halos = svg("g", {}, this.group); // under all lines: no path blots out another
    this.bands = svg("g", {}, this.group);
    this.lines = svg("g", {}, this.group);
    this.live = svg("path", { class: "plane-live" }, clipped);
    this.ring = svg("circle", { class: "plane-circle" }, clipped);
    this.handles = LETTERS.map((letter) => makeHandle(letter, this.svg));
    stage.append(this.canvas, this.svg);
    this.frame = null;
    this.points = new Float32Array();
    this.sprayed = []; // list of [x, y]: points that are not in the base yet
    this.paths = new Map(); // method -> {points, pixels, halo, line, marks}
    this.endpoints = null;
    this.livePoints = null;
  }

  /* Lay everything out for a new frame of the plot. */
  place(frame) {
    this.frame = frame;
    const { left: x, top: y, width, height } = frame;
    for (const [key, value] of Object.entries({ x, y, width, height })) this.clip.setAttribute(key, value);
    this.drawPoints();
    for (const path of this.paths.values()) this.drawPath(path);
    this.setEndpoints(this.endpoints);
    this.setLive(this.livePoints);
  }

  toPixel(x, y) {
    const f = this.frame;
    return [
      f.left + ((x - f.x0) / (f.x1 - f.x0)) * f.width,
      f.top + ((f.y1 - y) / (f.y1 - f.y0)) * f.height,
    ];
  }

  toData(left, top) {
    const f = this.frame;
    return [
      f.x0 + ((left - f.left) / f.width) * (f.x1 - f.x0),
      f.y1 - ((top - f.top) / f.height) * (f.y1 - f.y0),
    ];
  }

  contains(left, top) {
    const f = this.frame;
    return left >= f.left && left <= f.left + f.width && top >= f.top && top <= f.top + f.height;
  }

  /* The nearest pixel of the plot area: a dragged handle never gets lost. */
  inside(left, top) {
    const f = this.frame;
    return [
      Math.min(f.left + f.width, Math.max(f.left, left)),
      Math.min(f.top + f.height, Math.max(f.top, top)),
    ];
  }

  setPoints(points) {
    this.points = points;
    if (this.frame) this.drawPoints();
  }

  drawPoints() {
    const { left, top, width, height } = this.frame;
    const scale = window.devicePixelRatio || 1;
    this.canvas.style.cssText = `left: ${left}px; top: ${top}px; width: ${width}px; height: ${height}px`;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = getComputedStyle(this.canvas).color;
    context.beginPath();
    for (let k = 0; k < this.points.length; k += 2) this.dot(context, this.points[k], this.points[k + 1]);
    for (const [x, y] of this.sprayed) this.dot(context, x, y);
    context.fill();
  }

  dot(context, x, y) {
    const radius = this.points.length / 2 + this.sprayed.length > MANY ? 1.1 : 1.6;
    const [left, top] = this.toPixel(x, y);
    context.moveTo(left - this.frame.left + radius, top - this.frame.top);
    context.arc(left - this.frame.left, top - this.frame.top, radius, 0, 2 * Math.PI);
  }

  setSprayed(sprayed) {
    this.sprayed = sprayed;
    if (this.frame) this.drawPoints();
  }

  /* Only the new points are painted: a stroke grows with every frame. */
  addSprayed(fresh) {
    const context = this.canvas.getContext("2d");
    this.sprayed.push(...fresh);
    context.beginPath();
    for (const [x, y] of fresh) this.dot(context, x, y);
    context.fill();
  }

  /* paths: list of {method, points (flat x, y, ...), style, marks (list of [first, last])}, drawn in this order. */
  setPaths(paths) {
    this.bands.replaceChildren();
    this.halos.replaceChildren();
    this.lines.replaceChildren();
    this.paths.clear();
    for (const { method, points, style, marks } of paths) {
      const halo = svg("path", { class: "plane-halo" }, this.halos);
      const line = svg("path", { class: "plane-path", "data-method": method }, this.lines);
      line.style.stroke = style.color ?? "var(--st-text-color)";
      line.style.strokeDasharray = style.dash.join(" ");
      const bands = marks.map((range) => makeMark(range, points.length, method, this.bands));
      const path = { points, halo, line, marks: bands };
      this.paths.set(method, path);
      this.drawPath(path);
    }
  }

  drawPath(path) {
    path.pixels = this.pixels(path.points);
    const d = polyline(path.pixels);
    path.halo.setAttribute("d", d);
    path.line.setAttribute("d", d);
    for (const { from, to, band } of path.marks) {
      const dot = to - from === 2 ? "Z" : ""; // a closed path of one point has its round cap
      band.setAttribute("d", polyline(path.pixels.subarray(from, to)) + dot);
    }
  }

  pixels(points) {
    const pixels = new Float32Array(points.length);
    for (let k = 0; k < points.length; k += 2) [pixels[k], pixels[k + 1]] = this.toPixel(points[k], points[k + 1]);
    return pixels;
  }

  setHidden(hidden) {
    for (const [method, { halo, line, marks }] of this.paths) {
      for (const node of [halo, line, ...marks.map(({ band }) => band)]) {
        node.classList.toggle("plane-hidden", hidden.has(method));
      }
    }
  }

  highlight(method) {
    for (const [name, { line, marks }] of this.paths) {
      for (const node of [line, ...marks.map(({ band }) => band)]) node.classList.toggle("plane-strong", name === method);
    }
    this.group.classList.toggle("plane-one-strong", this.paths.has(method));
  }

  /* The method whose visible path passes within NEAR pixels of the cursor, or null. */
  methodAt(left, top) {
    let best = null;
    let nearest = NEAR;
    for (const [method, { pixels, line }] of this.paths) {
      if (line.classList.contains("plane-hidden")) continue;
      const distance = distanceTo(pixels, left, top);
      if (distance < nearest) [best, nearest] = [method, distance];
    }
    return best;
  }

  setEndpoints(endpoints) {
    this.endpoints = endpoints;
    if (!endpoints || !this.frame) return;
    endpoints.forEach(([x, y], k) => {
      const [left, top] = this.toPixel(x, y);
      const handle = this.handles[k];
      handle.setAttribute("transform", `translate(${left} ${top})`);
      handle.classList.toggle("plane-outside", !this.contains(left, top));
      handle.setAttribute(
        "aria-label",
        `Point ${LETTERS[k]} at ${x.toFixed(3)}, ${y.toFixed(3)}. Arrow keys move it, with Shift in bigger steps.`,
      );
    });
  }

  /* The live path (from a field, or straight) as a flat list of data coordinates; null hides it. */
  setLive(points) {
    this.livePoints = points;
    this.live.setAttribute("d", points && this.frame ? polyline(this.pixels(points)) : "");
  }

  /* A circle around pixels [left, top]: the brush, or the point that a click would take; null hides it. */
  setRing(at, radius) {
    this.ring.classList.toggle("plane-hidden", !at);
    if (!at) return;
    for (const [key, value] of Object.entries({ cx: at[0], cy: at[1], r: radius })) this.ring.setAttribute(key, value);
  }
}

/* The band under the points first to last (both included) of a path of `length` numbers, as from and to in that list. */
function makeMark([first, last], length, method, parent) {
  const look = { stroke: MARK.color, "stroke-width": MARK.width, "stroke-opacity": MARK.opacity };
  const band = svg("path", { class: "plane-mark", "data-method": method, ...look }, parent);
  return { from: Math.max(0, 2 * first), to: Math.min(length, 2 * last + 2), band };
}

function makeHandle(letter, parent) {
  const handle = svg("g", { class: "plane-handle", tabindex: 0, role: "button", "data-handle": letter }, parent);
  handle.setAttribute("aria-roledescription", "movable point");
  svg("circle", { class: "plane-reach" }, handle);
  svg("circle", { class: "plane-ring", r: 16 }, handle);
  svg("circle", { class: "plane-disk", r: 11 }, handle);
  const text = svg("text", { "text-anchor": "middle", dy: "0.35em" }, handle);
  text.textContent = letter;
  return handle;
}

/* Flat pixels -> the d attribute of an SVG path, rounded to a tenth of a pixel. */
function polyline(pixels) {
  const parts = [];
  for (let k = 0; k < pixels.length; k += 2) {
    parts.push(Math.round(pixels[k] * 10) / 10 + " " + Math.round(pixels[k + 1] * 10) / 10);
  }
  return parts.length ? "M" + parts.join("L") : "";
}

function distanceTo(pixels, x, y) {
  let best = Infinity;
  for (let k = 0; k + 3 < pixels.length; k += 2) {
    const dx = pixels[k + 2] - pixels[k];
    const dy = pixels[k + 3] - pixels[k + 1];
    const along = ((x - pixels[k]) * dx + (y - pixels[k + 1]) * dy) / (dx * dx + dy * dy || 1);
    const t = Math.min(1, Math.max(0, along));
    best = Math.min(best, Math.hypot(x - pixels[k] - t * dx, y - pixels[k + 1] - t * dy));
  }
  return best;
}
