import { describe, expect, it } from 'vitest';
import { drawLossCurves } from './draw-loss-curves.mjs';
import { runOutcome, smoothed, window } from './run-outcome.mjs';

const constant = (length, loss) => Array.from({ length }, () => loss);

describe('the outcome of a run', () => {
  it('is the mean of its last losses', () => {
    const losses = [...constant(150, 8), ...constant(window / 2, 6), ...constant(window / 2, 4)];
    expect(runOutcome({ losses, numSteps: 200 })).toMatchObject({ isWhole: true, last: 5 });
  });

  it('has the largest climb above what was reached before', () => {
    const losses = [...constant(100, 7), ...constant(100, 5), ...constant(100, 6), ...constant(100, 4)];
    expect(runOutcome({ losses, numSteps: 400 }).rise).toBe(1);
    expect(runOutcome({ losses: constant(400, 5), numSteps: 400 }).rise).toBe(0);
  });

  it.each([
    ['too few steps', constant(199, 5)],
    ['a loss that is not finite', [...constant(199, 5), Number.NaN]],
  ])('is not whole with %s', (_, losses) => {
    expect(runOutcome({ losses, numSteps: 200 }).isWhole).toBe(false);
  });
});

describe('smoothed losses', () => {
  it('stand at the step that they end with', () => {
    const points = smoothed(Array.from({ length: 2 * window }, (_, index) => index + 1));
    // the mean of 1 to n is (n + 1) / 2
    expect(points[0]).toEqual({ step: window, loss: (window + 1) / 2 });
    expect(points.at(-1)).toEqual({ step: 2 * window, loss: window + (window + 1) / 2 });
  });
});

describe('the picture', () => {
  const run = (depth, placement) => ({
    depth,
    placement,
    points: [
      { step: 50, loss: 8 },
      { step: 100, loss: 6 },
    ],
  });

  it('has a panel a depth, in their order, and a curve a run', () => {
    const svg = drawLossCurves([run(12, 'pre'), run(2, 'pre'), run(2, 'post')]);
    expect([...svg.matchAll(/>(\d+) layers</g)].map(([, depth]) => depth)).toEqual(['2', '12']);
    expect([...svg.matchAll(/<path /g)]).toHaveLength(3);
    expect(svg).not.toContain('NaN');
  });
});
