import { Parameter } from '@mtl/autograd';
import { describe, expect, it } from 'vitest';
import { describeParameterGroup } from './optimizer.js';

const initialization = { kind: 'zeros' } as const;

describe('describeParameterGroup', () => {
  it('gives the fans of the whole matrix, not of the shard', () => {
    const slices = [
      { start: 0, end: 2 },
      { start: 0, end: 3 },
      { start: 0, end: 5 },
    ];
    const weight = new Parameter({ name: 'w', globalShape: [4, 3, 5], slices, initialization });
    expect(describeParameterGroup(weight)).toEqual({ decays: true, kind: 'matrix', fanOut: 12, fanIn: 5 });
  });

  it('takes a bias for a vector, whatever its number of dimensions', () => {
    const vector = new Parameter({ name: 'b', globalShape: [6], initialization });
    const folded = new Parameter({ name: 'b', globalShape: [2, 3], initialization, decays: false });
    for (const bias of [vector, folded]) {
      expect(describeParameterGroup(bias)).toEqual({ decays: false, kind: 'vector', fanOut: 6, fanIn: 1 });
    }
  });
});
