import {
  adaptedLinear,
  type LinearAdapter,
  type LinearAdapters,
  type LinearGeluOptions,
  type LinearOptions,
  linear,
  linearGelu,
  Parameter,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { checkedOperation } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import { regionCollectives } from './region-collectives.js';
import { replicatedParameter } from './replicated-parameter.js';
import { sliceOfRank, type TensorParallel } from './tensor-parallel.js';

export interface ColumnParallelLinearOptions extends Pick<LinearOptions, 'input' | 'weight' | 'bias'> {
  /** The adapters of `columnParallelAdapter`. Default: none. */
  readonly adapters?: LinearAdapters | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Begins a tensor-parallel region: `output = input * weight^T + bias`, with output [S, B, O / t]. Weight [O /
 * t, I] and bias [O / t] are this process's rows (Shoeybi et al. 2019, section 3: the columns of the
 * transposed weight).
 *
 * Without sequence parallelism, the input [S, B, I] is the same on all processes. With sequence parallelism,
 * the input is this process's shard [S / t, B, I]. It is all-gathered for the matmul of the forward pass, and
 * again for the weight gradient. Only the shard is kept in between. The reduction of the input gradients
 * overlaps with the matmul of the weight gradient, and the second all-gather overlaps with the matmul of the
 * input gradient.
 */
export const columnParallelLinear = checkedOperation(
  'columnParallelLinear',
  (tape: Tape, options: ColumnParallelLinearOptions): Variable => {
    const { tensorParallel, adapters, ...operands } = options;
    const { enter, leave } = regionCollectives(tensorParallel);
    const collectives = { gatherInput: enter, reduceInputGradient: leave };
    if (adapters !== undefined) return adaptedLinear(tape, { ...operands, adapters, collectives });
    return linear(tape, { ...operands, collectives });
  },
);

export interface ColumnParallelLinearGeluOptions
  extends Pick<LinearGeluOptions, 'input' | 'weight' | 'bias' | 'kind'> {
  readonly tensorParallel: TensorParallel | undefined;
}

/** Applies GELU to the result of `columnParallelLinear`, in the same pass if the device supports it. */
export const columnParallelLinearGelu = checkedOperation(
  'columnParallelLinearGelu',
  (tape: Tape, options: ColumnParallelLinearGeluOptions): Variable => {
    const { tensorParallel, ...operands } = options;
    const { enter, leave } = regionCollectives(tensorParallel);
    return linearGelu(tape, { ...operands, collectives: { gatherInput: enter, reduceInputGradient: leave } });
  },
);

export interface ColumnParallelParametersOptions {
  /** The prefix of the parameters' names, `name.weight` and `name.bias`. */
  readonly name: string;
  /** I: the size of the input. */
  readonly inputs: number;
  /** The sizes of the output dimensions, whose product is O. The first dimension is sharded. */
  readonly outputs: readonly number[];
  /**
   * The number of matrices in the layer. Each has `outputs` outputs and is sharded separately. A gated layer
   * has 2 matrices, for gates and for values. The parameters then have an additional first dimension of this
   * size. Default: one matrix, without an additional dimension.
   */
  readonly numParts?: number | undefined;
  /**
   * The matrices within the weight (see `ParameterOptions.matrices`), for example one matrix each for
   * queries, keys and values. Default: the whole weight is one matrix.
   */
  readonly matrices?: readonly (readonly Slice[])[] | undefined;
  /** The plural noun for the items that are sharded, such as `attention heads`, for errors. */
  readonly what: string;
  /** Standard deviation of the initial weight. */
  readonly standardDeviation: number;
  /** Default true. */
  readonly bias?: boolean | undefined;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Makes the parameters of `columnParallelLinear`: a weight [...outputs, I] and a bias [...outputs], initially
 * zero. This rank holds the same slice of the first dimension of both. With `numParts` P, the shapes are [P,
 * ...outputs, I] and [P, ...outputs], and this rank holds the same slice of every part. (A slice of [P * O,
 * I] would not contain all parts.)
 *
 * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if the first dimension cannot be sharded evenly
 */
export function columnParallelParameters(options: ColumnParallelParametersOptions): {
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
} {
  const { name, inputs, outputs, numParts, what, standardDeviation, bias = true, tensorParallel } = options;
  const own = sliceOfRank(tensorParallel, { size: outputs[0]!, what });
  const whole = (size: number): Slice => ({ start: 0, end: size });
  const parts = numParts === undefined ? [] : [numParts];
  const shape = [...parts, ...outputs];
  const slices = [...parts.map(whole), own, ...outputs.slice(1).map(whole)];
  // the first dimension of `outputs` is sharded; if there are parts, it follows the dimension of the parts
  const placement = { sharded: { tp: parts.length } };
  const weight = new Parameter({
    name: `${name}.weight`,
    globalShape: [...shape, inputs],
    slices: [...slices, whole(inputs)],
    matrices: options.matrices ?? [[...shape, inputs].map(whole)],
    placement,
    initialization: { kind: 'normal', standardDeviation },
  });
  if (!bias) return { weight, bias: undefined };
  return {
    weight,
    // a bias never has weight decay (Megatron's rule), even if it has several dimensions
    bias: new Parameter({
      name: `${name}.bias`,
      globalShape: shape,
      slices,
      placement,
      initialization: { kind: 'zeros' },
      decays: false,
    }),
  };
}

export interface ColumnParallelAdapterOptions {
  /** The prefix of the parameters' names, `name.lora_a.weight` and `name.lora_b.weight`. */
  readonly name: string;
  /** The weight made by `columnParallelParameters`. */
  readonly weight: Parameter;
  /**
   * The outputs that the adapter changes: a slice of every dimension of the weight except the last, in global
   * indices. The slice of the sharded dimension must be the whole dimension. Default: all outputs.
   */
  readonly outputs?: readonly Slice[] | undefined;
  /** r, the rank of the adapter: the size of the dimension between A and B. */
  readonly rank: number;
  readonly tensorParallel: TensorParallel | undefined;
}

/**
 * Makes an adapter of a `columnParallelLinear`: A [r, I] is replicated on all ranks, and B [...outputs, r] is
 * sharded like the weight. Each rank computes the gradient of A from its own outputs, so this gradient is a
 * partial sum. Initially, A is uniform within 1 / sqrt(I), as in PEFT (Kaiming's initialization with a =
 * sqrt(5)), and B is zero, so that the adapter adds nothing.
 */
export function columnParallelAdapter(options: ColumnParallelAdapterOptions): LinearAdapter {
  const { name, weight, rank, tensorParallel } = options;
  const dims = weight.globalShape.slice(0, -1);
  const inputs = weight.globalShape.at(-1)!;
  const box = options.outputs ?? dims.map((size) => ({ start: 0, end: size }));
  // the intersection of these outputs with the rank's shard of the weight
  const own = box.map(({ start, end }, dim) => {
    const held = weight.slices[dim]!;
    return { start: Math.max(start, held.start), end: Math.min(end, held.end) };
  });
  const within = (slice: Slice, { start }: Slice): Slice => ({
    start: slice.start - start,
    end: slice.end - start,
  });
  return {
    down: replicatedParameter({
      name: `${name}.lora_a.weight`,
      globalShape: [rank, inputs],
      initialization: { kind: 'uniform', bound: 1 / Math.sqrt(inputs) },
      insideRegions: true,
      tensorParallel,
    }),
    up: new Parameter({
      name: `${name}.lora_b.weight`,
      globalShape: [...box.map(({ start, end }) => end - start), rank],
      slices: [...own.map((slice, dim) => within(slice, box[dim]!)), { start: 0, end: rank }],
      placement: { sharded: weight.placement.sharded },
      initialization: { kind: 'zeros' },
    }),
    outputs: options.outputs && own.map((slice, dim) => within(slice, weight.slices[dim]!)),
  };
}
