/* Steepest descent on a field of distances from A: the shortest path from any point back to A.

   The descent direction is computed once per grid node (central differences, unit length) and interpolated bilinearly
   on the way: only directions matter, so the field's enormous range at large beta does no harm. */

export class Field {
  /* values: (rows * columns) distances, row by row from y0 up; bounds: [x0, x1, y0, y1] of the outer nodes. */
  constructor(values, [rows, columns], bounds) {
    this.rows = rows;
    this.columns = columns;
    this.bounds = bounds;
    this.directions = unitDescent(values, rows, columns, bounds);
  }

  /* The path from `from` to `to` (both [x, y]) as a flat array x, y, x, y, ...; null where the field does not reach. */
  descend(from, to) {
    const [x0, x1, y0, y1] = this.bounds;
    const cellX = (x1 - x0) / (this.columns - 1);
    const cellY = (y1 - y0) / (this.rows - 1);
    const step = 0.7; // cells
    const near = 1.5; // cells: the field is a sharp cone around A, so the last bit is straight
    const goal = [(to[0] - x0) / cellX, (to[1] - y0) / cellY];
    let column = (from[0] - x0) / cellX;
    let row = (from[1] - y0) / cellY;
    const path = [from[0], from[1]];
    for (let count = 0; count < 6 * (this.rows + this.columns); count++) {
      if (Math.hypot(column - goal[0], row - goal[1]) < near) {
        path.push(to[0], to[1]);
        return path;
      }
      const direction = this.directionAt(column, row);
      if (!direction) return null;
      column += step * direction[0];
      row += step * direction[1];
      path.push(x0 + column * cellX, y0 + row * cellY);
    }
    return null;
  }

  /* Bilinear interpolation of the nodes' directions, in cells, scaled back to unit length. */
  directionAt(column, row) {
    const left = Math.floor(column);
    const below = Math.floor(row);
    if (!(left >= 0 && below >= 0 && left < this.columns - 1 && below < this.rows - 1)) return null;
    const u = column - left;
    const v = row - below;
    const d = this.directions;
    const south = 2 * (below * this.columns + left);
    const north = south + 2 * this.columns;
    const dx = (1 - v) * ((1 - u) * d[south] + u * d[south + 2]) + v * ((1 - u) * d[north] + u * d[north + 2]);
    const dy = (1 - v) * ((1 - u) * d[south + 1] + u * d[south + 3]) + v * ((1 - u) * d[north + 1] + u * d[north + 3]);
    const norm = Math.hypot(dx, dy);
    return norm > 1e-3 ? [dx / norm, dy / norm] : null;
  }
}

/* Unit vectors of -gradient at each node, measured in cells; zero where the field is not finite or flat. */
function unitDescent(values, rows, columns, [x0, x1, y0, y1]) {
  const cellX = (x1 - x0) / (columns - 1);
  const cellY = (y1 - y0) / (rows - 1);
  const directions = new Float32Array(2 * rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const node = row * columns + column;
      const west = column > 0 ? node - 1 : node;
      const east = column < columns - 1 ? node + 1 : node;
      const south = row > 0 ? node - columns : node;
      const north = row < rows - 1 ? node + columns : node;
      // the gradient in data units, turned into a step in cells
      const dx = (values[west] - values[east]) / ((east - west) * cellX);
      const dy = (values[south] - values[north]) / (((north - south) / columns) * cellY);
      const norm = Math.hypot(dx / cellX, dy / cellY);
      if (norm > 0 && Number.isFinite(norm)) {
        directions[2 * node] = dx / cellX / norm;
        directions[2 * node + 1] = dy / cellY / norm;
      }
    }
  }
  return directions;
}
