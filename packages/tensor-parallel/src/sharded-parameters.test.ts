import { SingleProcessGroup } from '@mtl/comm';
import { describe, expect, it } from 'vitest';
import {
  columnParallelParameters,
  replicatedParameter,
  rowParallelParameters,
  type TensorParallel,
} from './index.js';

/** Returns the settings of the second of two ranks, whose group must not communicate. */
function second(sequenceParallel: boolean): TensorParallel {
  return { group: Object.assign(new SingleProcessGroup('second'), { rank: 1, size: 2 }), sequenceParallel };
}

const common = { name: 'layer', what: 'heads', standardDeviation: 0.1 };

describe('parameters of sharded layers', () => {
  it('shard the first dimension of a column-parallel weight and bias, which never decays', () => {
    const tensorParallel = second(false);
    const { weight, bias } = columnParallelParameters({
      ...common,
      inputs: 5,
      outputs: [4, 3],
      tensorParallel,
    });
    const rows = { start: 2, end: 4 };
    expect([weight.name, weight.globalShape, weight.slices[0], weight.shape]).toEqual([
      'layer.weight',
      [4, 3, 5],
      rows,
      [2, 3, 5],
    ]);
    expect([bias!.name, bias!.slices[0], bias!.shape, bias!.decays]).toEqual([
      'layer.bias',
      rows,
      [2, 3],
      false,
    ]);
    for (const parameter of [weight, bias!]) expect(parameter.copiedOver).not.toContain('tp');
  });

  it('shard the columns of a row-parallel weight by groups, and replicate its bias', () => {
    const { weight, bias } = rowParallelParameters({
      ...common,
      inputs: { numGroups: 4, groupSize: 3 },
      outputs: 5,
      tensorParallel: second(true),
    });
    expect([weight.globalShape, weight.slices[1], weight.partialOver]).toEqual([
      [5, 12],
      { start: 6, end: 12 },
      [],
    ]);
    expect([bias!.shape, bias!.partialOver, bias!.copiedOver.includes('tp')]).toEqual([[5], ['tp'], true]);
  });

  it('leave biases out', () => {
    const tensorParallel = undefined;
    const options = { ...common, bias: false, tensorParallel };
    const inputs = { numGroups: 4, groupSize: 1 };
    expect(columnParallelParameters({ ...options, inputs: 4, outputs: [4] }).bias).toBeUndefined();
    expect(rowParallelParameters({ ...options, inputs, outputs: 4 }).bias).toBeUndefined();
  });

  it.each([
    [undefined, []],
    [second(false), []],
    [second(true), ['tp']],
  ])(
    'make gradients of replicated ones partial sums under sequence parallelism only',
    (tensorParallel, partialOver) => {
      const initialization = { kind: 'ones' } as const;
      const parameter = replicatedParameter({
        name: 'norm',
        globalShape: [4],
        initialization,
        tensorParallel,
      });
      expect(parameter.partialOver).toEqual(partialOver);
    },
  );
});
