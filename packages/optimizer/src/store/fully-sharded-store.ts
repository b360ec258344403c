import {
  allocateParameters,
  initializeParameter,
  type Parameter,
  type ParameterStorage,
  type ParameterUnit,
} from '@mtl/autograd';
import { type ProcessGroup, SingleProcessGroup } from '@mtl/comm';
import { type Device, type DType, Tensor, trimMemory } from '@mtl/kernels';
import { type KeptValues, plainValues } from '../kept-values.js';
import { type FlatRange, intersectRanges, type ParameterRange, takeSlice } from './flat-layout.js';
import { writeOwnedParts } from './flat-store.js';
import { OwnedValues } from './owned-values.js';
import type { FrozenRange, ListedStore, ParameterStore, StoreOptions } from './parameter-store.js';
import type { SharedGradients } from './stored-gradients.js';
import { UnitGradients } from './unit-gradients.js';
import { type UnitBucket, type UnitLayout, unitLayout, unitsWith } from './unit-layout.js';
import { type ShardedValues, UnitValues } from './unit-values.js';

/**
 * A store in which every rank of the group keeps only its slices of all units, trained or frozen: slices of
 * values, gradients, master values and states (see ZeRO-3, Rajbhandari et al. 2020; fully sharded data
 * parallelism, Zhao et al. 2023). A unit's values are gathered while the unit is used. Its gradients have
 * memory during its backward pass and are reduce-scattered in every micro-batch.
 */
export class FullyShardedStore implements ParameterStore {
  readonly device: Device;
  readonly dtype: DType;
  readonly gradientDtype: 'float32' | 'bfloat16';
  readonly storesRemainders: boolean;
  readonly group: ProcessGroup;
  readonly isDivided = true;
  readonly ranges: readonly ParameterRange[];
  readonly frozen: readonly Parameter[];
  readonly owned: readonly FlatRange[];
  readonly counted: readonly FlatRange[];
  readonly #buckets: readonly UnitBucket[];
  readonly #model: Tensor;
  readonly #ownedValues: OwnedValues;
  readonly #frozenBuckets: readonly UnitBucket[];
  readonly #frozenModel: Tensor;
  /** For each bucket, where this rank's slice begins in `#frozenModel`. */
  readonly #frozenStarts: readonly number[];
  readonly #buffers: ParameterStorage;
  readonly #unitValues: UnitValues;
  readonly #unitGradients: UnitGradients;
  readonly #shards: Tensor[] = [];

