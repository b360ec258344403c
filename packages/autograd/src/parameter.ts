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

/**
 * The initial values of a parameter. Normal and uniform values are computed by Philox from global
 * coordinates.
 */
export type Initialization =
  | { readonly kind: 'normal'; readonly standardDeviation: number }
  /** Values between -bound and bound. */
  | { readonly kind: 'uniform'; readonly bound: number }
  | { readonly kind: 'zeros' }
  | { readonly kind: 'ones' };

export interface ParameterOptions {
  /** The logical name with the global layer index, such as `layers.3.attention.qkv.weight`. */
  readonly name: string;
  /** The shape of the complete tensor, over all processes. */
  readonly globalShape: readonly number[];
  /** This process's slice of each dimension. Default: the whole parameter. */
  readonly slices?: readonly Slice[];
  /**
   * The parameter's placement among the processes. Default: on one stage, in the dense view, sharded over tp
   * in the first dimension that `slices` splits, with activation rows that are not split.
   */
  readonly placement?: Partial<Placement>;
  readonly initialization: Initialization;
  /** True if weight decay applies. Default: true for tensors of two or more dimensions (Megatron's rule). */
  readonly decays?: boolean;
  /**
   * The matrices in the parameter that map hidden activations to hidden activations. Each matrix is a box of
   * the complete tensor in global coordinates. The box's last dimension contains the inputs; the other
   * dimensions contain the outputs. Optimizers that update complete matrices (Muon) use this list. If the
   * parameter is sharded along any dimension, each matrix must be complete on one rank. Default: none, which
   * is right for embedding tables, output layers, biases and norms.
   */
  readonly matrices?: readonly (readonly Slice[])[];
  /**
   * True if the parameter has a row for each vocabulary entry, as the word embedding and the output layer
   * have. Such parameters may have a separate learning rate. Default: false.
   */
  readonly isVocabularyTable?: boolean;
  /**
   * True for a buffer: a state of the model that is not trained by gradients, such as an expert bias, which
   * is computed from how many tokens each expert receives. A buffer is frozen from the start and always
   * float32. Default: false.
   */
  readonly isBuffer?: boolean;
}

/**
 * A tensor of a model, which is trained unless it is frozen: its name, this process's slice, its values in
 * the compute dtype and its main gradient, usually in float32. A parameter does not own memory. The memory
 * planner (the optimizer's flat buffers, or `allocateParameters` for inference) assigns storage for values
 * and gradient.
 */
export class Parameter {
  readonly name: string;
  readonly globalShape: readonly number[];
  readonly slices: readonly Slice[];
  readonly shape: readonly number[];
  readonly size: number;
  readonly placement: Placement;
  /**
   * The mesh axes, except `reductionAxes`, along which processes have the same values. The gradient norm
   * counts such a parameter only once, and only one process saves it. Along pp, only the first and the last
   * stage have these values.
   */
  readonly copiedOver: readonly MeshAxis[];
  /**
   * The axes in `copiedOver` along which each process computes only a partial sum of the main gradient,
   * because the process has only some rows or, along pp, only one of the parameter's two uses (embedding or
   * output head). The optimizer adds up the partial sums.
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
  #provideMainGradient: (() => void) | undefined;
  /** The current operation's float32 gradient sums, if the main gradient is in bfloat16. */
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

  /** The object that computes the matmuls with this parameter. Default: `plainPrecision`. */
  get precision(): MatmulPrecision {
    return this.#precision;
  }

