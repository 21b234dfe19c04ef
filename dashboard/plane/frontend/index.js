/* The clickable plane. Streamlit calls the default function at every rerun with new data; what the browser must
   remember lives in one Plane per DOM node, and in one memory per component key, which survives leaving the page and
   coming back.

   The conversation with Python: every event carries both endpoints, a sequence number and the keys of the base pictures
   and fields held here; every message says which event it answers. An answer to an old event is not drawn, since a
   newer one is on its way. A message that names a base or field that is not here is answered by a "need" event. */

import { Spray } from "./draw.js";
import { Field } from "./field.js";
import { Figure } from "./figure.js";
import { Layers } from "./layers.js";
import { unpack } from "./pack.js";
import { traces } from "./picture.js";
import { Plot } from "./plot.js";
import { Table, fixed } from "./table.js";
import { followPointer } from "./pointer.js";
import { nearest, nearestToward } from "./snap.js";

const HOLD = 8; // base pictures and fields kept in the browser, as in Python
const LETTERS = ["A", "B"];
const drawn = new WeakMap(); // DOM node -> Plane or Figure
const seen = new WeakMap(); // DOM node -> the data it shows
const memories = new Map(); // component key -> memory

/* Without data there is nothing to draw yet: importing this file has begun to load plotly.js. */
export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  if (!data?.length) return;
  const message = data === seen.get(parentElement) ? null : unpack(data);
  seen.set(parentElement, data);
  if (message && !drawn.has(parentElement)) {
    drawn.set(parentElement, message.figure ? new Figure(parentElement) : new Plane(parentElement));
  }
  const view = drawn.get(parentElement);
  view.send = (event) => setTriggerValue("event", event);
  if (message) view.work = view.work.then(() => view.receive(message)).catch((error) => view.fail(error));
  else view.recolor(); // the same again: the theme may have changed
}

function div(className, parent) {
  const node = document.createElement("div");
  node.className = className;
  parent.append(node);
  return node;
}

class Plane {
  constructor(parent) {
    this.root = div("plane-root", parent);
    this.root.dataset.testid = "plane";
    const body = div("plane-body", this.root);
    this.stage = div("plane-stage", body);
    const plotNode = div("plane-plot", this.stage);
    this.layers = new Layers(this.stage);
    this.hint = div("plane-hint", this.stage);
    this.tip = div("plane-tip", this.stage);
    this.readout = div("plane-readout", this.stage);
    this.side = div("plane-side", body);
    this.table = new Table(this.side, (method) => this.point(method), (method) => this.toggle(method));
    this.plot = new Plot(plotNode, () => this.place(), (format) => this.save(format));
    this.work = styled(this.root);
    this.message = null;
    this.shown = null; // key of the base picture on display
    this.endpoints = null;
    this.held = null; // index of the endpoint under the pointer or the keyboard
    this.asked = 0; // number of "need" events in a row
    this.spray = new Spray(this);
    followPointer(this);
  }

  /* Draw a message from Python; every step is skipped when there is nothing new in it. */
  async receive(message) {
    const memory = this.remember(message);
    if (!this.complete(message, memory)) return;
    if (this.shown !== message.base) {
      const { info, points, grid } = memory.held.get(message.base);
      this.shown = message.base;
      await this.plot.show(info, grid, memory.zoom?.view === info.view ? memory.zoom.ranges : null);
      this.layers.setPoints(points.values);
    }
    this.spray.settle(message.answers);
    if (message.answers < memory.seq) return;
    this.message = message;
    if (!message.drawing) this.spray.end(false);
    this.root.classList.toggle("plane-drawing", message.drawing);
    const drawn = this.held === null ? message.endpoints : this.endpoints;
    this.endpoints = drawn.map((point) => [...point]);
    this.layers.setPaths(
      message.paths.map((method, k) => ({
        method,
        points: message.arrays[`path${k}`].values,
        style: message.styles[method],
        marks: message.marks[method] ?? [],
      })),
    );
    if (this.held === null) this.layers.setLive(null);
    this.layers.setEndpoints(this.endpoints);
    this.layers.setHidden(memory.hidden);
    this.table.show(message.reports, message.styles, message.lpr_title, message.sentence, memory.hidden);
    this.point(null);
    this.showTurn();
    this.root.classList.remove("plane-pending");
    this.root.dataset.endpoints = JSON.stringify(message.endpoints);
    this.root.dataset.reports = JSON.stringify(message.reports.map(
      ({ method, lpr, log_length, seconds, status }) => ({ method, lpr, log_length, seconds, status }),
    ));
    this.root.dataset.drawn = String((memory.drawn += 1));
  }

