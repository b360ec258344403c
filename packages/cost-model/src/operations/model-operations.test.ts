import { describe, expect, it } from 'vitest';
import { loadProfile } from '../open-profile.js';
import { listedProfile } from '../profiles/profile.js';
import { operationsSeconds, passSeconds } from '../timing/operations-seconds.js';
import { layerBackward, layerForward } from './model-operations.js';
import type { LayerShape } from './model-size.js';
import type { Operation } from './operation.js';

const profile = listedProfile(loadProfile('a100-80gb-megatron'));
/** The layer of table 4 in Korthikanti et al. 2022: 22 B, 8 GPUs. */
const shape: LayerShape = {
  sequenceLength: 2048,
  microBatchSize: 4,
  hiddenSize: 6144,
  numHeads: 64,
  tp: 8,
  sequenceParallel: false,
  recomputation: 'none',
  group: { axis: 'tp', size: 8, perNode: 8 },
  software: profile.software,
};

const listMatmuls = (operations: readonly Operation[]) =>
  operations.flatMap((operation) => {
    if (operation.kind === 'matmul') return [operation];
    return operation.kind === 'hidden-collective' ? [operation.behind] : [];
  });
const countFlops = (operations: readonly Operation[]): number =>
  listMatmuls(operations).reduce(
    (sum, { batch, rows, columns, depth }) => sum + 2 * batch * rows * columns * depth,
    0,
  );
const collectiveBytes = (operations: readonly Operation[]): number =>
  operations.reduce((sum, operation) => {
    const collective =
      operation.kind === 'collective'
        ? operation
        : operation.kind === 'hidden-collective'
          ? operation.collective
          : undefined;
    if (collective === undefined) return sum;
    return sum + collective.bytes * (collective.collective === 'all-reduce' ? 2 : 1);
  }, 0);

describe('layerForward and layerBackward', () => {
  const [n, s, h, t] = [4 * 2048, 2048, 6144, 8];

  it('compute 24 n h h + 4 n s h FLOPs forward, twice that backward, and again what they recompute', () => {
    const forward = (24 * n * h * h + 4 * n * s * h) / t;
    expect(countFlops(layerForward(shape))).toBe(forward);
    expect(countFlops(layerBackward(shape))).toBe(2 * forward);
    expect(countFlops(layerBackward({ ...shape, recomputation: 'full' }))).toBe(3 * forward);
    const selective = countFlops(layerBackward({ ...shape, recomputation: 'selective' }));
    expect(selective).toBe(2 * forward + (4 * n * s * h) / t);
  });

  it('compute 4 h h (1 + g/a) + 6 h F FLOPs of a token in a block of Llama, and attention', () => {
    const llama = { ...shape, block: 'llama', numQueryGroups: 8, ffnHiddenSize: 16_384 } as const;
    const linear = 4 * h * h * (1 + 8 / 64) + 6 * h * 16_384;
    const forward = (n * (linear + 4 * s * h)) / t;
    expect(countFlops(layerForward(llama))).toBe(forward);
    expect(countFlops(layerBackward(llama))).toBe(2 * forward);
    const names = layerForward(llama).flatMap((operation) => ('name' in operation ? [operation.name] : []));
    expect(names).toContain('rotary');
    expect(names).toContain('SwiGLU');
    expect(names).not.toContain('bias of QKV');
  });

  it('send as much with sequence parallelism, and one more gather for each of two matmuls of backward', () => {
    const sequence = { ...shape, sequenceParallel: true };
    const bytes = 2 * n * h;
    expect(collectiveBytes(layerForward(shape))).toBe(4 * bytes);
    expect(collectiveBytes(layerForward(sequence))).toBe(4 * bytes);
    expect(collectiveBytes(layerBackward(shape))).toBe(4 * bytes);
    expect(collectiveBytes(layerBackward(sequence))).toBe(6 * bytes);
  });

  it('recompute every second matmul of a block of Llama, but no attention, where the program does that', () => {
    const software = { ...profile.software, selectiveRecomputation: 'alternate-matmuls' } as const;
    const sizes = { block: 'llama', numQueryGroups: 8, ffnHiddenSize: 16_384, software } as const;
    const llama = { ...shape, ...sizes, recomputation: 'selective' } as const;
    // the matmuls for the keys, for the output projection, and for either gate or up are computed again
    const again = (2 * n * h * (h * (8 / 64) + h + 16_384)) / t;
    const backward = countFlops(layerBackward({ ...llama, recomputation: 'none' }));
    expect(countFlops(layerBackward(llama))).toBe(backward + again);
  });

  it('moves the elements of norm, rotation and SwiGLU once for each kernel where nothing is fused', () => {
    const software = { ...profile.software, fusesKernels: false };
    const apart = { ...shape, block: 'llama', numQueryGroups: 64, ffnHiddenSize: 16_384, software } as const;
    const bytes = (of: LayerShape): number =>
      layerForward(of).reduce(
        (sum, each) => (each.kind === 'kernel' && each.time === 'kernels' ? sum + each.bytes : sum),
        0,
      );
    // per element, two norms need 36 bytes instead of 4, a rotation of queries and keys 20 instead of 4,
    // SwiGLU 10 instead of 6, and dropout of two residual connections 5 + 6 instead of 7
    const more = 2 * 32 * n * h + (16 * 2 * n * h) / t + (4 * n * 16_384) / t + 2 * 4 * n * h;
    expect(bytes(apart) - bytes({ ...apart, software: profile.software })).toBe(more);
  });

  it('gather no input again for weight gradients where the program keeps it', () => {
    const software = { ...profile.software, keepsGatheredInputs: true };
    const sequence = { ...shape, sequenceParallel: true };
    expect(collectiveBytes(layerBackward({ ...sequence, software }))).toBe(
      collectiveBytes(layerBackward(sequence)) - 2 * 2 * n * h,
    );
  });

  it('has no collectives on one rank', () => {
    const alone = { ...shape, tp: 1, group: { ...shape.group, size: 1 } };
    expect(collectiveBytes([...layerForward(alone), ...layerBackward(alone)])).toBe(0);
  });

  it.each([
    ['baseline', false, 'none', 7.7, 11.9],
    ['sequence', true, 'none', 7.2, 11.8],
    ['full', false, 'full', 7.7, 19.5],
    ['selective', false, 'selective', 7.7, 13.2],
    ['selective and sequence', true, 'selective', 7.2, 13.1],
  ] as const)(
    'takes the time of table 4 within 8 %%: %s',
    (_, sequenceParallel, recomputation, forward, backward) => {
      const layer = { ...shape, sequenceParallel, recomputation };
      const ms = (operations: readonly Operation[]) =>
        1000 * passSeconds(operationsSeconds(operations, profile));
      expect(Math.abs(ms(layerForward(layer)) / forward - 1)).toBeLessThan(0.08);
      expect(Math.abs(ms(layerBackward(layer)) / backward - 1)).toBeLessThan(0.08);
    },
  );
});
