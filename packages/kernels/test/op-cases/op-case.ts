import type { DType, Tensor } from '../../src/index.js';

/** A tensor of a case, and how its values are made; `compute` is the dtype that the case runs in. */
export interface TensorSpec {
  readonly shape: readonly number[];
  /** The dtype of the tensor. Default: the compute dtype. */
  readonly dtype?: DType;
  /**
   * `normal` (default): N(0, scale); `uniform`: [0, 1); an array: these values; a function of the flat index.
   */
  readonly values?: 'normal' | 'uniform' | readonly number[] | ((index: number) => number);
  readonly scale?: number;
  /** True for a tensor that the op writes; it starts as NaN unless it is `accumulated`. */
  readonly output?: boolean;
  /** True for an output to which the op adds: it starts with values. */
  readonly accumulated?: boolean;
}

export type Tensors = Readonly<Record<string, Tensor>>;

/** The bound of a difference: |actual - expected| <= absolute + relative * |expected|. */
export interface Tolerance {
  readonly absolute: number;
  readonly relative: number;
}

/** The bound of a benchmark: arithmetic if `flops` is given, otherwise memory. */
export interface Benchmark {
  /** Floating-point operations of one run: it is compared with the rate of matmuls. */
  readonly flops?: number;
  /**
   * Elements of the compute dtype that one run must move. Default: every tensor once, accumulated outputs
   * twice, in their own dtypes.
   */
  readonly elements?: number;
}

/** One call of an operation: run on the device under test and on the reference, the outputs are compared. */
export interface OpCase {
  readonly name: string;
  /** The native operation: for the support table. */
  readonly operation: string;
  readonly tensors: Readonly<Record<string, TensorSpec>>;
  run(tensors: Tensors): void;
  /** The dtypes in which the case runs. Default: float32, bfloat16, float16. */
  readonly dtypes?: readonly DType[];
  /** Overrides of the defaults in tolerances.ts; `reason` is required. */
  readonly tolerance?: Partial<Record<DType, Tolerance>> & { readonly reason: string };
  /** Only for kernels of device cuda: on other devices its size would only take time. */
  readonly isOnlyForCuda?: boolean;
  /** Not for device cuda, which refuses it with `MTL_UNSUPPORTED`. */
  readonly isOnlyForHost?: boolean;
  /** Makes the case a benchmark at a realistic size instead of a test. */
  readonly benchmark?: Benchmark;
}

/**
 * A forward and its backward: gradients are compared with central differences, in float64 on the reference
 * device.
 */
export interface GradientCase {
  readonly name: string;
  readonly tensors: Readonly<Record<string, TensorSpec>>;
  /** Names of the tensors whose gradients `backward` gives. */
  readonly differentiable: readonly string[];
  readonly outputShape: readonly number[];
  forward(tensors: Tensors, output: Tensor): void;
  /**
   * Writes the gradient of each tensor to gradients[name], which has the shape of tensors[name] and starts as
   * zeros.
   */
  backward(tensors: Tensors, outputGradient: Tensor, gradients: Tensors): void;
}

/** The exports of a file `<op>.cases.ts`. */
export interface CaseTable {
  readonly cases: readonly OpCase[];
  readonly gradientCases?: readonly GradientCase[];
}