  /* The canvas takes its color from the theme; all else does so by itself. */
  recolor() {
    if (this.layers.frame) this.layers.drawPoints();
  }

  /* Say what went wrong where the user is looking; the next message is tried again. */
  fail(error) {
    console.error(error);
    this.shown = null;
    this.hint.textContent = `This picture could not be drawn: ${error.message}`;
  }

  /* Take the message's base picture and field into the memory of this component key; forget the oldest ones. */
  remember(message) {
    if (!memories.has(message.key)) {
      memories.set(message.key, {
        held: new Map(), hidden: new Set(), turn: 0, seq: 0, drawn: 0, zoom: null, strokes: [],
      });
    }
    const memory = (this.memory = memories.get(message.key));
    const { grid, points, field } = message.arrays;
    memory.seq = Math.max(memory.seq, message.answers);
    if (points) memory.held.set(message.base, { info: message.base_info, grid, points });
    if (field) memory.held.set(message.field, new Field(field.values, field.shape, message.field_bounds));
    for (const name of [message.base, message.field]) {
      if (!memory.held.has(name)) continue;
      const value = memory.held.get(name);
      memory.held.delete(name); // put it at the newest end
      memory.held.set(name, value);
    }
    while (memory.held.size > HOLD) memory.held.delete(memory.held.keys().next().value);
    return memory;
  }

  complete(message, memory) {
    const missing = !memory.held.has(message.base) || (message.field && !memory.held.has(message.field));
    this.asked = missing ? this.asked + 1 : 0;
    // where a newer event is under way, it has told Python already what is held here
    if (missing && this.asked < 6 && message.answers >= memory.seq) this.tell("need", 0);
    return !missing;
  }

  tell(kind, endpoint) {
    const { memory } = this;
    memory.seq += 1;
    this.send({
      kind, endpoint, seq: memory.seq,
      endpoints: this.endpoints ?? [],
      holds: [...memory.held.keys()],
      ...(kind === "draw" && this.spray.parcel()),
    });
  }

  /* An endpoint has its final place: show it, fade what no longer fits, and ask Python. */
  commit(kind, endpoint) {
    this.root.classList.add("plane-pending");
    this.tip.classList.remove("plane-visible");
    this.tell(kind, endpoint);
    this.showTurn();
  }

  /* A click at [x, y] sets the endpoint whose turn it is. */
  click(position) {
    const endpoint = this.memory.turn;
    this.memory.turn = 1 - endpoint;
    this.move(endpoint, position);
    this.commit("click", endpoint);
  }

  /* Move an endpoint on the screen only, with a preview of the path. */
  move(endpoint, position) {
    this.endpoints[endpoint] = position;
    this.layers.setRing(null);
    this.layers.setEndpoints(this.endpoints);
    if (endpoint === 1) this.layers.setLive(this.fromField(position) ?? this.endpoints.flat());
    else this.layers.setLive(this.endpoints.flat());
  }

  /* Where an endpoint that is meant for this position really goes. */
  snapped(position) {
    return this.message.snap ? nearest(this.layers.points, position) : position;
  }

  /* Where an arrow key takes an endpoint: a step of the visible range, or the next point; null for nowhere. */
  next(endpoint, [dx, dy], far) {
    const { x0, x1, y0, y1 } = this.layers.frame;
    const [x, y] = this.endpoints[endpoint];
    if (this.message.snap) return nearestToward(this.layers.points, [x, y], [dx, dy], far ? 0.05 * (x1 - x0) : 0);
    const step = far ? 0.05 : 0.01;
    return [x + step * dx * (x1 - x0), y + step * dy * (y1 - y0)];
  }

