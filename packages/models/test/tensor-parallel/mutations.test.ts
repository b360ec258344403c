import { beforeAll, describe, expect, it } from 'vitest';
import { distance, runSharded, runWhole } from './compare-with-one-process.js';
import type { ShardedStepOptions, ShardedStepResult } from './ranks/sharded-gpt.js';

const size = 2;

/** Returns whether the tolerances of tensor-parallel.test.ts notice these distances. */
function isNoticed(distances: { loss: number; gradient: number }): boolean {
  // NaN counts as noticed
  return !(distances.loss <= 2e-6 && distances.gradient <= 1e-5);
}

describe.each([false, true])('mistakes are noticed, sequence parallelism %s', (sequenceParallel) => {
  // embedding, layers, head, loss: see the trace in tensor-parallel.test.ts
  const numOperations = sequenceParallel ? 26 : 12;
  const faults = (['drop', 'forget'] as const).flatMap((kind) =>
    Array.from({ length: numOperations }, (_, index) => ({ kind, index })),
  );
  const shifts: ShardedStepOptions[] = [
    { sequenceParallel, shift: 'heads' },
    ...(sequenceParallel ? [{ sequenceParallel, shift: 'positions', positions: false } as const] : []),
  ];
  let none: ShardedStepResult[][];
  let faulty: ShardedStepResult[][];
  let shifted: ShardedStepResult[][];

  beforeAll(async () => {
    const right: ShardedStepOptions[] = [{ sequenceParallel }, { sequenceParallel, positions: false }];
    const wrong = faults.map((fault) => ({ sequenceParallel, fault }));
    const all = await runSharded(size, [...right, ...wrong, ...shifts]);
    none = all.slice(0, 2);
    faulty = all.slice(2, 2 + wrong.length);
    shifted = all.slice(2 + wrong.length);
  });

  it('without a mistake nothing is noticed', () => {
    expect(isNoticed(distance(none[0]!, runWhole({})))).toBe(false);
    expect(isNoticed(distance(none[1]!, runWhole({ positions: false })))).toBe(false);
    expect(none[0]![0]!.trace.filter(({ kind }) => kind === 'start').length).toBe(numOperations);
  });

  it('each operation left out, and each wait forgotten', () => {
    const whole = runWhole({});
    const unnoticed = faults.filter((_, index) => {
      try {
        return !isNoticed(distance(faulty[index]!, whole));
      } catch {
        return false; // copies that should be the same differ
      }
    });
    expect(unnoticed).toEqual([]);
  });

  it('masks of another rank', () => {
    shifts.forEach((options, index) => {
      expect(isNoticed(distance(shifted[index]!, runWhole(options))), options.shift).toBe(true);
    });
  });

  it('each gradient that is a part and is not summed', () => {
    const whole = runWhole({});
    const partial = none[0]![0]!.gradients.filter(({ isPartial }) => isPartial).map(({ name }) => name);
    // two layers of two norms and two row-parallel biases, the final norm, positions
    expect(partial.length).toBe(sequenceParallel ? 2 * 6 + 2 + 1 : 0);
    for (const unsummed of partial) {
      expect(isNoticed(distance(none[0]!, whole, { unsummed })), unsummed).toBe(true);
    }
  });
});
