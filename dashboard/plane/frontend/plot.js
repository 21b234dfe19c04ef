/* Plotly's part of the plane: the density as a heatmap, the axes, zoom and pan. It is drawn once per base picture and
   never touched by a click; points, paths and handles lie on layers above it. */

const GRAY = "rgba(128, 128, 128, 0.8)";
const FRAME = "rgba(128, 128, 128, 0.35)";
const LINES = "rgba(128, 128, 128, 0.18)"; // the grid, where there is no heatmap
const DEPTH = 10; // nats below the peak at which the heatmap fades out
const MARGIN = { l: 46, r: 10, t: 32, b: 24 }; // l + r = t + b: a square picture has a square plot
const TITLE = 20; // pixels for the axis titles, left and below
const LONG = 48; // characters of an axis title that are shown

/* plotly.min.js is a script, not a module: it puts itself on window, as Plotly and as moduleName, from where it is
   taken away again. Streamlit's own charts may have put another Plotly there, which stays. */
async function loadPlotly() {
  const before = window.Plotly;
  await import(new URL("plotly.min.js", import.meta.url).href);
  const plotly = window.moduleName;
  delete window.moduleName;
  if (window.Plotly === plotly) {
    if (before) window.Plotly = before;
    else delete window.Plotly;
  }
  return plotly;
}
export const loading = loadPlotly();

export class Plot {
  /* onMove() is called after every change of the axes, onSave(format) when the user wants the picture as a file. */
  constructor(node, onMove, onSave) {
    this.node = node;
    this.onMove = onMove;
    this.onSave = onSave;
    this.base = null;
  }

  /* Draw the base picture (grid may be missing), zoomed to the given ranges or, where they are null, as a whole. */
  async show(base, grid, ranges) {
    const plotly = await loading;
    const fresh = this.base === null;
    this.base = base;
    const data = grid ? [heatmap(base, grid)] : [];
    await plotly.react(this.node, data, this.layout(ranges ?? square(base.bounds), base.axes, !grid), {
      displaylogo: false,
      typesetMath: false,
      displayModeBar: true,
      doubleClick: false, // two quick clicks set two endpoints
      scrollZoom: true,
      modeBarButtons: [["pan2d", "zoom2d"], ["zoomIn2d", "zoomOut2d", this.wholeButton(plotly)], saveButtons(plotly, this.onSave)],
    });
    if (fresh) {
      for (const event of ["plotly_relayouting", "plotly_relayout", "plotly_afterplot"]) {
        this.node.on(event, this.onMove);
      }
      new ResizeObserver(() => this.resize(plotly)).observe(this.node);
    }
    this.onMove();
  }

  layout([x0, x1, y0, y1], titles, showgrid) {
    const axis = {
      type: "linear", showgrid, gridcolor: LINES, zeroline: false, ticks: "outside", ticklen: 4, nticks: 8, tickcolor: FRAME,
      showline: true, mirror: true, linecolor: FRAME, linewidth: 1,
    };
    return {
      width: this.node.clientWidth,
      height: this.node.clientHeight,
      margin: widened(MARGIN, titles),
      dragmode: "pan",
      hovermode: false,
      paper_bgcolor: "rgba(0, 0, 0, 0)",
      plot_bgcolor: "rgba(0, 0, 0, 0)",
      modebar: { bgcolor: "rgba(0, 0, 0, 0)", color: GRAY, activecolor: "rgb(128, 128, 128)" },
      font: { size: 12 },
      xaxis: { ...axis, range: [x0, x1], title: { text: plain(titles[0]), standoff: 6 } },
      yaxis: { ...axis, range: [y0, y1], title: { text: plain(titles[1]), standoff: 6 }, scaleanchor: "x" },
    };
  }

  resize(plotly) {
    const { clientWidth: width, clientHeight: height } = this.node;
    const old = this.node._fullLayout;
    if (width && old && (width !== old.width || height !== old.height)) plotly.relayout(this.node, { width, height });
  }

