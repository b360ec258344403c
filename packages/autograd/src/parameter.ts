import { UsageError } from '@mtl/errors';
import { countElements, scale, Tensor } from '@mtl/kernels';
import {
  axesOfCopies,
  axesOfPartialSums,
  type MeshAxis,
  type MeshView,
  meshViews,
  type Placement,
  type Slice,
} from '@mtl/layout';
import { type MatmulPrecision, type PrecisionState, plainPrecision } from './matmul-precision.js';

/** The initial values of a parameter. Normal and uniform values come from Philox by global coordinates. */
export type Initialization =
  | { readonly kind: 'normal'; readonly standardDeviation: number }
  /** Values between -bound and bound. */
  | { readonly kind: 'uniform'; readonly bound: number }
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' };

export interface ParameterOptions {
  /** Logical name with the global layer index, such as `layers.3.attention.qkv.weight`. */
  readonly name: string;
  /** The whole tensor's shape, over all processes. */
  readonly globalShape: readonly number[];
  /** The slice that this process holds, per dimension; default: everything. */
  readonly slices?: readonly Slice[];
  /**
   * The placement among the processes. Default: one stage, the dense view, tp shards the first dimension that
   * `slices` splits, and rows are not split.
   */
  readonly placement?: Partial<Placement>;
  readonly initialization: Initialization;
  /** True if weight decay applies; default: only to tensors of two or more dimensions (Megatron's rule). */
  readonly decays?: boolean;
  /**
   * The matrices between hidden activations that it consists of, each a box of the whole tensor in global
   * coordinates: its last dimension is inputs, the others are outputs. Optimizers that update whole matrices
   * (Muon) read them. Along a sharded dimension they must be whole. Default: none, as tables of embeddings,
   * output layers, biases and norms.
   */
  readonly matrices?: readonly (readonly Slice[])[];
  /**
   * True if the parameter has a row for each entry of the vocabulary: the word embedding and the output
   * layer, which may have their own learning rate. Default false.
   */
  readonly isVocabularyTable?: boolean;
  /**
   * A buffer is a state of the model that no gradient trains, such as a bias that the loads of experts move:
   * frozen from the start, and kept in float32 whatever the compute dtype. Default false.
   */
  readonly isBuffer?: boolean;
}

/**
 * A tensor of a model, trained unless it is frozen: its name, the part that this process holds, its values in
 * the compute dtype and its main gradient in float32. It owns no memory: the memory planner (the optimizer's
 * flat buffers, or `allocateParameters` for inference) assigns the storage of both.
 */
export class Parameter {
  readonly name: string;
  readonly globalShape: readonly number[];
  readonly slices: readonly Slice[];
  readonly shape: readonly number[];
  readonly size: number;
  readonly placement: Placement;
  /**
   * Mesh axes other than `reductionAxes` along which processes hold the same values: the parameter counts
   * once in the gradient norm, and one process saves it. Along pp the processes are the first and the last
   * stage.
   */
  readonly copiedOver: readonly MeshAxis[];
  /**
   * The axes of copies along which each process computes only its part of the main gradient, from its rows
   * or, along pp, its stages: the optimizer sums the parts.
   */
  readonly partialOver: readonly MeshAxis[];
  readonly initialization: Initialization;
  readonly decays: boolean;
  readonly matrices: readonly (readonly Slice[])[];
  readonly isVocabularyTable: boolean;
  readonly isBuffer: boolean;
  #precision = plainPrecision;
  readonly #states: PrecisionState[] = [];
  #isFrozen: boolean;
  #data: Tensor | undefined;
  #waitForData: (() => void) | undefined;
  #mainGradient: Tensor | undefined;
  /** float32 sums of an operation, next to a main gradient that is kept in bfloat16. */
  #ownSums: Tensor | undefined;
  #isGradientClear = false;
  readonly #hooks: ((parameter: Parameter) => void)[] = [];

