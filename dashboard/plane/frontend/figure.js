/* A plain plotly figure from Python, drawn by the plane's plotly.js in the colors of the page. Zoom and hidden lines are
   kept over redraws. Lines without a color take that of the text; arrays arrive as float32 blobs. */

import { loading } from "./plot.js";

const SMALL = 300; // pixels of height

export class Figure {
  constructor(parent) {
    this.node = document.createElement("div");
    this.node.className = "plane-figure";
    this.node.dataset.testid = "figure";
    parent.append(this.node);
    this.work = Promise.resolve();
    this.message = null;
    // plotly hears only of the window's size; the sidebar's comes and goes without it
    this.width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      const before = this.width;
      this.width = Math.round(contentRect.width);
      if (before && this.width && before !== this.width) loading.then((plotly) => plotly.Plots.resize(this.node));
    }).observe(this.node);
  }

  async receive(message) {
    this.message = message;
    await this.draw();
  }

  async recolor() {
    if (this.message) await this.draw();
  }

  async draw() {
    this.node.style.minHeight = `${this.message.figure.layout.height}px`; // no jump when plotly.js arrives
    const plotly = await loading;
    const { color, fontFamily } = getComputedStyle(this.node);
    const { figure, arrays } = this.message;
    const data = figure.data.map((trace) => ({
      ...trace,
      x: arrays[trace.x].values,
      y: arrays[trace.y].values,
      ...(trace.line && { line: { ...trace.line, color: trace.line.color ?? color } }),
      ...(trace.marker && { marker: { ...trace.marker, color: trace.marker.color ?? color } }),
    }));
    const layout = { ...figure.layout, autosize: true, uirevision: "kept", font: { color, family: fontFamily, size: 13 } };
    const small = layout.height < SMALL; // the mode bar would hide what it is for
    await plotly.react(this.node, data, layout, { displaylogo: false, responsive: true, displayModeBar: small ? false : "hover" });
    this.node.dataset.drawn = String(Number(this.node.dataset.drawn ?? 0) + 1);
  }

  fail(error) {
    console.error(error);
    this.node.textContent = `This figure could not be drawn: ${error.message}`;
  }
}
