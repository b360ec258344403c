import { describe, expect, it } from 'vitest';
import { localRegression, type RegressionPoint } from './interpolation.js';

const grid = (at: (x: number, y: number) => number): RegressionPoint[] =>
  [0, 1, 2, 3].flatMap((x) => [0, 1, 2, 3].map((y) => ({ position: [x, y], value: at(x, y) })));

describe('localRegression', () => {
  it('has the values of the points', () => {
    const points = grid((x, y) => Math.sin(3 * x) + y ** 2);
    for (const { position, value } of points) expect(localRegression(points, position)).toBeCloseTo(value, 4);
  });

  it('follows a plane between the points, where a weighted mean would be pulled aside', () => {
    const points = grid((x, y) => 2 * x - y).filter(({ position: [x, y] }) => x! + y! < 5);
    expect(localRegression(points, [2.4, 0.3])).toBeCloseTo(4.5, 1);
    expect(localRegression(points, [0.5, 2.8])).toBeCloseTo(-1.8, 1);
  });

  it('does not leave the range of the values', () => {
    const points = grid((x) => x);
    expect(localRegression(points, [9, 1])).toBe(3);
    expect(localRegression(points, [-9, 1])).toBe(0);
  });

  it('needs no more than one point', () => {
    expect(localRegression([{ position: [1, 1, 1], value: 7 }], [5, 0, 2])).toBe(7);
  });
});
