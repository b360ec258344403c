import { Parameter } from '@mtl/autograd';
import type { Work } from '@mtl/comm';
import { CallbackWork } from '@mtl/comm/testing';
import { describe, expect, it } from 'vitest';
import { flatLayout } from './flat-layout.js';
import { ReductionQueue } from './reduction-queue.js';

const done: Work = new CallbackWork();

/**
 * Builds a queue with four parameters, each in its own bucket. `started` lists the buckets whose reduction
 * has started.
 */
function build(chunks?: readonly (readonly string[])[]) {
  const parameters = ['a', 'b', 'c', 'd'].map(
    (name) => new Parameter({ name, globalShape: [128], initialization: { kind: 'zeros' } }),
  );
  const { buckets } = flatLayout(parameters, { bucketSize: 1, numSlices: 2 });
  const started: number[] = [];
  const named = (name: string): Parameter => parameters.find((one) => one.name === name)!;
  const queue = new ReductionQueue(buckets, {
    start: (bucket) => {
      started.push(buckets.indexOf(bucket));
      return done;
    },
    chunks: chunks && new Map(chunks.map((names, chunk) => [chunk, names.map(named)])),
  });
  const [a, b, c, d] = parameters as [Parameter, Parameter, Parameter, Parameter];
  return { queue, started, a, b, c, d };
}

describe('ReductionQueue', () => {
  it('reduces a bucket when its gradients are ready in the last backward, and the rest at the end', () => {
    const { queue, started, a, b, c, d } = build();
    for (const parameter of [d, c, b, a]) parameter.notifyGradientReady();
    expect(started).toEqual([]);
    queue.arm();
    d.notifyGradientReady();
    expect(started).toEqual([0]);
    c.notifyGradientReady();
    expect(started).toEqual([0, 1]);
    queue.finish();
    expect(started).toEqual([0, 1, 2, 3]);
    // the next step begins again, without overlap unless a caller asks for it
    d.notifyGradientReady();
    expect(started.length).toBe(4);
    queue.finish();
    expect(started).toEqual([0, 1, 2, 3, 0, 1, 2, 3]);
  });

  it('starts buckets in their order, whatever the order of gradients', () => {
    const { queue, started, a, b, c, d } = build();
    queue.arm();
    for (const parameter of [b, c, a]) parameter.notifyGradientReady();
    expect(started).toEqual([]);
    d.notifyGradientReady();
    expect(started).toEqual([0, 1, 2, 3]);
  });

  it('waits for the last backward of every chunk that uses a parameter', () => {
    // `a` is a tied embedding, which the first and the last layer use. Both layers are on this rank
    const { queue, started, a, b, c, d } = build([
      ['a', 'b'],
      ['c', 'd', 'a'],
    ]);
    const backward = (chunk: number): void => {
      for (const parameter of chunk === 0 ? [b, a] : [a, d, c]) parameter.notifyGradientReady();
    };
    backward(1);
    queue.arm(1);
    backward(1);
    expect(started).toEqual([0, 1]);
    // an earlier micro-batch of the first chunk
    backward(0);
    expect(started).toEqual([0, 1]);
    queue.arm(0);
    backward(0);
    expect(started).toEqual([0, 1, 2, 3]);
    expect(() => a.notifyGradientReady()).toThrow(/gradient of a was ready twice/);
  });

  it('refuses a gradient that grows after its bucket was reduced', () => {
    const { queue, d } = build();
    queue.arm();
    d.notifyGradientReady();
    expect(() => d.notifyGradientReady()).toThrow(/gradient of d was ready twice/);
  });
});
