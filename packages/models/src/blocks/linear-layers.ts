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
import { type AdapterBoxes, type BlockAdapter, checkAdapterDropout, LayerAdapters } from './lora.js';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { RowCoordinate } from './row-coordinates.js';

/** The parts of a layer that may have adapters. */
interface Adapted {
  /** Default: none. */
  readonly adapters?: AdapterBoxes | undefined;
}

/** The values that a linear layer reads of a micro-batch. */
export type LinearCall = Pick<MicroBatchContext, 'sharding' | 'regionDropout'>;

const present = (parameters: readonly (Parameter | undefined)[]): readonly Parameter[] =>
  parameters.filter((parameter) => parameter !== undefined);

/** An activation that one pass can compute together with a linear layer. */
export interface LinearActivation {
  fused(tape: Tape, operands: LinearOptions & { readonly bias: Parameter }): Variable;
  alone(tape: Tape, output: Variable): Variable;
}

export interface ColumnLayerOptions
  extends Adapted,
    Omit<ColumnParallelParametersOptions, 'tensorParallel'> {}

/** A linear layer whose outputs are sharded, with its adapters (`columnParallelLinear`). */
export class ColumnLayer {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
  /** Includes the parameters of its adapters. */
  readonly parameters: readonly Parameter[];
  readonly adapters: readonly BlockAdapter[];
  /** The coordinates of rows that it reads. */
  readonly reads: readonly RowCoordinate[];
  readonly #adapters: LayerAdapters;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when outputs cannot be sharded evenly */
  constructor(options: ColumnLayerOptions, { tensorParallel, lora }: LayerFactoryOptions) {
    const { adapters: boxes = {}, ...own } = options;
    const { weight, bias } = columnParallelParameters({ ...own, tensorParallel });
    this.#adapters = new LayerAdapters({
      name: options.name,
      weight,
      boxes,
      lora,
      firstColumn: 0,
      newAdapter: (adapter) => columnParallelAdapter({ ...adapter, weight, tensorParallel }),
    });
    this.weight = weight;
    this.bias = bias;
    this.adapters = this.#adapters.all;
    this.reads = this.#adapters.reads;
    this.parameters = present([weight, bias, ...this.#adapters.parameters]);
  }

  /** [S, B, I], or this process's part of it, to its features [S, B, O / t]. */
  forward(tape: Tape, input: Variable, call: LinearCall): Variable {
    const { weight, bias } = this;
    const adapters = this.#adapters.in(call);
    return columnParallelLinear(tape, { input, weight, bias, adapters, tensorParallel: call.sharding });
  }

  /**
   * Computes an activation of `forward`: in the same pass where the layer has a bias to add and no adapter,
   * which comes between the two.
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

/** A linear layer whose inputs are sharded, with its adapters (`rowParallelLinear`). */
export class RowLayer {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
  /** Includes the parameters of its adapters. */
  readonly parameters: readonly Parameter[];
  readonly adapters: readonly BlockAdapter[];
  /** The coordinates of rows that it reads. */
  readonly reads: readonly RowCoordinate[];
  readonly #adapters: LayerAdapters;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when inputs cannot be sharded evenly */
  constructor(options: RowLayerOptions, { tensorParallel, lora }: LayerFactoryOptions) {
    const { adapters: boxes = {}, ...own } = options;
    const { weight, bias } = rowParallelParameters({ ...own, tensorParallel });
    this.#adapters = new LayerAdapters({
      name: options.name,
      weight,
      boxes,
      lora,
      firstColumn: weight.slices[1]!.start,
      newAdapter: (adapter) => rowParallelAdapter({ ...adapter, weight, tensorParallel }),
    });
    this.weight = weight;
    this.bias = bias;
    this.adapters = this.#adapters.all;
    this.reads = this.#adapters.reads;
    this.parameters = present([weight, ...this.#adapters.parameters, bias]);
  }

  /** Features [S, B, I / t] to residual + dropout(output), [S, B, O] or this process's part of it. */
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
    const adapters = this.#adapters.in(call);
    return rowParallelLinear(tape, { ...operands, weight, bias, adapters, tensorParallel: call.sharding });
  }
}

export interface ExpertLayerOptions extends Adapted, Omit<ExpertParametersOptions, 'expertParallel'> {}

/** A linear layer of all routed experts, each of which may have an adapter. */
export class ExpertLayer {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
  /** Includes the parameters of its adapters. */
  readonly parameters: readonly Parameter[];
  readonly adapters: readonly BlockAdapter[];
  readonly #scale: number;

  /** @throws ConfigurationError MTL_EXPERT_PARALLEL_SIZE where experts or features cannot be spread evenly */
  constructor(options: ExpertLayerOptions, { expertParallel, lora }: LayerFactoryOptions) {
    const { adapters: boxes = {}, ...own } = options;
    const { weight, bias } = expertParameters({ ...own, expertParallel });
    const adapters = new LayerAdapters({
      name: options.name,
      weight,
      boxes,
      lora,
      firstColumn: 0,
      newAdapter: (adapter) => expertAdapter({ ...adapter, weight }),
    });
    if (lora !== undefined && adapters.all.length > 0) checkAdapterDropout(lora);
    this.weight = weight;
    this.bias = bias;
    this.adapters = adapters.all;
    this.#scale = lora?.scale ?? 0;
    // in the order of use: adapters are added to the output, and a bias behind sharded inputs to the whole
    // sum
    this.parameters =
      options.features === 'outputs'
        ? present([weight, bias, ...adapters.parameters])
        : present([weight, ...adapters.parameters, bias]);
  }

  /** Rows [R, 1, I] of one expert after those of another to their outputs, without the bias: [R, 1, O]. */
  forward(tape: Tape, rows: Pick<GroupedLinearOptions, 'input' | 'offsets'>): Variable {
    const { weight } = this;
    const [adapter] = this.adapters;
    if (adapter === undefined) return groupedLinear(tape, { ...rows, weight });
    return adaptedGroupedLinear(tape, { ...rows, weight, adapter: { ...adapter, scale: this.#scale } });
  }
}
