import {
  allocateParameters,
  initializeParameter,
  type Parameter,
  type ParameterStorage,
  type ParameterUnit,
} from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { type Device, type DType, Tensor, trimMemory } from '@mtl/kernels';
import { type KeptValues, plainValues } from '../kept-values.js';
import { FlatGradients } from './flat-gradients.js';
import {
  type Bucket,
  type FlatRange,
  flatLayout,
  intersectRanges,
  type ParameterRange,
  takeSlice,
} from './flat-layout.js';
import { OwnedValues } from './owned-values.js';
import type { FrozenRange, ParameterStore, StoreOptions } from './parameter-store.js';
import type { SharedGradients, StoredGradients } from './stored-gradients.js';
import { UnitGradients } from './unit-gradients.js';
import { unitLayout, unitsWith } from './unit-layout.js';

const defaultBucketBytes = 16 * 1024 * 1024;
const bytesPerGradient = Float32Array.BYTES_PER_ELEMENT;

/** How a flat store's ranks shard its states. */
interface Division {
  /** True if several ranks each own a slice of every bucket. */
  readonly isDivided: boolean;
  /** True if a rank keeps only the gradients of its slices. The default is false. */
  readonly dividesGradients?: boolean;
}

/**
 * Keeps one flat buffer for each kind of state. Parameters are views of a buffer, in their order. The
 * optimizer can thus process long ranges, and gradients are reduced in contiguous buckets.
 *
 *   model       the compute dtype
 *   gradients   main gradients, in float32 or bfloat16, of all elements or of the owned ranges
 *   master      the values that are trained, of the owned ranges (see `OwnedValues`)
 *
 * Frozen parameters have only their values in the compute dtype, outside of the buffers. All values always
 * stay in memory. Subclasses determine which elements a rank owns, and how the ranks send these elements to
 * each other.
 */
export abstract class FlatStore implements ParameterStore {
  readonly device: Device;
  readonly dtype: DType;
  readonly gradientDtype: 'float32' | 'bfloat16';
  readonly storesRemainders: boolean;
  readonly group: ProcessGroup | undefined;
  readonly isDivided: boolean;
  readonly ranges: readonly ParameterRange[];
  readonly frozen: readonly Parameter[];
  readonly owned: readonly FlatRange[];
  readonly counted: readonly FlatRange[];
  /** The buckets in the order in which their gradients become ready. */
  protected readonly buckets: readonly Bucket[];
  readonly #model: Tensor;
  readonly #gradients: StoredGradients;
  readonly #ownedValues: OwnedValues;
  readonly #views: readonly Tensor[];
  readonly #frozenStorage: ParameterStorage;