  constructor(options: ParameterOptions) {
    this.name = options.name;
    this.globalShape = options.globalShape;
    this.slices = options.slices ?? options.globalShape.map((size) => ({ start: 0, end: size }));
    this.shape = this.slices.map(({ start, end }) => end - start);
    this.size = countElements(this.shape);
    this.placement = choosePlacement(options, this.shape);
    this.copiedOver = axesOfCopies(this.placement);
    this.partialOver = axesOfPartialSums(this.placement);
    this.initialization = options.initialization;
    if (!['normal', 'uniform', 'zeros', 'ones'].includes(options.initialization?.kind)) {
      throw new UsageError(
        'MTL_INITIALIZATION',
        `parameter ${this.name} has no initialization that there is`,
        {
          expected:
            "{ kind: 'normal', standardDeviation }, { kind: 'uniform', bound }, { kind: 'zeros' } or { kind: 'ones' }",
        },
      );
    }
    this.decays = options.decays ?? options.globalShape.length > 1;
    this.matrices = options.matrices ?? [];
    this.isVocabularyTable = options.isVocabularyTable ?? false;
    this.isBuffer = options.isBuffer ?? false;
    this.#isFrozen = this.isBuffer;
  }

  /** The precision of matmuls with this parameter. Default: `plainPrecision`. */
  get precision(): MatmulPrecision {
    return this.#precision;
  }

