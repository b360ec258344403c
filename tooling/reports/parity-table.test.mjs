import { describe, expect, it } from 'vitest';
import { parityTables } from './parity-table.mjs';

const result = (sizes, traits, precision, loss, changes = {}) => ({
  name: `${precision} ${loss}`,
  sizes,
  traits,
  precision,
  loss,
  isGood: true,
  gradientNorm: 2 * loss,
  gradients: { name: 'a weight', difference: 3 * loss },
  ...changes,
});

describe('parityTables', () => {
  it('has the largest differences by mesh and by schedule', () => {
    const tables = parityTables([
      result({ tp: 2 }, ['sequence parallel'], 'fp32', 9e-9),
      result({ pp: 2 }, ['zb-v'], 'fp32', 1e-8),
      result({ pp: 2 }, ['zb-v', 'full recomputation'], 'bf16', 1e-4),
      result({ pp: 2 }, ['balanced layers'], 'fp32', 2e-8),
      result({ tp: 2, pp: 2 }, ['zb-v'], 'fp32', 3e-8),
      result({}, [], 'fp32', 0),
    ]);
    const rows = (text) => text.split('\n').map((line) => line.slice(2, -2).split(' | '));
    const [meshes, schedules] = tables.split('\n\n').map(rows);
    expect(meshes[0].join()).toBe(
      'mesh,layouts,fp32 loss,fp32 norm,fp32 gradients,bf16 loss,bf16 norm,bf16 gradients',
    );
    expect(meshes.slice(2).map((cells) => cells.join())).toEqual([
      'tp 2,1,9.0e-9,1.8e-8,2.7e-8,,,',
      'pp 2,3,2.0e-8,4.0e-8,6.0e-8,1.0e-4,2.0e-4,3.0e-4',
      'tp 2 x pp 2,1,3.0e-8,6.0e-8,9.0e-8,,,',
      'one process,1,0,0,0,,,',
    ]);
    expect(schedules.slice(2).map((cells) => cells.join())).toEqual([
      'zb-v,3,3.0e-8,6.0e-8,9.0e-8,1.0e-4,2.0e-4,3.0e-4',
      '1f1b,1,2.0e-8,4.0e-8,6.0e-8,,,',
    ]);
  });

  it('makes no report of what is out of bounds', () => {
    expect(() => parityTables([result({ pp: 2 }, [], 'fp32', 1, { isGood: false })])).toThrow(
      'out of bounds: fp32 1',
    );
  });
});
