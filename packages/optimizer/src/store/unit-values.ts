import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import type { Bucket } from './flat-layout.js';

/** A bucket's parameter values, sharded over the ranks. */
export interface ShardedValues {
  readonly bucket: Bucket;
  readonly units: readonly ParameterUnit[];
  /** This rank's slice, in the dtype in which the model computes with the parameters. */
  readonly shard: Tensor;
}

/** The largest number of layer units whose values are present at the same time. */
const mostUnitsOfLayers = 2;

/**
 * Gathers the values of units for use: when a unit is acquired, or in advance, while the previous unit is
 * used. The values of a layer unit stay until two other layer units need the memory. The values of a root
 * unit always stay. After an update, values are gathered again (see `forget`).
 */
export class UnitValues {
  readonly #units: readonly ParameterUnit[];
  readonly #values: readonly GatheredBucket[];
  readonly #valuesOfUnit: ReadonlyMap<ParameterUnit, readonly GatheredBucket[]>;
  readonly #used = new Set<ParameterUnit>();
  /** The index of the unit that was acquired last; -1 before the first acquisition. */
  #previous = -1;
  /** 1 while the forward pass acquires units, -1 while the backward pass acquires them. */
  #direction = 1;

  constructor(
    values: readonly ShardedValues[],
    {
      units,
      group,
    }: {
      /** All units, in the order of forward. */
      readonly units: readonly ParameterUnit[];
      readonly group: ProcessGroup;
    },
  ) {
    this.#units = units;
    this.#values = values.map((each) => new GatheredBucket(each, group));
    this.#valuesOfUnit = new Map(
      units.map((unit) => [unit, this.#values.filter((each) => each.units.includes(unit))]),
    );
  }

  /** Makes the values of `unit` present, and starts to gather the unit that is likely to follow. */
  acquire(unit: ParameterUnit): void {
    if (!this.#isPresent(unit)) this.#makeRoom(unit);
    this.#used.add(unit);
    const own = this.#ofUnit(unit);
    for (const values of own) values.startGather();
    for (const values of own) values.show();
    this.#prefetch(this.#unitAfter(this.#units.indexOf(unit)));
  }

  /** Rejects reads of the unit's values from now on, unless another unit in use shares them. */
  release(unit: ParameterUnit): void {
    this.#used.delete(unit);
    for (const values of this.#ofUnit(unit)) {
      if (!values.units.some((each) => this.#used.has(each))) values.hide();
    }
  }

  /** Frees the gathered values of `bucket`. Called when the bucket's slices change. */
  forget(bucket: Bucket): void {
    for (const values of this.#values) if (values.bucket === bucket) values.free();
  }

  /** Frees all gathered values. */
  dispose(): void {
    for (const values of this.#values) values.free();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #ofUnit(unit: ParameterUnit): readonly GatheredBucket[] {
    return this.#valuesOfUnit.get(unit) ?? [];
  }

  /** Returns the layer units whose values have memory. */
  #layersPresent(): readonly ParameterUnit[] {
    return this.#units.filter(
      (unit) => !unit.isRoot && this.#ofUnit(unit).some(({ hasMemory }) => hasMemory),
    );
  }

  /**
   * Frees the values of unused layers until there is room for `unit`, beginning with the layers farthest from
   * `unit`. Returns true if there is room.
   */
  #makeRoom(unit: ParameterUnit): boolean {
    if (unit.isRoot) return true;
    const place = this.#units.indexOf(unit);
    const distance = (each: ParameterUnit): number => Math.abs(this.#units.indexOf(each) - place);
    const present = this.#layersPresent().toSorted((one, other) => distance(one) - distance(other));
    const unused = present.filter((each) => !this.#used.has(each));
    for (let number = present.length; number >= mostUnitsOfLayers && unused.length > 0; number--) {
      for (const values of this.#ofUnit(unused.pop()!)) values.free();
    }
    return this.#layersPresent().length < mostUnitsOfLayers;
  }

  #isPresent(unit: ParameterUnit): boolean {
    return this.#ofUnit(unit).every(({ hasMemory }) => hasMemory);
  }

  #prefetch(unit: ParameterUnit | undefined): void {
    if (unit === undefined || this.#isPresent(unit) || !this.#makeRoom(unit)) return;
    for (const values of this.#ofUnit(unit)) values.startGather();
  }

  /**
   * Returns the unit that is likely to be acquired after the unit at `index`. At the first and at the last
   * unit, the direction reverses.
   */
  #unitAfter(index: number): ParameterUnit | undefined {
    if (index !== this.#previous) this.#direction = index > this.#previous ? 1 : -1;
    this.#previous = index;
    const last = this.#units.length - 1;
    if (index === 0) return this.#units[1];
    return this.#units[index === last ? index - 1 : index + this.#direction];
  }
}

/** A bucket with gathered values, in memory that exists only as long as needed. */
class GatheredBucket {
  readonly bucket: Bucket;
  readonly units: readonly ParameterUnit[];
  readonly #shard: Tensor;
  readonly #group: ProcessGroup;
  #whole: Tensor | undefined;
  #views: readonly Tensor[] = [];
  #work: Work | undefined;

  constructor({ bucket, units, shard }: ShardedValues, group: ProcessGroup) {
    this.bucket = bucket;
    this.units = units;
    this.#shard = shard;
    this.#group = group;
    this.hide();
  }

  get hasMemory(): boolean {
    return this.#whole !== undefined;
  }

  /** Starts to gather the values, unless they are present or being gathered. */
  startGather(): void {
    if (this.#whole !== undefined) return;
    const { dtype, device } = this.#shard;
    const { start, end, ranges } = this.bucket;
    const whole = Tensor.empty({ shape: [end - start], dtype, device });
    this.#whole = whole;
    this.#work = this.#group.allGather({ output: whole, input: this.#shard });
    this.#views = ranges.map(({ parameter, start: first }) => {
      const view = whole.view({ offset: first - start, shape: parameter.shape });
      parameter.assignData(view);
      return view;
    });
  }

  /** Waits for the values, and allows reads. */
  show(): void {
    this.#finishGather();
    for (const { parameter } of this.bucket.ranges) parameter.deferData(undefined);
  }

  /** Rejects reads of the values. */
  hide(): void {
    for (const { parameter } of this.bucket.ranges) parameter.deferData(() => refuseRead(parameter));
  }

  /** Frees the memory after a gather in progress, if any, has ended. */
  free(): void {
    this.hide();
    try {
      this.#finishGather();
    } finally {
      for (const tensor of [...this.#views, this.#whole]) tensor?.dispose();
      this.#views = [];
      this.#whole = undefined;
    }
  }

  #finishGather(): void {
    const work = this.#work;
    this.#work = undefined;
    work?.wait();
  }
}

function refuseRead({ name }: Parameter): never {
  throw new UsageError('MTL_UNIT', `${name} is read outside of its units`, {
    expected: 'reads between acquire() and release() of a unit that has the parameter, as in Tape.within',
    remedy: 'read it within its unit, or choose a store that keeps all parameters',
  });
}