  /**
   * The states that checkpoints keep next to the optimizer's states: the states of its precision, and
   * attached states.
   */
  get states(): readonly PrecisionState[] {
    return [...(this.#precision.state ?? []), ...this.#states];
  }

  /** Attaches a state of the whole parameter, the same on all ranks that hold a slice of it. */
  attach(state: PrecisionState): void {
    this.#states.push(state);
  }

  /** Sets the precision of matmuls with this parameter, from the next pass on. */
  computeWith(precision: MatmulPrecision): void {
    this.#precision = precision;
  }

  /** True if the parameter is not trained: it has no main gradient, and backward computes none. */
  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /**
   * Takes the parameter out of training, before it gets storage.
   *
   * @throws UsageError MTL_FROZEN when it has a main gradient already
   */
  freeze(): void {
    if (this.#mainGradient !== undefined) {
      throw new UsageError('MTL_FROZEN', `parameter ${this.name} is trained already`, {
        expected: 'a parameter without a main gradient',
        remedy: 'freeze parameters before the optimizer is built',
      });
    }
    this.#isFrozen = true;
  }

  /** Values in the compute dtype, of `shape`; waits for values that are still in transfer (`deferData`). */
  get data(): Tensor {
    if (this.#data === undefined) throw this.#unassigned('data');
    if (this.#waitForData !== undefined) {
      this.#waitForData();
      this.#waitForData = undefined;
    }
    return this.#data;
  }

  /**
   * float32, of `shape`; matmuls accumulate into it directly. The caller may write to it. If the main
   * gradient is kept in bfloat16: the sums of the current operation, which `keepGradient` adds to it.
   */
  get mainGradient(): Tensor {
    if (this.#mainGradient === undefined) throw this.#unassigned('main gradient');
    this.#isGradientClear = false;
    if (this.#mainGradient.dtype !== 'bfloat16') return this.#mainGradient;
    const { device } = this.#mainGradient;
    this.#ownSums ??= Tensor.zeros({ shape: this.shape, dtype: 'float32', device });
    return this.#ownSums;
  }

  /**
   * Adds the sums of an operation to a main gradient that is kept in bfloat16, rounded once, and frees their
   * memory. The tape calls it after each operation that has the parameter.
   */
  keepGradient(): void {
    const [output, input] = [this.#mainGradient, this.#ownSums];
    if (output === undefined || input === undefined) return;
    scale({ output, input, factor: 1, accumulate: true });
    input.dispose();
    this.#ownSums = undefined;
  }

  /**
   * Returns the main gradient for an operation that can write all of it as well as add to it. `accumulate` is
   * false for the first use of the gradient after `markGradientClear`: the term that would be added to zeros
   * is then written instead, which reads no memory.
   */
  takeMainGradient(): { readonly gradient: Tensor; readonly accumulate: boolean } {
    const accumulate = !this.#isGradientClear;
    return { gradient: this.mainGradient, accumulate };
  }

  /**
   * States that the main gradient is zero now. Default: the main gradient is unknown, so operations add to
   * it.
   */
  markGradientClear(): void {
    this.#isGradientClear = true;
  }

  get hasMainGradient(): boolean {
    return this.#mainGradient !== undefined;
  }

  /**
   * Takes `tensor` (usually a view into a flat buffer) as the values; the caller still owns it and disposes
   * it.
   */
  assignData(tensor: Tensor): void {
    this.#checkShape(tensor);
    this.#data = tensor;
  }

  /**
   * Marks the values as being filled asynchronously, or as absent: the next read of `data` calls `wait`
   * first, and every read until it returns. `undefined` marks the values as present.
   */
  deferData(wait: (() => void) | undefined): void {
    this.#waitForData = wait;
  }

  /** @throws UsageError MTL_FROZEN for a frozen parameter */
  assignMainGradient(tensor: Tensor): void {
    if (this.#isFrozen) {
      throw new UsageError('MTL_FROZEN', `a main gradient for parameter ${this.name}, which is frozen`, {
        expected: 'a parameter that is trained',
      });
    }
    this.#checkShape(tensor);
    this.#mainGradient = tensor;
    this.#isGradientClear = false;
  }

  /** Calls `hook` whenever the last contribution of a backward pass has been added to the main gradient. */
  onGradientReady(hook: (parameter: Parameter) => void): void {
    this.#hooks.push(hook);
  }

  /** Calls the hooks of a complete gradient. For the tape. */
  notifyGradientReady(): void {
    for (const hook of this.#hooks) hook(this);
  }

  #unassigned(what: string): UsageError {
    return new UsageError('MTL_NO_STORAGE', `parameter ${this.name} has no storage for its ${what} yet`, {
      remedy: 'build the optimizer, or call allocateParameters, before the first forward',
    });
  }

  #checkShape(tensor: Tensor): void {
    if (tensor.size === this.size) return;
    throw new UsageError(
      'MTL_SHAPE',
      `storage of shape [${tensor.shape.join(', ')}] for parameter ${this.name} of shape [${this.shape.join(', ')}]`,
    );
  }
}

/** Returns the placement of a parameter whose slices have this shape. */
function choosePlacement(
  { name, globalShape, placement = {} }: ParameterOptions,
  shape: readonly number[],
): Placement {
  const cut = shape.flatMap((size, dim) => (size === globalShape[dim] ? [] : [dim]));
  const { sharded = cut.length === 0 ? {} : { tp: cut[0]! } } = placement;
  const unnamed = cut.find((dim) => !Object.values(sharded).includes(dim));
  if (unnamed !== undefined) {
    throw new UsageError(
      'MTL_SHAPE',
      `parameter ${name} holds a part of dimension ${unnamed}, which its placement does not shard`,
      { expected: 'placement.sharded: an axis of the mesh for every dimension of which `slices` is a part' },
    );
  }
  return { view: 'dense', rows: [], stages: 'one', ...placement, sharded };
}

/** Returns the parameters of an operation whose gradients its weight half computes: given, and not frozen. */
export function trainedParameters(...parameters: readonly (Parameter | undefined)[]): Parameter[] {
  return parameters.filter((parameter) => parameter !== undefined).filter(({ isFrozen }) => !isFrozen);
}

/** Parameters whose gradients are summed over the same processes. */
export interface ParameterDomain {
  readonly view: MeshView;
  readonly parameters: readonly Parameter[];
}

/**
 * Returns the domains of a model's parameters, each in the order of its parameters; one empty domain if there
 * are no parameters.
 */
export function listDomains(parameters: readonly Parameter[]): readonly ParameterDomain[] {
  const domains = (Object.keys(meshViews) as MeshView[]).map((view) => ({
    view,
    parameters: parameters.filter(({ placement }) => placement.view === view),
  }));
  return parameters.length === 0 ? domains.slice(0, 1) : domains.filter((each) => each.parameters.length > 0);
}

/** The elements [start, end) of this rank's shard of a parameter, and the number that multiplies them. */
export interface ScaledPart {
  readonly parameter: Parameter;
  readonly start: number;
  readonly end: number;
  readonly factor: number;
}
