/* Pointer and keyboard: clicks on the plot, dragging and arrow keys on the handles, hovering. All of it speaks to the
   Plane in data coordinates. */

const SLACK = 6; // pixels a click may wander
const AGAIN = 350; // ms within which a second click on the same spot is a double click, and ignored
const REST = 200; // ms without an arrow key after which the endpoint counts as placed
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export function followPointer(plane) {
  followClicks(plane);
  followHover(plane);
  plane.layers.handles.forEach((handle, endpoint) => {
    followDrag(plane, handle, endpoint);
    followKeys(plane, handle, endpoint);
  });
}

export function onStage(stage, event) {
  const { left, top } = stage.getBoundingClientRect();
  return [event.clientX - left, event.clientY - top];
}

/* A press and release on the plot area without moving. Plotly covers the page while a button is down, so the release
   is heard on the document. */
function followClicks(plane) {
  let last = { time: -Infinity, at: [0, 0] };
  plane.stage.addEventListener("pointerdown", (down) => {
    if (!down.isPrimary || down.button !== 0 || !down.target.closest(".nsewdrag") || !plane.message) return;
    const from = onStage(plane.stage, down);
    const finish = (up) => {
      if (up.pointerId !== down.pointerId) return;
      document.removeEventListener("pointerup", finish, true);
      document.removeEventListener("pointercancel", finish, true);
      const at = onStage(plane.stage, up);
      const again = up.timeStamp - last.time < AGAIN && distance(at, last.at) < SLACK;
      if (up.type === "pointercancel" || distance(at, from) > SLACK || again) return;
      last = { time: up.timeStamp, at };
      plane.click(plane.snapped(plane.layers.toData(...at)));
    };
    document.addEventListener("pointerup", finish, true);
    document.addEventListener("pointercancel", finish, true);
  });
}

function followDrag(plane, handle, endpoint) {
  let grip = null; // {origin, offset, moved} while dragging
  const end = (keep) => {
    if (!grip) return;
    const { origin, moved } = grip;
    grip = null;
    plane.held = null;
    plane.root.classList.remove("plane-dragging");
    if (keep && moved) return plane.commit("move", endpoint);
    plane.move(endpoint, origin);
    plane.layers.setLive(null);
  };
  handle.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !plane.message) return;
    event.preventDefault();
    event.stopPropagation();
    handle.setPointerCapture(event.pointerId);
    handle.focus({ preventScroll: true });
    const at = onStage(plane.stage, event);
    const center = plane.layers.toPixel(...plane.endpoints[endpoint]);
    grip = { origin: plane.endpoints[endpoint], offset: [center[0] - at[0], center[1] - at[1]], moved: false, from: at };
    plane.held = endpoint;
    plane.root.classList.add("plane-dragging");
  });
  handle.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const at = onStage(plane.stage, event);
    if (!grip.moved && distance(at, grip.from) < 3) return;
    grip.moved = true;
    const to = plane.layers.inside(at[0] + grip.offset[0], at[1] + grip.offset[1]);
    plane.move(endpoint, plane.snapped(plane.layers.toData(...to)));
  });
  handle.addEventListener("pointerup", () => end(true));
  handle.addEventListener("pointercancel", () => end(false));
  handle.addEventListener("keydown", (event) => {
    if (event.key === "Escape") end(false);
  });
}

function followKeys(plane, handle, endpoint) {
  let timer = null;
  const settle = () => {
    if (timer === null) return;
    clearTimeout(timer);
    timer = null;
    plane.held = null;
    plane.commit("move", endpoint);
  };
  handle.addEventListener("keydown", (event) => {
    const arrow = ARROWS[event.key];
    if (!arrow || !plane.message || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const to = plane.next(endpoint, arrow, event.shiftKey);
    if (!to) return; // no point in this direction
    plane.held = endpoint;
    plane.move(endpoint, to);
    clearTimeout(timer);
    timer = setTimeout(settle, REST);
  });
  handle.addEventListener("blur", settle);
}

/* The live geodesic follows the mouse, at most once per frame. */
function followHover(plane) {
  let latest = null;
  let waiting = false;
  const draw = () => {
    if (!waiting) return;
    waiting = false;
    if (plane.held === null && !plane.root.classList.contains("plane-pending")) plane.hover(latest);
  };
  const ask = (at) => {
    latest = at;
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };
  plane.stage.addEventListener("pointermove", (event) => {
    const free = event.pointerType !== "touch" && event.buttons === 0 && event.target.closest(".nsewdrag");
    ask(free ? onStage(plane.stage, event) : null);
  });
  plane.stage.addEventListener("pointerleave", () => {
    ask(null);
    draw(); // at once: the next thing that the mouse enters may be a row
  });
}

function distance([x, y], [u, v]) {
  return Math.hypot(x - u, y - v);
}
