/* Where an endpoint may sit when it can only be put on points of the sample. Points are flat: x, y, x, y, ... */

const CONE = 0.5; // cosine of 60 degrees, the farthest that a step may turn from its arrow

/* The point nearest to a position [x, y]; the position itself where there are no points. */
export function nearest(points, [x, y]) {
  let best = [x, y];
  let least = Infinity;
  for (let k = 0; k < points.length; k += 2) {
    const squared = (points[k] - x) ** 2 + (points[k + 1] - y) ** 2;
    if (squared < least) [best, least] = [[points[k], points[k + 1]], squared];
  }
  return best;
}

/* The nearest other point from a position in the direction of a unit vector, at least `far` away; null for none. */
export function nearestToward(points, position, [dx, dy], far) {
  const [x, y] = nearest(points, position);
  let best = null;
  let least = Infinity;
  for (let k = 0; k < points.length; k += 2) {
    const [across, up] = [points[k] - x, points[k + 1] - y];
    const distance = Math.hypot(across, up);
    if (distance === 0 || distance < far || distance >= least) continue;
    if (across * dx + up * dy >= CONE * distance) [best, least] = [[points[k], points[k + 1]], distance];
  }
  return best;
}