  /**
   * The states that checkpoints store in addition to the optimizer's states: the states of the precision, and
   * attached states.
   */
  get states(): readonly PrecisionState[] {
    return [...(this.#precision.state ?? []), ...this.#states];
  }

  /**
   * Attaches a state of the complete parameter. All ranks with a slice of the parameter must keep equal
   * states.
   */
  attach(state: PrecisionState): void {
    this.#states.push(state);
  }

  /** Sets the object that computes the matmuls with this parameter, from the next forward pass on. */
  computeWith(precision: MatmulPrecision): void {
    this.#precision = precision;
  }

  /**
   * True if the parameter is not trained. It has no main gradient, and backward computes no gradient for it.
   */
  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /**
   * Excludes the parameter from training. Must be called before the parameter has storage.
   *
   * @throws UsageError MTL_FROZEN if the parameter already has a main gradient
   */
  freeze(): void {
    if (this.hasMainGradient) {
      throw new UsageError('MTL_FROZEN', `parameter ${this.name} is trained already`, {
        expected: 'a parameter without a main gradient',
        remedy: 'freeze parameters before the optimizer is built',
      });
    }
    this.#isFrozen = true;
  }

  /**
   * The values in the compute dtype, with shape `shape`. Reading waits for values that are still in transfer
   * (`deferData`).
   */
  get data(): Tensor {
    if (this.#waitForData !== undefined) {
      this.#waitForData();
      this.#waitForData = undefined;
    }
    if (this.#data === undefined) throw this.#unassigned('data');
    return this.#data;
  }

  /**
   * The main gradient, in float32, with shape `shape`. Matmuls accumulate into it directly, and the caller
   * may write to it. If the main gradient is kept in bfloat16, the returned tensor instead contains the
   * current operation's sums, which `keepGradient` adds to the main gradient.
   */
  get mainGradient(): Tensor {
    if (this.#provideMainGradient !== undefined) {
      this.#provideMainGradient();
      this.#provideMainGradient = undefined;
    }
    if (this.#mainGradient === undefined) throw this.#unassigned('main gradient');
    this.#isGradientClear = false;
    if (this.#mainGradient.dtype !== 'bfloat16') return this.#mainGradient;
    const { device } = this.#mainGradient;
    this.#ownSums ??= Tensor.zeros({ shape: this.shape, dtype: 'float32', device });
    return this.#ownSums;
  }

  /**
   * Adds an operation's float32 sums to a main gradient in bfloat16, rounding once, and frees their memory.
   * The tape calls this method after each operation that uses the parameter.
   */
  keepGradient(): void {
    const [output, input] = [this.#mainGradient, this.#ownSums];
    if (output === undefined || input === undefined) return;
    scale({ output, input, factor: 1, accumulate: true });
    input.dispose();
    this.#ownSums = undefined;
  }

  /**
   * Returns the main gradient for an operation that can either overwrite it or add to it. For the first use
   * after `markGradientClear`, `accumulate` is false. The operation then overwrites the zeros without reading
   * them.
   */
  takeMainGradient(): { readonly gradient: Tensor; readonly accumulate: boolean } {
    const accumulate = !this.#isGradientClear;
    return { gradient: this.mainGradient, accumulate };
  }

  /**
   * Declares that the main gradient is zero, so that the next operation may overwrite it. Without this call,
   * operations add to the gradient.
   */
  markGradientClear(): void {
    this.#isGradientClear = true;
  }

  get hasMainGradient(): boolean {
    return this.#mainGradient !== undefined || this.#provideMainGradient !== undefined;
  }

  /**
   * Uses `tensor` (usually a view of a flat buffer) as the parameter's values. The caller still owns the
   * tensor and must dispose of it.
   */
  assignData(tensor: Tensor): void {
    this.#checkShape(tensor);
    this.#data = tensor;
  }

  /**
   * Marks the values as absent or in transfer. The next read of `data` first calls `wait`. If `wait` throws,
   * the following read calls it again. `undefined` marks the values as available.
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

  /**
   * Marks the main gradient as absent. The next access first calls `provide`, which assigns a gradient of
   * zeros. If `provide` throws, the following access calls it again. Used for gradients that have memory only
   * during a backward pass.
   */
  deferMainGradient(provide: () => void): void {
    this.#provideMainGradient = provide;
  }

  /**
   * Registers a hook that is called when the last contribution of a backward pass has been added to the main
   * gradient.
   */
  onGradientReady(hook: (parameter: Parameter) => void): void {
    this.#hooks.push(hook);
  }

  /** Calls the hooks after the gradient is complete. Used by the tape. */
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

/** Returns the placement of a parameter, given the shape of this process's slices. */
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
      { expected: 'placement.sharded: an axis of the mesh for every dimension that `slices` divides' },
    );
  }
  return { view: 'dense', rows: [], stages: 'one', ...placement, sharded };
}

/**
 * Returns the given parameters for which the weight half of backward computes gradients: all parameters that
 * are defined and not frozen.
 */
export function trainedParameters(...parameters: readonly (Parameter | undefined)[]): Parameter[] {
  return parameters.filter((parameter) => parameter !== undefined).filter(({ isFrozen }) => !isFrozen);
}

/** Parameters whose gradients are summed over the same processes. */
export interface ParameterDomain {
  readonly view: MeshView;
  readonly parameters: readonly Parameter[];
}

/**
 * Groups a model's parameters into domains. The parameters of a domain keep their order. Returns one empty
 * domain for an empty list.
 */
export function listDomains(parameters: readonly Parameter[]): readonly ParameterDomain[] {
  const domains = (Object.keys(meshViews) as MeshView[]).map((view) => ({
    view,
    parameters: parameters.filter(({ placement }) => placement.view === view),
  }));
  return parameters.length === 0 ? domains.slice(0, 1) : domains.filter((each) => each.parameters.length > 0);
}

/** A range of elements [start, end) in this rank's shard of a parameter, and a factor for these elements. */
export interface ScaledPart {
  readonly parameter: Parameter;
  readonly start: number;
  readonly end: number;
  readonly factor: number;
}
