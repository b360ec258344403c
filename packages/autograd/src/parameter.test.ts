import { Tensor } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  allocateParameters,
  initializeParameter,
  Parameter,
  type ParameterOptions,
  siteKey,
} from './index.js';

const normal = { kind: 'normal', standardDeviation: 0.02 } as const;

function initializeValues(parameter: Parameter, seed: number): number[] {
  const target = Tensor.empty({ shape: parameter.shape, dtype: 'float32' });
  initializeParameter(parameter, target, seed);
  const values = target.toArray();
  target.dispose();
  return values;
}

describe('Parameter', () => {
  it('has copies over every axis of its view that it is not sharded over', () => {
    const options = { name: 'w', globalShape: [8, 3], initialization: normal } as const;
    const copies = (given: Partial<ParameterOptions>): readonly string[] =>
      new Parameter({ ...options, ...given }).copiedOver;
    const slices = [
      { start: 0, end: 4 },
      { start: 0, end: 3 },
    ];
    expect(copies({})).toEqual(['tp']);
    expect(copies({ slices })).toEqual([]);
    expect(copies({ slices, placement: { stages: 'ends' } })).toEqual(['pp']);
    // the slices of this rank do not show that the tensor's other half is on a different rank
    expect(copies({ placement: { sharded: { tp: 0 } } })).toEqual([]);
    const ofExperts = { view: 'expert', sharded: { ep: 0 } } as const;
    expect(copies({ slices, placement: ofExperts })).toEqual(['etp']);
  });

  it('refuses a part of a dimension that its placement does not shard', () => {
    const slices = [
      { start: 0, end: 4 },
      { start: 1, end: 3 },
    ];
    const options = { name: 'w', globalShape: [8, 3], initialization: normal, slices } as const;
    expect(() => new Parameter(options)).toThrow(/parameter w holds a part of dimension 1, which/);
    expect(new Parameter({ ...options, placement: { sharded: { tp: 0, cp: 1 } } }).shape).toEqual([4, 2]);
  });

  it('has partial gradients where it is replicated, and rows are sharded or stages have copies', () => {
    const options = { name: 'w', globalShape: [8, 3], initialization: normal } as const;
    const partialOver = (given: Partial<ParameterOptions>): readonly string[] =>
      new Parameter({ ...options, ...given }).partialOver;
    expect(partialOver({})).toEqual([]);
    expect(partialOver({ placement: { rows: ['tp'] } })).toEqual(['tp']);
    // for a sharded parameter, each rank computes the complete gradient of its own slice
    expect(partialOver({ placement: { sharded: { tp: 0 }, rows: ['tp'] } })).toEqual([]);
    // the parameter is a tied embedding, used on the first and the last stage
    expect(partialOver({ placement: { sharded: { tp: 0 }, stages: 'ends' } })).toEqual(['pp']);
    // the gradients of all parameters are summed over cp, dp and edp in any case
    expect(partialOver({ placement: { rows: ['cp', 'dp'] } })).toEqual([]);
    expect(partialOver({ placement: { view: 'expert', rows: ['edp', 'etp'] } })).toEqual(['etp']);
  });

  it('has the shape of its slices and counts as decaying when it is a matrix', () => {
    const slices: Slice[] = [
      { start: 2, end: 4 },
      { start: 0, end: 3 },
    ];
    const weight = new Parameter({ name: 'w', globalShape: [8, 3], slices, initialization: normal });
    expect(weight.shape).toEqual([2, 3]);
    expect(weight.size).toBe(6);
    expect(weight.decays).toBe(true);
    expect(new Parameter({ name: 'b', globalShape: [8], initialization: normal }).decays).toBe(false);
  });

  it('refuses an initialization that there is not', () => {
    const initialization = { kind: 'norml' } as unknown as typeof normal;
    expect(() => new Parameter({ name: 'w', globalShape: [2], initialization })).toThrow(
      expect.objectContaining({ code: 'MTL_INITIALIZATION' }),
    );
  });

  it('takes its storage from outside and refuses one that does not fit', () => {
    const weight = new Parameter({ name: 'w', globalShape: [2, 2], initialization: normal });
    expect(() => weight.data).toThrow(/no storage/);
    const flat = Tensor.zeros({ shape: [10], dtype: 'float32' });
    const view = flat.view({ offset: 4, shape: [2, 2] });
    weight.assignMainGradient(view);
    weight.mainGradient.write(Float32Array.of(1, 2, 3, 4));
    expect(flat.toArray()).toEqual([0, 0, 0, 0, 1, 2, 3, 4, 0, 0]);
    expect(() => weight.assignData(flat)).toThrow(/shape \[10\] for parameter w of shape \[2, 2\]/);
    view.dispose();
    flat.dispose();
  });
});