  protected constructor(
    all: readonly Parameter[],
    options: StoreOptions,
    { isDivided, dividesGradients = false }: Division,
  ) {
    const { device, dtype, group, chunks, bucketBytes = defaultBucketBytes, units = [] } = options;
    const { rank, size } = group ?? { rank: 0, size: 1 };
    this.device = device;
    this.dtype = dtype;
    this.gradientDtype = options.gradientDtype ?? 'float32';
    this.storesRemainders = options.storesRemainders === true && dtype === 'bfloat16';
    this.group = size > 1 ? group : undefined;
    this.isDivided = isDivided && size > 1;
    const trained = all.filter(({ isFrozen }) => !isFrozen);
    this.frozen = all.filter(({ isFrozen }) => isFrozen);
    const byUnits =
      dividesGradients && this.group !== undefined
        ? unitLayout(trained, { units: unitsWith(trained, units), group: this.group })
        : undefined;
    const layout =
      byUnits ??
      flatLayout(trained, {
        bucketSize: size === 1 ? Number.POSITIVE_INFINITY : bucketBytes / bytesPerGradient,
        numSlices: size,
      });
    this.ranges = layout.ranges;
    this.buckets = layout.buckets;
    this.counted = layout.buckets.map((bucket) => takeSlice(bucket, rank, size));
    this.owned = this.isDivided ? this.counted : [{ start: 0, end: layout.size }];
    const shape = [layout.size];
    this.#model = Tensor.zeros({ shape, dtype, device });
    const starts = this.owned.map(({ start }) => start);
    this.#ownedValues = new OwnedValues({ ...this, model: { buffer: this.#model, starts } });
    const ofGradients = { device, dtype: this.gradientDtype, group: this.group };
    this.#gradients =
      byUnits === undefined
        ? new FlatGradients(layout, { ...ofGradients, isDivided: this.isDivided, chunks })
        : new UnitGradients(byUnits, { ...ofGradients, group: this.group! });
    this.#frozenStorage = allocateParameters(this.frozen, { device, dtype });
    this.#views = this.ranges.map(({ parameter, start }) => {
      const view = this.#model.view({ offset: start, shape: parameter.shape });
      parameter.assignData(view);
      return view;
    });
    if (byUnits !== undefined) for (const unit of unitsWith(trained, units)) unit.keptBy(this);
  }

  get bytes(): ParameterStore['bytes'] {
    const ofFrozen = this.frozen.reduce((sum, { data }) => sum + data.bytes, 0);
    return { parameters: this.#model.bytes + ofFrozen, gradients: this.#gradients.bytes };
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

  /** Returns false, because every rank holds complete frozen parameters. */
  dividesFrozen(_: Parameter): boolean {
    return false;
  }

  /** Returns all values. */
  listFrozenParts({ data, size }: Parameter): readonly FrozenRange[] {
    return [{ start: 0, end: size, values: plainValues({ buffer: data, start: 0, size }) }];
  }

  model({ start, end }: FlatRange): Tensor {
    return this.#model.view({ offset: start, shape: [end - start] });
  }

  gradient(range: FlatRange): Tensor {
    return this.#gradients.gradient(range);
  }

  initialize(seed: number): void {
    for (const parameter of this.frozen) initializeParameter(parameter, parameter.data, seed);
    for (const range of this.ranges) {
      const { parameter } = range;
      if (this.dtype === 'float32') {
        initializeParameter(parameter, parameter.data, seed);
        continue;
      }
      using values = Tensor.empty({ shape: [parameter.size], dtype: 'float32', device: this.device });
      initializeParameter(parameter, values, seed);
      writeOwnedParts(this, range, values);
      using model = this.model(range);
      this.#ownedValues.round(values, model);
    }
    // memory is trimmed here because steps need no block as large as the float32 values of the largest
    // parameter
    trimMemory(this.device);
  }

  onOwnGradients(hook: (gradients: Tensor) => void): void {
    this.#gradients.onOwnGradients(hook);
  }

  expectLastBackward(chunk: number): void {
    this.#gradients.expectLastBackward(chunk);
  }

  reduce(): void {
    // values that no forward pass has read since the last step may not have arrived yet
    this.waitForValues();
    this.#gradients.reduce();
  }

  shareGradients(parameters: readonly Parameter[]): SharedGradients {
    return this.#gradients.share(parameters);
  }

  clearGradients(): void {
    this.#gradients.clear();
  }

  refresh(): void {
    this.#ownedValues.refreshModel();
  }

  /** Does nothing: all values are present. */
  acquire(_: ParameterUnit): void {}

  /** Allows the unit's gradients to be reduced. All values stay in memory. */
  release(unit: ParameterUnit): void {
    this.#gradients.release(unit);
  }

  dispose(): void {
    for (const part of [...this.#views, this.#ownedValues, this.#model, this.#gradients]) part.dispose();
    this.#frozenStorage.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  abstract publish(index: number): void;
  abstract waitForValues(): void;
}

/** Returns the slices of a parameter that this rank owns. Each slice is in a single owned range. */
export function listOwnedParts({ owned }: Pick<ParameterStore, 'owned'>, range: FlatRange): FlatRange[] {
  return owned.map((each) => intersectRanges(each, range)).filter((part) => part !== undefined);
}

/** Writes a parameter's float32 values to the master values that this rank owns. */
export function writeOwnedParts(
  store: Pick<ParameterStore, 'owned' | 'masterValues'>,
  range: FlatRange,
  values: Tensor,
): void {
  for (const part of listOwnedParts(store, range)) {
    using input = values.view({ offset: part.start - range.start, shape: [part.end - part.start] });
    store.masterValues(part).write(0, input);
  }
}
