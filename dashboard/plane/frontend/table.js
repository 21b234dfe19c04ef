/* The method rows beside the plane: one per report, each with the swatch of its path. Hovering a row points at its
   path; clicking it hides or shows the path. */

const SVG = "http://www.w3.org/2000/svg";
const WARNING = "\u26A0\uFE0E"; // in the color of the text, not as an emoji
const QUIET = new Set(["", "OK", "CONVERGED"]); // statuses that need no remark

function element(name, className, parent, text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  parent?.append(node);
  return node;
}

function warningSign(parent) {
  const sign = element("span", "plane-warning", parent);
  sign.setAttribute("role", "img");
  sign.setAttribute("aria-label", "warning");
  sign.hidden = true;
  return sign;
}

export class Table {
  /* onPoint(method or null) while a row is hovered or focused; onToggle(method) when it is clicked. */
  constructor(parent, onPoint, onToggle) {
    this.onPoint = onPoint;
    this.onToggle = onToggle;
    const table = element("table", "plane-table", parent);
    const head = element("tr", "", element("thead", "", table));
    this.titles = ["", "method", "LPR", "longer", "log length", "ms"].map((title) => {
      const cell = element("th", "", head, title);
      cell.scope = "col";
      return cell;
    });
    this.titles[3].title = "how much longer than the reference path, in percent: exp(LPR) - 1";
    this.titles[4].classList.add("plane-wide");
    this.body = element("tbody", "", table);
    this.sentence = element("p", "plane-sentence", parent);
    this.rows = new Map(); // method -> {row, note, ...cells}
  }

  show(reports, styles, lprTitle, sentence, hidden) {
    this.titles[2].textContent = lprTitle;
    this.sentence.textContent = sentence;
    const wanted = [];
    for (const report of reports) {
      if (!this.rows.has(report.method)) this.rows.set(report.method, this.makeRow(report.method));
      const cells = this.rows.get(report.method);
      fill(cells, report, styles[report.method]);
      wanted.push(cells.row, cells.note);
    }
    // rows are only moved when the list has changed, so that the focus stays where it is
    const same = wanted.length === this.body.children.length && wanted.every((node, k) => node === this.body.children[k]);
    if (!same) this.body.replaceChildren(...wanted);
    this.setHidden(hidden);
  }

  makeRow(method) {
    const row = element("tr", "plane-row");
    row.dataset.method = method;
    const line = document.createElementNS(SVG, "line");
    for (const [key, value] of Object.entries({ x1: 1, y1: 6, x2: 35, y2: 6 })) line.setAttribute(key, value);
    const swatch = document.createElementNS(SVG, "svg");
    swatch.setAttribute("class", "plane-swatch");
    swatch.append(line);
    element("td", "", row).append(swatch);
    const second = element("td", "", row);
    const name = element("button", "plane-name", second);
    name.type = "button";
    const sign = warningSign(second);
    const [lpr, longer, logLength, ms] = ["", "", "plane-wide", ""].map((kind) => element("td", kind, row));
    row.addEventListener("pointerenter", () => this.onPoint(method));
    row.addEventListener("pointerleave", () => this.onPoint(null));
    name.addEventListener("focus", () => this.onPoint(method));
    name.addEventListener("blur", () => this.onPoint(null));
    row.addEventListener("click", () => this.onToggle(method));
    const note = element("tr", "plane-note");
    const whole = element("td", "", note);
    whole.colSpan = 6;
    const remarkSign = warningSign(whole);
    const remark = element("span", "", whole);
    return { row, note, line, name, sign, lpr, longer, logLength, ms, remarkSign, remark };
  }

  setHidden(hidden) {
    for (const [method, { row, name }] of this.rows) {
      row.classList.toggle("plane-off", hidden.has(method));
      name.setAttribute("aria-pressed", String(!hidden.has(method)));
      name.title = hidden.has(method) ? "show this path" : "hide this path";
    }
  }

  highlight(method) {
    for (const [name, { row }] of this.rows) row.classList.toggle("plane-pointed", name === method);
  }
}

function fill(cells, report, style) {
  const loading = report.status === "LOADING";
  cells.line.style.stroke = style.color ?? "var(--st-text-color)";
  cells.line.style.strokeDasharray = style.dash.join(" ");
  cells.name.textContent = style.title;
  cells.row.classList.toggle("plane-loading", loading);
  cells.row.title = report.note ?? (QUIET.has(report.status) ? "" : report.status);
  cells.lpr.textContent = loading ? "" : fixed(report.lpr, 3);
  cells.longer.textContent = loading ? "" : longer(report);
  cells.logLength.textContent = loading ? "" : fixed(report.log_length, 2);
  cells.ms.textContent = loading ? "" : milliseconds(report.seconds);
  const remark = QUIET.has(report.status) ? "" : report.note || (loading ? "loading model…" : report.status);
  cells.remark.textContent = remark;
  cells.note.hidden = remark === "";
  warn(cells.sign, report.warning && remark === "");
  warn(cells.remarkSign, report.warning && remark !== "");
  cells.note.classList.toggle("plane-loading", loading);
}

function warn(sign, on) {
  sign.hidden = !on;
  sign.textContent = on ? WARNING : "";
}

export function fixed(value, digits) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
}

function longer({ method, lpr }) {
  if (method === "truth" || lpr === null || lpr === undefined) return "–";
  const ratio = Math.exp(lpr);
  if (ratio >= 10) return ratio < 1e4 ? `×${ratio.toFixed(0)}` : "×10⁴ +";
  const percent = 100 * (ratio - 1);
  return `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(Math.abs(percent) < 9.95 ? 1 : 0)} %`;
}

function milliseconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const ms = 1000 * seconds;
  return ms < 9.95 ? ms.toFixed(1) : ms.toFixed(0);
}
