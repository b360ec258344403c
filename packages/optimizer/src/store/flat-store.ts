import {
  allocateParameters,
  initializeParameter,
  type Parameter,
  type ParameterStorage,
  type ParameterUnit,
} from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import { type Device, type DType, Tensor, trimMemory } from '@mtl/kernels';
import { type KeptValues, plainValues } from '../kept-values.js';
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
import { ReductionQueue } from './reduction-queue.js';

const defaultBucketBytes = 16 * 1024 * 1024;
const bytesPerGradient = Float32Array.BYTES_PER_ELEMENT;

/**
 * A flat buffer for each kind of state, in the order of the parameters, which are views of the buffer. The
 * optimizer thus processes long ranges, and gradients are reduced in contiguous buckets.
 *
 *   model       the compute dtype
 *   gradients   main gradients, in float32 or bfloat16
 *   master      the values that are trained, of the owned ranges (`OwnedValues`)
 *
 * Frozen parameters have only values in the compute dtype, outside of the buffers. All values and gradients
 * are always in memory. Subclasses define the elements that a rank owns, and how the ranks communicate these
 * elements.
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
  /** The buckets, in the order in which their gradients become ready. */
  protected readonly buckets: readonly Bucket[];
  readonly #model: Tensor;
  readonly #gradients: Tensor;
  readonly #ownedValues: OwnedValues;
  readonly #views: Tensor[] = [];
  readonly #frozenStorage: ParameterStorage;
  readonly #queue: ReductionQueue | undefined;
  #ownGradientsHook: (gradients: Tensor) => void = () => {};

  /** `isDivided`: whether each of several ranks owns a slice of every bucket. */
  protected constructor(
    all: readonly Parameter[],
    options: StoreOptions,
    { isDivided }: { readonly isDivided: boolean },
  ) {
    const { device, dtype, group, chunks, bucketBytes = defaultBucketBytes } = options;
    const { rank, size } = group ?? { rank: 0, size: 1 };
    this.device = device;
    this.dtype = dtype;
    this.gradientDtype = options.gradientDtype ?? 'float32';
    this.storesRemainders = options.storesRemainders === true && dtype === 'bfloat16';
    this.group = size > 1 ? group : undefined;
    this.isDivided = isDivided && size > 1;
    const trained = all.filter(({ isFrozen }) => !isFrozen);
    this.frozen = all.filter(({ isFrozen }) => isFrozen);
    const layout = flatLayout(trained, {
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
    this.#gradients = Tensor.zeros({ shape, dtype: this.gradientDtype, device });
    this.#frozenStorage = allocateParameters(this.frozen, { device, dtype });
    for (const { parameter, start } of this.ranges) {
      parameter.assignData(this.#keep(this.#model.view({ offset: start, shape: parameter.shape })));
      parameter.assignMainGradient(
        this.#keep(this.#gradients.view({ offset: start, shape: parameter.shape })),
      );
    }
    this.#queue =
      this.group &&
      new ReductionQueue(this.buckets, {
        chunks,
        start: (bucket) => {
          using gradients = this.gradient(bucket);
          this.#ownGradientsHook(gradients);
          return this.startReduction(bucket, gradients);
        },
      });
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

  /** Returns false: every rank holds the frozen parameters completely. */
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

  gradient({ start, end }: FlatRange): Tensor {
    return this.#gradients.view({ offset: start, shape: [end - start] });
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
    // no step needs a block as large as the float32 values of the largest parameter
    trimMemory(this.device);
  }

  onOwnGradients(hook: (gradients: Tensor) => void): void {
    this.#ownGradientsHook = hook;
  }

  expectLastBackward(chunk: number): void {
    this.#queue?.arm(chunk);
  }

  reduce(): void {
    // a parameter that no forward has read since the last step has not been waited for yet
    this.waitForValues();
    for (const { parameter } of this.ranges) parameter.keepGradient();
    if (this.#queue === undefined) this.#ownGradientsHook(this.#gradients);
    else this.#queue.finish();
  }

  clearGradients(): void {
    this.#gradients.zero();
  }

  refresh(): void {
    this.#ownedValues.refreshModel();
  }

  /** Does nothing: all values are present. */
  acquire(_: ParameterUnit): void {}

  /** Does nothing: all values stay. */
  release(_: ParameterUnit): void {}

  dispose(): void {
    for (const part of [...this.#views, this.#ownedValues, this.#model, this.#gradients]) part.dispose();
    this.#frozenStorage.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  abstract shareGradients(parameters: readonly Parameter[]): readonly Work[];
  abstract publish(index: number): void;
  abstract waitForValues(): void;
  /**
   * Starts to sum a bucket's gradients over the group. The result contains the sums for all elements of the
   * bucket, or for this rank's slice.
   */
  protected abstract startReduction(bucket: Bucket, gradients: Tensor): Work;

  #keep(view: Tensor): Tensor {
    this.#views.push(view);
    return view;
  }
}

/** Returns the slices of a parameter that this rank owns. Each is in a single owned range. */
export function listOwnedParts({ owned }: Pick<ParameterStore, 'owned'>, range: FlatRange): FlatRange[] {
  return owned.map((each) => intersectRanges(each, range)).filter((part) => part !== undefined);
}

/** Writes the float32 values of a parameter to the master values that this rank owns. */
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