  /* The live geodesic from A to a position, where the field at hand belongs to A and reaches the position. */
  fromField(position) {
    const field = this.message?.field && this.memory.held.get(this.message.field);
    const start = this.message?.endpoints[0];
    const stale = !field || start[0] !== this.endpoints[0][0] || start[1] !== this.endpoints[0][1];
    return stale ? null : field.descend(position, this.endpoints[0]);
  }

  /* The cursor is at pixels [left, top] of the stage, or gone (null). */
  hover(at) {
    if (this.message?.drawing) return this.spray.stroke || this.spray.show(at);
    const began = performance.now();
    const inside = at && this.message && this.layers.contains(...at);
    const method = inside ? this.layers.methodAt(...at) : null;
    const position = inside ? this.layers.toData(...at) : null;
    const target = inside ? this.snapped(position) : null;
    this.layers.setLive(inside ? this.fromField(target) : null);
    this.layers.setRing(target && this.message.snap ? this.layers.toPixel(...target) : null, 6);
    this.readout.textContent = inside ? this.describe(position) : "";
    if (method !== this.pointed) this.point(method);
    if (method) {
      const { lpr } = this.message.reports.find((report) => report.method === method) ?? {};
      this.tip.textContent = `${this.message.styles[method].title} · ${this.message.lpr_title} ${fixed(lpr, 3)}`;
      const flip = at[0] > this.stage.clientWidth - this.tip.offsetWidth - 20; // no room to the right of the cursor
      this.tip.style.transform = `translate(${at[0] + 14}px, ${at[1] + 14}px) translateX(${flip ? "calc(-100% - 28px)" : 0})`;
    }
    this.tip.classList.toggle("plane-visible", Boolean(method));
    this.root.dataset.hoverMs = (performance.now() - began).toFixed(2);
  }

  /* Coordinates and log density (of the nearest node of the heatmap, if any) at a position, for the plane's corner. */
  describe([x, y]) {
    const { info, grid } = this.memory.held.get(this.shown);
    const place = `x ${fixed(x, 2)}   y ${fixed(y, 2)}`;
    if (!grid) return place;
    const [x0, x1, y0, y1] = info.bounds;
    const [rows, columns] = grid.shape;
    const row = Math.round(((y - y0) / (y1 - y0)) * (rows - 1));
    const column = Math.round(((x - x0) / (x1 - x0)) * (columns - 1));
    const known = row >= 0 && row < rows && column >= 0 && column < columns;
    return known ? `${place}   log p ${fixed(grid.values[row * columns + column], 1)}` : place;
  }

  /* Thicken one method's path and mark its row; null goes back to what Python asked for. */
  point(method) {
    this.pointed = method;
    const strong = method ?? this.message?.highlight ?? null;
    this.layers.highlight(strong);
    this.table.highlight(strong);
  }

  toggle(method) {
    const { hidden } = this.memory;
    if (!hidden.delete(method)) hidden.add(method);
    this.layers.setHidden(hidden);
    this.table.setHidden(hidden);
  }

  showTurn() {
    const turn = `Click to set ${LETTERS[this.memory.turn]}`;
    this.hint.textContent = this.message.drawing ? "Drag to spray points" : turn;
    this.layers.handles.forEach((handle, k) => handle.classList.toggle("plane-next", k === this.memory.turn));
  }

  place() {
    const frame = this.plot.frame();
    this.memory.zoom = { view: this.plot.base.view, ranges: this.plot.zoom() };
    this.stage.style.setProperty("--plane-left", `${frame.left}px`);
    this.stage.style.setProperty("--plane-bottom", `${this.stage.clientHeight - frame.top - frame.height}px`);
    this.layers.place(frame);
  }

  save(format) {
    const { color, backgroundColor } = getComputedStyle(this.root);
    this.plot.save(format, traces(this, { color, backgroundColor }), this.message.file_name, color, backgroundColor);
  }
}

/* Wait for plane.css: in a stage that is not yet square, plotly would widen the axes for good. */
async function styled(root) {
  root.style.visibility = "hidden";
  while (root.isConnected && !getComputedStyle(root).getPropertyValue("--plane-styled")) {
    await new Promise((resume) => setTimeout(resume, 10));
  }
  root.style.visibility = "";
}
