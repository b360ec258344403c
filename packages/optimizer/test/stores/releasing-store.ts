import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { Tensor } from '@mtl/kernels';
import { type ParameterStore, type StoreKind, type StoreOptions, Zero1Store } from '../../src/index.js';

/**
 * A store that keeps only the values that this rank owns, as fully sharded parameters (ZeRO-3) do, but saves
 * no memory: other values are gathered when a unit is acquired, and are NaN when no acquired unit has them.
 */
class ReleasingStore extends Zero1Store {
  readonly #numUses = new Map<Parameter, number>();

  constructor(parameters: readonly Parameter[], options: StoreOptions) {
    super(parameters, options);
    for (const unit of options.units ?? []) unit.keptBy(this);
  }

  override initialize(seed: number): void {
    super.initialize(seed);
    for (const { parameter } of this.ranges) this.#poison(parameter);
  }

  override publish(): void {}

  override refresh(): void {
    super.refresh();
    for (const { parameter } of this.ranges) this.#poison(parameter);
  }

  override acquire({ parameters }: ParameterUnit): void {
    this.buckets.forEach((bucket, index) => {
      const used = bucket.ranges
        .map(({ parameter }) => parameter)
        .filter((parameter) => parameters.includes(parameter));
      if (used.length === 0) return;
      using output = this.model(bucket);
      using input = this.model(this.counted[index]!);
      this.group?.allGather({ output, input }).wait();
      for (const parameter of used) {
        this.#numUses.set(parameter, (this.#numUses.get(parameter) ?? 0) + 1);
        parameter.deferData(undefined);
      }
      // parameters of other units that were gathered in the same bucket
      for (const { parameter } of bucket.ranges) if (!this.#isUsed(parameter)) this.#poison(parameter);
    });
  }

  override release({ parameters }: ParameterUnit): void {
    for (const parameter of parameters) {
      if (!this.ranges.some((range) => range.parameter === parameter)) continue;
      this.#numUses.set(parameter, this.#numUses.get(parameter)! - 1);
      if (!this.#isUsed(parameter)) this.#poison(parameter);
    }
  }

  #isUsed(parameter: Parameter): boolean {
    return (this.#numUses.get(parameter) ?? 0) > 0;
  }

  #poison(parameter: Parameter): void {
    const range = this.ranges.find((each) => each.parameter === parameter)!;
    const owned = this.counted.find(({ start, end }) => start < range.end && range.start < end);
    for (const [start, end] of [
      [range.start, Math.min(range.end, owned?.start ?? range.end)],
      [Math.max(range.start, owned?.end ?? range.end), range.end],
    ] as const) {
      if (start < end) fillWithNaN(this.model({ start, end }));
    }
    parameter.deferData(() => {
      throw new Error(`${parameter.name} is read outside of its units`);
    });
  }
}

function fillWithNaN(tensor: Tensor): void {
  using values = tensor;
  values.write(new Uint8Array(values.bytes).fill(0xff));
}

export const releasing: StoreKind = {
  releasesValues: true,
  create: (parameters, options): ParameterStore => new ReleasingStore(parameters, options),
};
