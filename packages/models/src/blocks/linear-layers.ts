import {
  adaptedGroupedLinear,
  type Dropout,
  type GroupedLinearOptions,
  groupedLinear,
  type LinearOptions,
  type Parameter,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import {
  type ColumnParallelParametersOptions,
  columnParallelAdapter,
  columnParallelLinear,
  columnParallelParameters,
  type ExpertParametersOptions,
  expertAdapter,
  expertParameters,
  type RowParallelParametersOptions,
  regionCollectives,
  rowParallelAdapter,
  rowParallelLinear,
  rowParallelParameters,
} from '@mtl/tensor-parallel';
import type { LayerFactoryOptions } from './layer-sharding.js';
import {
  type AdapterBoxes,
  type BlockAdapter,
  checkAdapterDropout,
  LayerAdapters,
  type NewAdapter,
} from './lora.js';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { RowCoordinate } from './row-coordinates.js';

/** The option of a layer for adapters. */
interface Adapted {
  /** Which of the layer's outputs may have adapters. Default: none. */
  readonly adapters?: AdapterBoxes | undefined;
}

/** The properties of a micro-batch that a linear layer reads. */
export type LinearCall = Pick<MicroBatchContext, 'sharding' | 'regionDropout'>;

interface AdaptedLayerOptions {
  /** The layer's name, for example `decoder.layers.3.mlp.linear_fc1`. */
  readonly name: string;
  readonly own: { readonly weight: Parameter; readonly bias: Parameter | undefined };
  readonly boxes: AdapterBoxes | undefined;
  readonly lora: LayerFactoryOptions['lora'];
  readonly newAdapter: NewAdapter;
  /** The global index of the first input column on this process. Default: 0. */
  readonly firstColumn?: number;
  /** True if the bias is added only after the sum over processes. The sum includes the adapters' outputs. */
  readonly isBiasLast: boolean;
}

/** A linear layer with its adapters. */
class AdaptedLayer {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
  /** The parameters of the layer and its adapters, in the order in which they are used. */
  readonly parameters: readonly Parameter[];
  readonly adapters: readonly BlockAdapter[];
  /** The row coordinates that the layer reads. */
  readonly reads: readonly RowCoordinate[];
  protected readonly layerAdapters: LayerAdapters;

  constructor({ own, boxes = {}, firstColumn = 0, isBiasLast, ...options }: AdaptedLayerOptions) {
    const { weight, bias } = own;
    const adapters = new LayerAdapters({ ...options, weight, boxes, firstColumn });
    const ofAdapters = adapters.parameters;
    this.layerAdapters = adapters;
    this.weight = weight;
    this.bias = bias;
    this.adapters = adapters.all;
    this.reads = adapters.reads;
    this.parameters = (isBiasLast ? [weight, ...ofAdapters, bias] : [weight, bias, ...ofAdapters]).filter(
      (parameter) => parameter !== undefined,
    );
  }
}

/**
 * An activation function after a linear layer. `fused` computes the layer and the activation in one kernel;
 * `alone` computes only the activation, in a separate kernel.
 */
export interface LinearActivation {
  fused(tape: Tape, operands: LinearOptions & { readonly bias: Parameter }): Variable;
  alone(tape: Tape, output: Variable): Variable;
}

export interface ColumnLayerOptions
  extends Adapted,
    Omit<ColumnParallelParametersOptions, 'tensorParallel'> {}

/** A column-parallel linear layer with its adapters. Its outputs are sharded (see `columnParallelLinear`). */
export class ColumnLayer extends AdaptedLayer {
  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if the outputs cannot be sharded evenly */
  constructor(options: ColumnLayerOptions, { tensorParallel, lora }: LayerFactoryOptions) {
    const { adapters: boxes, ...layer } = options;
    const own = columnParallelParameters({ ...layer, tensorParallel });
    super({
      name: options.name,
      own,
      boxes,
      lora,
      newAdapter: (adapter) => columnParallelAdapter({ ...adapter, weight: own.weight, tensorParallel }),
      isBiasLast: false,
    });
  }

  /**
   * Computes this process's features [S, B, O / t], where t is the tensor-parallel size. The input is [S, B,
   * I] or this process's shard of it.
   */
  forward(tape: Tape, input: Variable, call: LinearCall): Variable {
    const { weight, bias } = this;
    const adapters = this.layerAdapters.in(call);
    return columnParallelLinear(tape, { input, weight, bias, adapters, tensorParallel: call.sharding });
  }

  /**
   * Computes `forward` followed by an activation function. The two are fused if the layer has a bias and no
   * adapter; an adapter's output must be added before the activation function.
   */
  forwardThrough(
    { fused, alone }: LinearActivation,
    tape: Tape,
    input: Variable,
    call: LinearCall,
  ): Variable {
    const { weight, bias } = this;
    if (bias === undefined || this.adapters.length > 0) {
      return tape.scope(() => alone(tape, this.forward(tape, input, call)));
    }
    const { enter, leave } = regionCollectives(call.sharding);
    const collectives = { gatherInput: enter, reduceInputGradient: leave };
    return fused(tape, { input, weight, bias, collectives });
  }
}

export interface RowLayerOptions extends Adapted, Omit<RowParallelParametersOptions, 'tensorParallel'> {}

/** A row-parallel linear layer with its adapters. Its inputs are sharded (see `rowParallelLinear`). */
export class RowLayer extends AdaptedLayer {
  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if the inputs cannot be sharded evenly */
  constructor(options: RowLayerOptions, { tensorParallel, lora }: LayerFactoryOptions) {
    const { adapters: boxes, ...layer } = options;
    const own = rowParallelParameters({ ...layer, tensorParallel });
    super({
      name: options.name,
      own,
      boxes,
      lora,
      newAdapter: (adapter) => rowParallelAdapter({ ...adapter, weight: own.weight, tensorParallel }),
      firstColumn: own.weight.slices[1]!.start,
      isBiasLast: true,
    });
  }

  /**
   * Computes residual + dropout(output), [S, B, O] or this process's shard of it, from the features [S, B, I
   * / t], where t is the tensor-parallel size.
   */
  forward(
    tape: Tape,
    operands: {
      readonly input: Variable;
      readonly dropout?: Dropout | undefined;
      readonly residual?: Variable | undefined;
    },
    call: LinearCall,
  ): Variable {
    const { weight, bias } = this;
    const adapters = this.layerAdapters.in(call);
    return rowParallelLinear(tape, { ...operands, weight, bias, adapters, tensorParallel: call.sharding });
  }
}

export interface ExpertLayerOptions extends Adapted, Omit<ExpertParametersOptions, 'expertParallel'> {}

/** A linear layer that has a matrix for each routed expert. Each expert may have an adapter. */
export class ExpertLayer extends AdaptedLayer {
  readonly #scale: number;

  /** @throws ConfigurationError MTL_EXPERT_PARALLEL_SIZE if experts or features cannot be sharded evenly */
  constructor(options: ExpertLayerOptions, { expertParallel, lora }: LayerFactoryOptions) {
    const { adapters: boxes, ...layer } = options;
    const own = expertParameters({ ...layer, expertParallel });
    super({
      name: options.name,
      own,
      boxes,
      lora,
      newAdapter: (adapter) => expertAdapter({ ...adapter, weight: own.weight }),
      isBiasLast: options.features === 'inputs',
    });
    if (lora !== undefined && this.adapters.length > 0) checkAdapterDropout(lora);
    this.#scale = lora?.scale ?? 0;
  }

  /**
   * Computes the outputs [R, 1, O] of rows [R, 1, I], which must be sorted by expert. Biases are not added.
   */
  forward(tape: Tape, rows: Pick<GroupedLinearOptions, 'input' | 'offsets'>): Variable {
    const { weight } = this;
    const [adapter] = this.adapters;
    if (adapter === undefined) return groupedLinear(tape, { ...rows, weight });
    return adaptedGroupedLinear(tape, { ...rows, weight, adapter: { ...adapter, scale: this.#scale } });
  }
}
