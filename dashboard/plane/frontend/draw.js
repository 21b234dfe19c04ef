/* Spraying points onto the plane, while Python asks for it (`drawing`): normal noise around the pointer for as long as
   the button is down. A stroke is seen at once and goes to Python as one event when it is done; it stays in sight until
   a message answers that event, whose base then holds the same points. */

import { onStage } from "./pointer.js";

const SPREAD = 12; // pixels, standard deviation
const CUT = 2.5; // standard deviations: the edge of the brush
const RATE = 150; // points a second
const BURST = 8; // points of a mere click
const STALL = 250; // ms that a page which stood still may catch up on
const MOST = 5000; // points of one event, as in Python

export class Spray {
  constructor(plane) {
    this.plane = plane;
    this.stroke = null; // {pointer, at, time, due, points} while the button is down
    const { stage } = plane;
    // heard before plotly hears it: the wheel is plotly's, pressing and dragging are ours
    stage.addEventListener("pointerdown", (event) => this.begin(event), true);
    for (const kind of ["mousedown", "touchstart"]) {
      stage.addEventListener(kind, (event) => this.owns(event) && event.stopPropagation(), true);
    }
    stage.addEventListener("pointermove", (event) => {
      if (this.stroke?.pointer !== event.pointerId) return;
      this.spray(onStage(stage, event));
      this.show(this.stroke.at);
    });
    stage.addEventListener("pointerup", (event) => this.stroke?.pointer === event.pointerId && this.end(true));
    stage.addEventListener("pointercancel", (event) => this.stroke?.pointer === event.pointerId && this.end(false));
    stage.addEventListener("contextmenu", (event) => this.stroke && event.preventDefault()); // a long touch
    this.escape = (event) => event.key === "Escape" && this.end(false);
    this.frame = () => {
      if (!this.stroke) return;
      this.spray(this.stroke.at);
      requestAnimationFrame(this.frame);
    };
  }

  owns(event) {
    return Boolean(this.plane.message?.drawing && event.target.closest(".nsewdrag"));
  }

  begin(event) {
    if (!this.owns(event)) return;
    event.stopPropagation();
    if (this.stroke || !event.isPrimary || event.button !== 0) return;
    const { stage } = this.plane;
    stage.setPointerCapture(event.pointerId);
    document.addEventListener("keydown", this.escape, true);
    const at = onStage(stage, event);
    const touch = event.pointerType === "touch";
    this.stroke = { pointer: event.pointerId, touch, at, time: performance.now(), due: BURST, points: [] };
    this.spray(at);
    this.show(at);
    requestAnimationFrame(this.frame);
  }

  /* Add the points that are due since the last time, along the way from where the pointer was to where it is. */
  spray(at) {
    const { stroke, plane } = this;
    const { layers } = plane;
    const now = performance.now();
    stroke.due += (RATE / 1000) * Math.min(STALL, Math.max(0, now - stroke.time));
    const count = Math.floor(stroke.due);
    const room = MOST - stroke.points.length - this.waiting().length;
    const fresh = [];
    for (let k = 0; k < count && fresh.length < room; k++) {
      const share = (k + Math.random()) / count;
      const [dx, dy] = noise();
      const left = stroke.at[0] + share * (at[0] - stroke.at[0]) + dx;
      const top = stroke.at[1] + share * (at[1] - stroke.at[1]) + dy;
      if (layers.contains(left, top)) fresh.push(layers.toData(left, top).map(short));
    }
    stroke.due -= count;
    stroke.time = now;
    stroke.at = at;
    stroke.points.push(...fresh);
    layers.addSprayed(fresh);
  }

  /* The stroke is done and goes to Python, or is taken back. */
  end(keep) {
    const { stroke, plane } = this;
    if (!stroke) return;
    document.removeEventListener("keydown", this.escape, true);
    this.stroke = null;
    if (stroke.touch) this.show(null);
    if (!keep || !stroke.points.length) return plane.layers.setSprayed(this.waiting());
    plane.memory.strokes.push({ seq: plane.memory.seq + 1, points: stroke.points });
    plane.tell("draw", 0);
  }

  /* The points of the strokes that Python has not answered yet. */
  waiting() {
    return this.plane.memory.strokes.flatMap(({ points }) => points);
  }

  /* All strokes without an answer go with each event, since Streamlit keeps only the last of two quick events. */
  parcel() {
    return {
      points: this.waiting(),
      strokes: this.plane.memory.strokes.map(({ seq, points }) => [seq, points.length]),
    };
  }

  /* A message has answered the events up to a number, and its base is on display: forget the strokes that it knows. */
  settle(answers) {
    const { memory, layers } = this.plane;
    const left = memory.strokes.filter(({ seq }) => seq > answers);
    if (left.length === memory.strokes.length) return;
    memory.strokes = left;
    layers.setSprayed([...this.waiting(), ...(this.stroke?.points ?? [])]);
  }

  /* The brush at pixels [left, top] of the stage, or gone (null). */
  show(at) {
    const inside = at && this.plane.layers.contains(...at);
    this.plane.layers.setRing(inside ? at : null, SPREAD * CUT);
    this.plane.readout.textContent = inside ? this.plane.describe(this.plane.layers.toData(...at)) : "";
  }
}

/* A number with nine digits, more than a pixel needs: half the bytes. */
function short(number) {
  return Number(number.toPrecision(9));
}

/* Normal noise [x, y] in pixels, cut at the edge of the brush. */
function noise() {
  const inside = 1 - Math.exp((-CUT * CUT) / 2); // the share of a normal plane within CUT
  const radius = SPREAD * Math.sqrt(-2 * Math.log(1 - inside * Math.random()));
  const angle = 2 * Math.PI * Math.random();
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
}