describe('a parameter whose values are on their way', () => {
  it('waits for them once, at the first read', () => {
    const weight = new Parameter({ name: 'w', globalShape: [2], initialization: normal });
    using values = Tensor.zeros({ shape: [2], dtype: 'float32' });
    weight.assignData(values);
    let waits = 0;
    weight.deferData(() => {
      waits += 1;
      values.write(Float32Array.of(5, 6));
    });
    expect(waits).toBe(0);
    expect(weight.data.toArray()).toEqual([5, 6]);
    expect(weight.data).toBe(values);
    expect(waits).toBe(1);
  });

  it('has no data while it is absent', () => {
    const weight = new Parameter({ name: 'w', globalShape: [2], initialization: normal });
    using values = Tensor.from([1, 2], { shape: [2], dtype: 'float32' });
    weight.assignData(values);
    weight.deferData(() => {
      throw new Error('elsewhere');
    });
    for (const _ of [1, 2]) expect(() => weight.data).toThrow('elsewhere');
    weight.deferData(undefined);
    expect(weight.data).toBe(values);
  });
});

describe('a parameter whose main gradient has memory only during a backward pass', () => {
  it('gets it at the first access, and again after it was taken back', () => {
    const weight = new Parameter({ name: 'w', globalShape: [2], initialization: normal });
    let [numProvided, isRefused] = [0, true];
    const gradients: Tensor[] = [];
    const provide = (): void => {
      if (isRefused) throw new Error('no memory');
      numProvided += 1;
      gradients.push(Tensor.zeros({ shape: [2], dtype: 'float32' }));
      weight.assignMainGradient(gradients.at(-1)!);
    };
    weight.deferMainGradient(provide);
    expect(weight.hasMainGradient).toBe(true);
    expect(() => weight.freeze()).toThrow(expect.objectContaining({ code: 'MTL_FROZEN' }));
    for (const _ of [1, 2]) expect(() => weight.mainGradient).toThrow('no memory');
    isRefused = false;
    expect(weight.mainGradient).toBe(gradients[0]);
    expect(weight.takeMainGradient()).toEqual({ gradient: gradients[0], accumulate: true });
    gradients[0]!.dispose();
    weight.deferMainGradient(provide);
    expect(numProvided).toBe(1);
    expect(weight.takeMainGradient().gradient).toBe(gradients[1]);
    gradients[1]!.dispose();
  });
});

describe('initializeParameter', () => {
  it('initializes a shard along any dimensions as the full tensor', () => {
    const ranges = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), fc.nat(5), fc.nat(5), fc.boolean()), {
      minLength: 1,
      maxLength: 4,
    });
    fc.assert(
      fc.property(ranges, fc.nat(1000), fc.constantFrom('normal', 'uniform'), (dims, seed, kind) => {
        const globalShape = dims.map(([size]) => size);
        const slices = dims.map(([size, one, other, isWhole]): Slice => {
          const [a, b] = [one % size, other % size];
          return isWhole ? { start: 0, end: size } : { start: Math.min(a, b), end: Math.max(a, b) + 1 };
        });
        const axes = ['tp', 'cp', 'dp', 'pp'] as const;
        const sharded = Object.fromEntries(axes.slice(0, dims.length).map((axis, dim) => [axis, dim]));
        const initialization = kind === 'normal' ? normal : ({ kind, bound: 0.1 } as const);
        const options = { name: 'layer.weight', globalShape, initialization };
        const whole = initializeValues(new Parameter(options), seed);
        const shard = initializeValues(new Parameter({ ...options, slices, placement: { sharded } }), seed);
        const expected = whole.filter((_, index) => {
          let rest = index;
          return globalShape
            .map((size, dim) => ({ size, ...slices[dim]! }))
            .reverse()
            .every(({ size, start, end }) => {
              const position = rest % size;
              rest = Math.floor(rest / size);
              return position >= start && position < end;
            });
        });
        expect(shard).toEqual(expected);
      }),
    );
  });

  it('depends on the seed and on the name', () => {
    const first = new Parameter({ name: 'a', globalShape: [4, 4], initialization: normal });
    const second = new Parameter({ name: 'b', globalShape: [4, 4], initialization: normal });
    expect(initializeValues(first, 1)).toEqual(initializeValues(first, 1));
    expect(initializeValues(first, 1)).not.toEqual(initializeValues(first, 2));
    expect(initializeValues(first, 1)).not.toEqual(initializeValues(second, 1));
    expect(siteKey(1, 'a')).not.toEqual(siteKey(1, 'b'));
  });

  it('keeps a buffer frozen and in float32', () => {
    const options = {
      name: 'router.expert_bias',
      globalShape: [4],
      initialization: { kind: 'zeros' },
    } as const;
    const [buffer, other] = [new Parameter({ ...options, isBuffer: true }), new Parameter(options)];
    const storage = allocateParameters([buffer, other], {
      device: 'cpu',
      dtype: 'bfloat16',
      mainGradients: true,
    });
    expect(
      [buffer, other].map(({ isFrozen, hasMainGradient, data }) => [isFrozen, hasMainGradient, data.dtype]),
    ).toEqual([
      [true, false, 'float32'],
      [false, true, 'bfloat16'],
    ]);
    storage.dispose();
  });

  it('writes zeros and ones', () => {
    const options = { name: 'norm', globalShape: [5] };
    expect(initializeValues(new Parameter({ ...options, initialization: { kind: 'ones' } }), 3)).toEqual([
      1, 1, 1, 1, 1,
    ]);
    expect(initializeValues(new Parameter({ ...options, initialization: { kind: 'zeros' } }), 3)).toEqual([
      0, 0, 0, 0, 0,
    ]);
  });
});
