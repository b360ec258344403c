import {
  allocateParameters,
  initializeParameter,
  type Parameter,
  type ParameterStorage,
  type ParameterUnit,
} from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { cast, type Device, type DType, splitRemainder, Tensor, trimMemory } from '@mtl/kernels';
import { type KeptValues, plainValues, splitValues } from '../kept-values.js';
import {
  type Bucket,
  type FlatRange,
  flatLayout,
  intersectRanges,
  type ParameterRange,
  takeSlice,
} from './flat-layout.js';
import type { ParameterStore, StoreOptions } from './parameter-store.js';
import { ReductionQueue } from './reduction-queue.js';

const defaultBucketBytes = 16 * 1024 * 1024;
const bytesPerGradient = Float32Array.BYTES_PER_ELEMENT;

/**
 * One flat buffer for each kind of state, with every parameter a view into it: the optimizer runs over long
 * ranges, and gradients are reduced in contiguous buckets. Order: as the parameters come.
 *
 *   model       the compute dtype
 *   gradients   main gradients, in float32 or bfloat16
 *   master      float32: the values that are trained. In float32 the memory of `model`; otherwise the owned ranges, one
 *               after the other; with remainders only their lower halves, in bytes
 *
 * Frozen parameters have only their values in the compute dtype, outside of the buffers. All values and
 * gradients stay in memory all the time. Subclasses differ in the elements that a rank owns, and in how the
 * ranks send these elements to each other.
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
  /** Buckets in the order in which their gradients become ready. */
  protected readonly buckets: readonly Bucket[];
  readonly #model: Tensor;
  readonly #gradients: Tensor;
  readonly #master: Tensor;
  /** The place at which each owned range begins in the master values. */
  readonly #masterStarts: readonly number[];
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
    let ownedSize = 0;
    this.#masterStarts = this.owned.map(({ start, end }) => {
      const masterStart = dtype === 'float32' ? start : ownedSize;
      ownedSize += end - start;
      return masterStart;
    });
    const shape = [layout.size];
    this.#model = Tensor.zeros({ shape, dtype, device });
    this.#master = dtype === 'float32' ? this.#model.view({ shape }) : allocateMaster(ownedSize, this);
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
    if (this.storesRemainders) {
      throw new UsageError('MTL_OPTIMIZER_STATE', 'master values in float32 of a store with remainders', {
        expected: 'a store without storesRemainders',
        remedy: 'read and write the values with masterValues',
      });
    }
    return this.#master.view({ offset: this.#masterStart(range), shape: [range.end - range.start] });
  }

  remainder(range: FlatRange): Tensor {
    const [offset, size] = [2 * this.#masterStart(range), 2 * (range.end - range.start)];
    return this.#master.view({ offset, shape: [size] });
  }

  masterValues(range: FlatRange): KeptValues {
    const size = range.end - range.start;
    const masterStart = this.#masterStart(range);
    return this.storesRemainders
      ? splitValues(
          { buffer: this.#model, start: range.start, size },
          { remainders: this.#master, remainderStart: masterStart },
        )
      : plainValues({ buffer: this.#master, start: masterStart, size });
  }

  /** Returns the place of the first element of an owned range in the master values. */
  #masterStart(range: FlatRange): number {
    const index = this.owned.findIndex(({ start, end }) => start <= range.start && range.end <= end);
    if (index === -1) {
      throw new UsageError(
        'MTL_GROUP',
        `elements ${range.start} to ${range.end} are not in one range that this rank owns`,
        {
          expected: this.owned.map(({ start, end }) => `${start} to ${end}`).join(', '),
          remedy: 'ask for the parts that listOwnedParts(store, range) gives',
        },
      );
    }
    return this.#masterStarts[index]! + range.start - this.owned[index]!.start;
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
      for (const part of listOwnedParts(this, range)) {
        using input = values.view({ offset: part.start - range.start, shape: [part.end - part.start] });
        this.masterValues(part).write(0, input);
      }
      using model = this.model(range);
      this.#round(values, model);
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
    if (this.dtype === 'float32' || this.storesRemainders) return;
    for (const range of this.owned) {
      using input = this.master(range);
      using output = this.model(range);
      cast({ output, input });
    }
  }

  /** Does nothing: all values are present. */
  acquire(_: ParameterUnit): void {}

  /** Does nothing: all values stay. */
  release(_: ParameterUnit): void {}

  dispose(): void {
    for (const tensor of [...this.#views, this.#master, this.#model, this.#gradients]) tensor.dispose();
    this.#frozenStorage.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  abstract shareGradients(parameters: readonly Parameter[]): readonly Work[];
  abstract publish(index: number): void;
  abstract waitForValues(): void;
  /**
   * Starts to sum a bucket's gradients over the group: the sums of all its elements, or of this rank's slice.
   */
  protected abstract startReduction(bucket: Bucket, gradients: Tensor): Work;

  /** Rounds master values as updates round them. */
  #round(input: Tensor, output: Tensor): void {
    if (!this.storesRemainders) {
      cast({ output, input });
      return;
    }
    using remainder = Tensor.empty({ shape: [2 * input.size], dtype: 'uint8', device: this.device });
    splitRemainder({ rounded: output, remainder, input });
  }

  #keep(view: Tensor): Tensor {
    this.#views.push(view);
    return view;
  }
}

/** Allocates the master values of `size` elements, or what the model's values lack of them. */
function allocateMaster(size: number, { device, storesRemainders }: ParameterStore): Tensor {
  return storesRemainders
    ? Tensor.zeros({ shape: [2 * size], dtype: 'uint8', device })
    : Tensor.zeros({ shape: [size], dtype: 'float32', device });
}

/** The parts of a parameter that this rank owns, each in one owned range. */
export function listOwnedParts({ owned }: Pick<ParameterStore, 'owned'>, range: FlatRange): FlatRange[] {
  return owned.map((each) => intersectRanges(each, range)).filter((part) => part !== undefined);
}
