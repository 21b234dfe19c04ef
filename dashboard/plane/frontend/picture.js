/* What the layers show, as plotly traces for a picture that is saved to a file. */

import { MARK } from "./layers.js";
import { plain } from "./plot.js";

const LETTERS = ["A", "B"];

/* The sample, the visible paths over their marks, and the two endpoints; while drawing the sample only. */
export function traces({ layers, message, memory, endpoints }, { color, backgroundColor }) {
  const markers = { type: "scatter", mode: "markers", showlegend: false };
  const points = columns([...layers.points, ...layers.sprayed.flat()]);
  const sample = { ...markers, ...points, marker: { color, size: 3, opacity: 0.4 } };
  if (message.drawing) return [sample];
  const visible = [...layers.paths].filter(([method]) => !memory.hidden.has(method));
  const marks = visible.flatMap(([, { points, marks }]) => marks.map(({ from, to }) => ({
    type: "scatter", mode: "lines", showlegend: false, ...columns(points.subarray(from, to)), opacity: MARK.opacity,
    line: { color: MARK.color, width: MARK.width },
  })));
  const lines = visible.map(([method, { points }]) => {
    const style = message.styles[method];
    const dash = style.dash.map((length) => `${length}px`).join(",") || "solid";
    const line = { color: style.color ?? color, dash, width: 3 };
    return { type: "scatter", mode: "lines", name: plain(style.title), ...columns(points), line };
  });
  const ends = {
    ...markers, ...columns(endpoints.flat()),
    mode: "markers+text", text: LETTERS, marker: { color, size: 22 }, textfont: { color: backgroundColor },
  };
  return [sample, ...marks, ...lines, ends];
}

function columns(flat) {
  const column = (offset) => Array.from(flat).filter((_, k) => k % 2 === offset);
  return { x: column(0), y: column(1) };
}