  constructor(all: readonly Parameter[], options: StoreOptions & { readonly group: ProcessGroup }) {
    const { device, dtype, group, units = [] } = options;
    this.device = device;
    this.dtype = dtype;
    this.gradientDtype = options.gradientDtype ?? 'float32';
    this.storesRemainders = options.storesRemainders === true && dtype === 'bfloat16';
    this.group = group;
    const ofDomain = unitsWith(all, units);
    const trained = unitLayout(
      all.filter(({ isFrozen }) => !isFrozen),
      { units: ofDomain, group },
    );
    this.frozen = all.filter(({ isFrozen }) => isFrozen);
    const frozen = unitLayout(
      this.frozen.filter(({ isBuffer }) => !isBuffer),
      { units: ofDomain, group },
    );
    this.ranges = trained.ranges;
    this.#buckets = trained.buckets;
    this.owned = trained.slices;
    this.counted = this.owned;
    this.#model = Tensor.zeros({ shape: [trained.sliceSize], dtype, device });
    this.#unitGradients = new UnitGradients(trained, { group, dtype: this.gradientDtype, device });
    this.#ownedValues = new OwnedValues({ ...this, model: { buffer: this.#model, starts: trained.starts } });
    this.#frozenBuckets = frozen.buckets;
    this.#frozenStarts = frozen.starts;
    this.#frozenModel = Tensor.zeros({ shape: [frozen.sliceSize], dtype, device });
    this.#buffers = allocateParameters(
      this.frozen.filter(({ isBuffer }) => isBuffer),
      { device, dtype },
    );
    const values = [
      ...this.#listShards(trained, this.#model),
      ...this.#listShards(frozen, this.#frozenModel),
    ];
    this.#unitValues = new UnitValues(values, { units: ofDomain, group });
    for (const unit of ofDomain) unit.keptBy(this);
  }

  get bytes(): ParameterStore['bytes'] {
    const ofBuffers = this.frozen
      .filter(({ isBuffer }) => isBuffer)
      .reduce((sum, { data }) => sum + data.bytes, 0);
    return {
      parameters: this.#model.bytes + this.#frozenModel.bytes + ofBuffers,
      gradients: this.#unitGradients.bytes,
    };
  }

  master(range: FlatRange): Tensor {
    return this.#ownedValues.master(range);
  }

  remainder(range: FlatRange): Tensor {
    return this.#ownedValues.remainder(range);
  }

  masterValues(range: FlatRange): KeptValues {
    return this.#ownedValues.masterValues(range);
  }

  model(range: FlatRange): Tensor {
    return this.#ownedValues.model(range);
  }

  gradient(range: FlatRange): Tensor {
    return this.#unitGradients.gradient(range);
  }

  /** Returns true except for buffers, which every rank holds completely. */
  dividesFrozen({ isBuffer }: Parameter): boolean {
    return !isBuffer;
  }

  listFrozenParts(parameter: Parameter): readonly FrozenRange[] {
    if (parameter.isBuffer) {
      const { data, size } = parameter;
      return [{ start: 0, end: size, values: plainValues({ buffer: data, start: 0, size }) }];
    }
    const { rank, size } = this.group;
    return this.#frozenBuckets.flatMap((bucket, index) => {
      const range = bucket.ranges.find((each) => each.parameter === parameter);
      const slice = takeSlice(bucket, rank, size);
      const part = range && intersectRanges(slice, range);
      if (part === undefined) return [];
      const start = this.#frozenStarts[index]! + part.start - slice.start;
      const values = plainValues({ buffer: this.#frozenModel, start, size: part.end - part.start });
      return [{ start: part.start - range!.start, end: part.end - range!.start, values }];
    });
  }

  initialize(seed: number): void {
    for (const parameter of this.frozen) this.#initializeFrozen(parameter, seed);
    for (const range of this.ranges) {
      const { parameter } = range;
      using values = Tensor.empty({ shape: [parameter.size], dtype: 'float32', device: this.device });
      initializeParameter(parameter, values, seed);
      writeOwnedParts(this, range, values);
    }
    this.#ownedValues.refreshModel();
    // memory is trimmed here because steps need no block as large as the float32 values of the largest
    // parameter
    trimMemory(this.device);
  }

  onOwnGradients(hook: (gradients: Tensor) => void): void {
    this.#unitGradients.onOwnGradients(hook);
  }

  /** Does nothing: every backward reduces. */
  expectLastBackward(_: number): void {}

  reduce(): void {
    this.#unitGradients.reduce();
  }

  shareGradients(parameters: readonly Parameter[]): SharedGradients {
    return this.#unitGradients.share(parameters);
  }

  clearGradients(): void {
    this.#unitGradients.clear();
  }

  /** Frees the gathered values of the bucket with this index, so the next use gathers the new values. */
  publish(index: number): void {
    this.#unitValues.forget(this.#buckets[index]!);
  }

  refresh(): void {
    this.#ownedValues.refreshModel();
    for (const bucket of [...this.#buckets, ...this.#frozenBuckets]) this.#unitValues.forget(bucket);
  }

  /** Does nothing, because values are gathered when they are used. */
  waitForValues(): void {}

  acquire(unit: ParameterUnit): void {
    this.#unitValues.acquire(unit);
  }

  release(unit: ParameterUnit): void {
    this.#unitGradients.release(unit);
    this.#unitValues.release(unit);
  }

  dispose(): void {
    const own = [this.#unitGradients, this.#unitValues, ...this.#shards, this.#ownedValues];
    for (const part of [...own, this.#model, this.#frozenModel]) part.dispose();
    this.#buffers.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #initializeFrozen(parameter: Parameter, seed: number): void {
    using values = Tensor.empty({ shape: [parameter.size], dtype: 'float32', device: this.device });
    initializeParameter(parameter, values, seed);
    for (const { start, end, values: kept } of this.listFrozenParts(parameter)) {
      using input = values.view({ offset: start, shape: [end - start] });
      kept.write(0, input);
    }
  }

  /** Returns this rank's slices of the buckets. `buffer` holds these slices one after another. */
  #listShards({ buckets, slices, starts }: UnitLayout, buffer: Tensor): ShardedValues[] {
    return buckets.map((bucket, index) => {
      const { start, end } = slices[index]!;
      const shard = buffer.view({ offset: starts[index]!, shape: [end - start] });
      this.#shards.push(shard);
      return { bucket, units: bucket.units, shard };
    });
  }
}

export const fullySharded = {
  shardingStrategy: 'optim_grads_params',
  divides: ['optimizer', 'gradients', 'parameters'],
  releasesValues: true,
  create: (parameters, { group = new SingleProcessGroup('alone'), ...options }) =>
    new FullyShardedStore(parameters, { ...options, group }),
} as const satisfies ListedStore;
