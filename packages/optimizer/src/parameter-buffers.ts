import {
  allocateParameters,
  initializeParameter,
  type Parameter,
  type ParameterStorage,
} from '@mtl/autograd';
import { cast, type Device, type DType, Tensor } from '@mtl/kernels';
import {
  type Bucket,
  type FlatRange,
  flatLayout,
  intersectionOf,
  type ParameterRange,
  sliceOf,
} from './flat-layout.js';

/** How data-parallel ranks share gradients and, with a distributed optimizer, the optimizer's state. */
export interface DataParallelSharing {
  /** This process among the data-parallel ranks. */
  readonly rank: number;
  readonly size: number;
  /**
   * Whether each rank holds master values and moments only for its slice of every bucket (Rajbhandari et al.
   * 2020).
   */
  readonly distributed: boolean;
  /** Bytes of float32 gradients that are reduced together. Default 16 MiB. */
  readonly bucketBytes?: number;
}

export interface ParameterBuffersOptions {
  readonly device: Device;
  /** Compute dtype of the model. */
  readonly dtype: DType;
  /** Default: one rank. */
  readonly sharing?: DataParallelSharing | undefined;
}

/** A range of the flat buffers whose master values and optimizer state this rank holds. */
export interface OwnedRange extends FlatRange {
  /** Where the range begins in `master`. */
  readonly masterStart: number;
}

const alone: DataParallelSharing = { rank: 0, size: 1, distributed: false };
const defaultBucketBytes = 16 * 1024 * 1024;

/**
 * One flat buffer for each kind of state, with every parameter a view into it: the optimizer runs over long
 * ranges, and gradients are reduced in contiguous buckets. Order: as the parameters come.
 *
 *   model       the compute dtype
 *   gradients   float32 main gradients
 *   master      float32: the values that are trained. In float32 the memory of `model`; otherwise the owned ranges, one
 *               after the other
 *
 * Frozen parameters have only their values in the compute dtype, outside of the buffers.
 */
export class ParameterBuffers {
  /** Of the parameters that are trained. */
  readonly ranges: readonly ParameterRange[];
  /** Those that are not. */
  readonly frozen: readonly Parameter[];
  /** In the order in which their gradients become ready. */
  readonly buckets: readonly Bucket[];
  /**
   * What this rank holds master values and state of: everything, or with a distributed optimizer a slice per
   * bucket.
   */
  readonly owned: readonly OwnedRange[];
  /**
   * This data-parallel rank's slice of each bucket, distributed or not: together all ranks' cover everything
   * once.
   */
  readonly slices: readonly FlatRange[];
  readonly size: number;
  /** Elements of the owned ranges. */
  readonly ownedSize: number;
  readonly master: Tensor;
  readonly model: Tensor;
  readonly gradients: Tensor;
  readonly sharing: DataParallelSharing;
  readonly #views: Tensor[] = [];
  readonly #frozenStorage: ParameterStorage;

  constructor(all: readonly Parameter[], options: ParameterBuffersOptions) {
    const parameters = all.filter(({ isFrozen }) => !isFrozen);
    this.frozen = all.filter(({ isFrozen }) => isFrozen);
    const { device, dtype, sharing = alone } = options;
    const { rank, size, distributed, bucketBytes = defaultBucketBytes } = sharing;
    this.sharing = sharing;
    const layout = flatLayout(parameters, {
      bucketSize: size === 1 ? Number.POSITIVE_INFINITY : bucketBytes / Float32Array.BYTES_PER_ELEMENT,
      numSlices: size,
    });
    this.ranges = layout.ranges;
    this.buckets = layout.buckets;
    this.size = layout.size;
    this.slices = layout.buckets.map((bucket) => sliceOf(bucket, rank, size));
    const isFloat32 = dtype === 'float32';
    let ownedSize = 0;
    this.owned = (distributed ? this.slices : [{ start: 0, end: this.size }]).map(({ start, end }) => {
      const owned = { start, end, masterStart: isFloat32 ? start : ownedSize };
      ownedSize += end - start;
      return owned;
    });
    this.ownedSize = ownedSize;
    const shape = [this.size];
    this.model = Tensor.zeros({ shape, dtype, device });
    this.master = isFloat32
      ? this.model.view({ shape })
      : Tensor.zeros({ shape: [this.ownedSize], dtype: 'float32', device });
    this.gradients = Tensor.zeros({ shape, dtype: 'float32', device });
    this.#frozenStorage = allocateParameters(this.frozen, { device, dtype });
    for (const range of this.ranges) {
      range.parameter.assignData(this.#view(this.model, range));
      range.parameter.assignMainGradient(this.#view(this.gradients, range));
    }
  }

  /**
   * Writes the initial values of all parameters for a seed: every rank all of the model, without
   * communication.
   */
  initialize(seed: number): void {
    for (const parameter of this.frozen) initializeParameter(parameter, parameter.data, seed);
    for (const range of this.ranges) {
      const { parameter } = range;
      if (this.model.dtype === 'float32') {
        initializeParameter(parameter, parameter.data, seed);
        continue;
      }
      using values = Tensor.empty({ shape: [parameter.size], dtype: 'float32', device: this.model.device });
      initializeParameter(parameter, values, seed);
      for (const part of this.ownedPartsOf(range)) {
        const length = part.end - part.start;
        using from = values.view({ offset: part.start - range.start, shape: [length] });
        using to = this.master.view({ offset: part.masterStart, shape: [length] });
        cast({ output: to, input: from });
      }
      using model = this.model.view({ offset: range.start, shape: [parameter.size] });
      cast({ output: model, input: values });
    }
  }

  /** The parts of a parameter that lie in owned ranges. */
  ownedPartsOf(range: ParameterRange): OwnedRange[] {
    return this.owned.flatMap((owned) => {
      const common = intersectionOf(owned, range);
      if (common === undefined) return [];
      return [{ ...common, masterStart: owned.masterStart + common.start - owned.start }];
    });
  }

  /**
   * Rounds the owned master values into the model's dtype: `ModelOptimizer.refreshModel` also gathers the
   * others'.
   */
  roundOwned(): void {
    if (this.model.dtype === 'float32') return;
    for (const { start, end, masterStart } of this.owned) {
      const shape = [end - start];
      using input = this.master.view({ offset: masterStart, shape });
      using output = this.model.view({ offset: start, shape });
      cast({ output, input });
    }
  }

  /**
   * A view of one parameter's part of `model` or `gradients`, in the parameter's shape: the caller's to
   * dispose of.
   */
  viewOf(buffer: Tensor, { parameter, start }: ParameterRange): Tensor {
    return buffer.view({ offset: start, shape: parameter.shape });
  }

  dispose(): void {
    for (const tensor of [...this.#views, this.master, this.model, this.gradients]) tensor.dispose();
    this.#frozenStorage.dispose();
  }

  #view(buffer: Tensor, range: ParameterRange): Tensor {
    const view = this.viewOf(buffer, range);
    this.#views.push(view);
    return view;
  }
}