  /* The plot area in pixels and the axes' ranges: how data coordinates become pixels of this node. */
  frame() {
    const { xaxis, yaxis } = this.node._fullLayout;
    return {
      left: xaxis._offset, top: yaxis._offset, width: xaxis._length, height: yaxis._length,
      x0: xaxis.range[0], x1: xaxis.range[1], y0: yaxis.range[0], y1: yaxis.range[1],
    };
  }

  /* The ranges [x0, x1, y0, y1] the user has zoomed to, or null while the whole picture is shown. */
  zoom() {
    const { x0, x1, y0, y1 } = this.frame();
    const ranges = [x0, x1, y0, y1];
    const whole = square(this.base.bounds);
    const slack = 1e-6 * (whole[1] - whole[0]);
    return ranges.every((value, k) => Math.abs(value - whole[k]) < slack) ? null : ranges;
  }

  wholeButton(plotly) {
    const click = () => {
      const [x0, x1, y0, y1] = square(this.base.bounds);
      plotly.relayout(this.node, { "xaxis.range": [x0, x1], "yaxis.range": [y0, y1] });
    };
    return { name: "whole", title: "Show everything", icon: plotly.Icons.home, click };
  }

  /* Save the picture as it is seen: the base, then the given traces, in the given text and page colors. */
  async save(format, traces, name, textColor, pageColor) {
    const plotly = await loading;
    const { layout, data } = this.node;
    const size = format === "svg" ? 800 : 1200;
    await plotly.downloadImage(
      {
        data: [...data, ...traces],
        layout: {
          ...layout, width: size, height: size, showlegend: true,
          paper_bgcolor: pageColor, font: { size: 14, color: textColor },
          margin: widened({ l: 50, r: 10, t: 50, b: 30 }, this.base.axes),
          legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, bgcolor: "rgba(0, 0, 0, 0)" },
        },
      },
      { format, width: size, height: size, filename: name },
    );
  }
}

function saveButtons(plotly, onSave) {
  const arrow = { width: 24, height: 24, path: "M11 3h2v9h4l-5 6-5-6h4zM4 20h16v2H4z" };
  return [
    { name: "save-png", title: "Save as PNG", icon: plotly.Icons.camera, click: () => onSave("png") },
    { name: "save-svg", title: "Save as SVG", icon: arrow, click: () => onSave("svg") },
  ];
}

/* Text as plotly shows it literally: no tags, entities, formulas or templates. */
export function plain(text) {
  const short = text.length > LONG ? `${text.slice(0, LONG - 1)}…` : text;
  return short.replace(/[&<>$%"'{}]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function widened(margin, titles) {
  const room = titles.some(Boolean) ? TITLE : 0;
  return { ...margin, l: margin.l + room, b: margin.b + room };
}

/* The smallest square around the bounds, so that the plot is filled with equal axes. */
function square([x0, x1, y0, y1]) {
  const half = Math.max(x1 - x0, y1 - y0) / 2;
  const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
  return [x - half, x + half, y - half, y + half];
}

/* One hue that fades into the page where the density is low, so that it needs no second scale for the dark. */
function heatmap(base, { values, shape: [rows, columns] }) {
  const [x0, x1, y0, y1] = base.bounds;
  const z = [];
  let peak = -Infinity;
  for (let row = 0; row < rows; row++) z.push(values.subarray(row * columns, (row + 1) * columns));
  for (const value of values) if (value > peak) peak = value;
  return {
    type: "heatmap", z,
    x0, dx: (x1 - x0) / (columns - 1), y0, dy: (y1 - y0) / (rows - 1),
    zmin: peak - DEPTH, zmax: peak, zsmooth: "fast", showscale: false, hoverinfo: "skip",
    colorscale: [[0, "rgba(100, 116, 150, 0)"], [0.5, "rgba(100, 116, 150, 0.14)"], [1, "rgba(100, 116, 150, 0.62)"]],
  };
}
