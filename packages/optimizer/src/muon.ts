import type { Parameter } from '@mtl/autograd';
import {
  adamwScalars,
  type Device,
  matmul,
  muonMomentum,
  muonNormalize,
  muonPolynomial,
  muonUpdate,
  sumOfSquares,
  Tensor,
} from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type {
  BindOptions,
  BoundOptimizer,
  Optimizer,
  OptimizerRange,
  OptimizerState,
  OptimizerStep,
} from './optimizer.js';
import type { FlatRange } from './store/flat-layout.js';
import type { MatrixOfParameter, WholeMatrices } from './whole-matrices.js';

/**
 * The factor by which a matrix's update is multiplied after its singular values have been changed to about 1.
 * It depends on how many outputs and inputs the matrix has. The names are the same as in Megatron-LM.
 * `shape_scaling` is the scale of Jordan et al. 2024 (PyTorch's `original`). With `spectral` and an extra
 * factor of 0.2, updates have the same RMS as AdamW's updates (Liu et al. 2025, PyTorch's `match_rms_adamw`).
 */
const muonScales = {
  spectral: (outputs: number, inputs: number) => Math.sqrt(Math.max(outputs, inputs)),
  unit_rms_norm: (outputs: number, inputs: number) => Math.sqrt(outputs / inputs),
  shape_scaling: (outputs: number, inputs: number) => Math.sqrt(Math.max(1, outputs / inputs)),
} as const;

export interface MuonOptions {
  /** The weight of the previous average in the moving average of gradients. */
  readonly momentum: number;
  readonly nesterov: boolean;
  /** How the scale of an update is chosen: `spectral`, `unit_rms_norm` or `shape_scaling`. */
  readonly scaleMode: keyof typeof muonScales;
  readonly extraScaleFactor: number;
  /** `simple` or `quintic`: the polynomials of Newton-Schulz. */
  readonly coefficientType: keyof typeof newtonSchulzCoefficients;
  /** Steps of Newton-Schulz. */
  readonly numSteps: number;
  /** True to update the matrices for queries, keys and values in a parameter separately. */
  readonly splitQkv: boolean;
  /** The dtype of the factors in the Newton-Schulz matmuls. */
  readonly dtype: 'float32' | 'bfloat16';
}

/**
 * Muon (Jordan et al. 2024): the update of a matrix is the average of its gradients, changed so that all
 * singular values are close to 1. The rule is only for parameters that have `matrices`; all other parameters
 * need a different rule (see `ModelOptimizerOptions.optimizer`). The update is always computed for the
 * complete matrix, even if several ranks share it.
 */
export class Muon implements Optimizer {
  /** The name is PyTorch's. */
  readonly states: readonly OptimizerState[] = [{ name: 'momentum_buffer', dtype: 'float32' }];
  readonly #options: MuonOptions;

  constructor(options: MuonOptions) {
    this.#options = options;
  }

  bind(ranges: readonly OptimizerRange[], options: BindOptions): BoundOptimizer {
    return new BoundMuon(this.#options, ranges, options);
  }
}

/** The part of a range that one parameter occupies, and the matrices that must be orthogonalised for it. */
interface MuonRange extends FlatRange {
  readonly matrices: readonly MatrixOfParameter[];
  readonly decays: boolean;
  readonly parameter: Tensor;
  readonly modelParameter: Tensor | undefined;
}

function measureShape({ box }: MatrixOfParameter): [rows: number, columns: number] {
  const sizes = box.map(({ start, end }) => end - start);
  const columns = sizes.at(-1)!;
  return [sizes.reduce((product, size) => product * size, 1) / columns, columns];
}

class BoundMuon implements BoundOptimizer {
  readonly #options: MuonOptions;
  readonly #ranges: readonly OptimizerRange[];
  /** The parts of parameters in each range. */
  readonly #parts: readonly (readonly MuonRange[])[];
  readonly #matrices: WholeMatrices;
  readonly #newtonSchulz: NewtonSchulz | undefined;
  readonly #scalars: Tensor;
  #weightDecay = 0;

  constructor(options: MuonOptions, ranges: readonly OptimizerRange[], { device, matrices }: BindOptions) {
    const { dtype, numSteps, coefficientType } = options;
    this.#options = options;
    this.#ranges = ranges;
    this.#matrices = matrices;
    this.#parts = ranges.map((range) => listParts(range, options));
    matrices.reserve(this.#parts.flat().flatMap((part) => part.matrices));
    this.#scalars = Tensor.zeros({ shape: [5], dtype: 'float32', device });
    const shapes = this.#parts.flat().flatMap((part) => part.matrices.map(measureShape));
    const coefficients = newtonSchulzCoefficients[coefficientType];
    this.#newtonSchulz =
      shapes.length === 0 ? undefined : new NewtonSchulz({ coefficients, numSteps, dtype, device, shapes });
  }

  beginStep({ weightDecay, step: _, ...rest }: OptimizerStep): void {
    const { momentum: decay, nesterov } = this.#options;
    this.#weightDecay = weightDecay;
    const scalars = this.#scalars;
    adamwScalars({ ...rest, scalars, correction1: 1, correction2: 1 });
    for (const { gradient, states } of this.#ranges) {
      muonMomentum({ momentum: states[0]!, gradient, scalars, decay, nesterov });
    }
    this.#matrices.gather();
  }

  update(index: number, { clearGradient }: { readonly clearGradient: boolean }): void {
    const { scaleMode, extraScaleFactor } = this.#options;
    for (const part of this.#parts[index]!) {
      const { matrices, decays, parameter, modelParameter } = part;
      for (const matrix of matrices) {
        using direction = this.#matrices.read(matrix);
        const [outputs, inputs] = measureShape(matrix);
        const scale = muonScales[scaleMode](outputs, inputs) * extraScaleFactor;
        using update = this.#newtonSchulz!.orthogonalize(direction, { scale });
        this.#matrices.write(matrix, update);
      }
      using direction = this.#matrices.direction(part);
      muonUpdate({
        parameter,
        modelParameter,
        direction,
        scalars: this.#scalars,
        weightDecay: decays ? this.#weightDecay : 0,
        clearDirection: clearGradient,
      });
    }
  }

  dispose(): void {
    for (const { parameter, modelParameter } of this.#parts.flat()) {
      for (const tensor of [parameter, modelParameter]) tensor?.dispose();
    }
    this.#newtonSchulz?.dispose();
    this.#scalars.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function listParts(
  { start, segments, parameter, modelParameter }: OptimizerRange,
  { splitQkv }: MuonOptions,
): MuonRange[] {
  return segments.flatMap(({ end, group, range }): MuonRange[] => {
    if (range === undefined) return [];
    const offset = Math.max(0, range.start - start);
    const viewRange = (tensor: Tensor): Tensor => tensor.view({ offset, shape: [end - offset] });
    const boxes = matricesHere(range.parameter, { splitQkv });
    return [
      {
        start: start + offset,
        end: start + end,
        matrices: boxes.map((box) => ({ range, box })),
        decays: group.decays,
        parameter: viewRange(parameter),
        modelParameter: modelParameter && viewRange(modelParameter),
      },
    ];
  });
}

/**
 * Returns the matrices of a parameter that are updated separately. Contains only matrices that are at least
 * partly on this rank. (The matrices of some experts may be only on different ranks.)
 */
function matricesHere(
  { matrices, slices, placement, globalShape }: Parameter,
  { splitQkv }: Pick<MuonOptions, 'splitQkv'>,
): readonly (readonly Slice[])[] {
  const isOfExperts = placement.view === 'expert';
  if (!splitQkv && !isOfExperts) return [globalShape.map((size) => ({ start: 0, end: size }))];
  return matrices.filter((box) =>
    box.every(({ start, end }, dim) => start < slices[dim]!.end && slices[dim]!.start < end),
  );
}

/**
 * Returns a function that chooses the rule: `muon` for the matrices between hidden activations, and
 * `auxiliary` for everything else.
 */
export const muonWith =
  ({ muon, auxiliary }: { readonly muon: Optimizer; readonly auxiliary: Optimizer }) =>
  (parameter: Parameter): Optimizer =>
    parameter.matrices.length > 0 ? muon : auxiliary;

/**
 * The coefficients of the polynomial `a * x + b * x^3 + c * x^5` that a step applies to the singular values.
 */
type NewtonSchulzCoefficients = readonly [a: number, b: number, c: number];

/**
 * The polynomials of consecutive steps, by the value of Megatron-LM's `--muon-coefficient-type`. After the
 * last polynomial, the first follows again.
 */
const newtonSchulzCoefficients = {
  /** The polynomial used by Jordan et al. 2024 and PyTorch. */
  simple: [[3.4445, -4.775, 2.0315]],
  quintic: [
    [4.0848, -6.8946, 2.927],
    [3.9505, -6.3029, 2.6377],
    [3.7418, -5.5913, 2.3037],
    [2.8769, -3.1427, 1.2046],
    [2.8366, -3.0525, 1.2012],
  ],
} as const satisfies Record<string, readonly NewtonSchulzCoefficients[]>;

interface NewtonSchulzOptions {
  readonly coefficients: readonly NewtonSchulzCoefficients[];
  /** The number of steps, 1 or more. */
  readonly numSteps: number;
  /** The dtype of the factors in all matmuls. Sums are float32. */
  readonly dtype: 'float32' | 'bfloat16';
  readonly device: Device;
  /** The shapes of the matrices for which memory is allocated. */
  readonly shapes: ReadonlyArray<readonly [rows: number, columns: number]>;
}

/** A smaller Frobenius norm is replaced by this value, so that a matrix of zeros stays zero. */
const epsilon = 1e-15;

/**
 * Changes the singular values of matrices to about 1, by repeatedly applying an odd polynomial that needs
 * only matmuls (Jordan et al. 2024; Bernstein and Newhouse 2024).
 */
class NewtonSchulz {
  readonly #options: NewtonSchulzOptions;
  readonly #squares: Tensor;
  /** The matrix before and after a step. */
  readonly #matrices: readonly [Tensor, Tensor];
  readonly #gram: Tensor;
  readonly #square: Tensor;

  constructor(options: NewtonSchulzOptions) {
    const { dtype, device, shapes } = options;
    this.#options = options;
    const size = Math.max(...shapes.map(([rows, columns]) => rows * columns));
    const gramSize = Math.max(...shapes.map(([rows, columns]) => Math.min(rows, columns) ** 2));
    const empty = (length: number, of = dtype): Tensor =>
      Tensor.empty({ shape: [length], dtype: of, device });
    this.#squares = Tensor.zeros({ shape: [1], dtype: 'float64', device });
    this.#matrices = [empty(size), empty(size)];
    this.#gram = empty(gramSize);
    this.#square = empty(gramSize, 'float32');
  }

  /**
   * Returns a matrix [R, C] whose singular values are changed to about `scale`, in the dtype of the matmuls.
   * The input must be float32. The result is valid until the next call. The caller must dispose of it.
   */
  orthogonalize(matrix: Tensor, { scale }: { readonly scale: number }): Tensor {
    const { coefficients, numSteps } = this.#options;
    const [rows, columns] = matrix.shape as [number, number];
    const isWide = rows <= columns;
    const side = Math.min(rows, columns);
    const [even, odd] = this.#matrices.map((room) => room.view({ shape: [rows, columns] })) as [
      Tensor,
      Tensor,
    ];
    using gram = this.#gram.view({ shape: [side, side] });
    using square = this.#square.view({ shape: [side, side] });
    sumOfSquares({ output: this.#squares, input: matrix });
    muonNormalize({ output: even, input: matrix, squares: this.#squares, epsilon });
    let [from, to] = [even, odd];
    for (let step = 0; step < numSteps; step++) {
      const [a, b, c] = coefficients[step % coefficients.length]!;
      const factor = step === numSteps - 1 ? scale : 1;
      // the Gram matrix over the shorter side is X @ X^T or X^T @ X, which is symmetric
      matmul({ output: gram, left: from, right: from, [isWide ? 'transposeRight' : 'transposeLeft']: true });
      matmul({ output: square, left: gram, right: gram });
      muonPolynomial({
        output: gram,
        gram,
        square,
        constant: a * factor,
        linear: b * factor,
        quadratic: c * factor,
      });
      if (isWide) matmul({ output: to, left: gram, right: from });
      else matmul({ output: to, left: from, right: gram });
      [from, to] = [to, from];
    }
    to.dispose();
    return from;
  }

  dispose(): void {
    for (const tensor of [this.#squares, ...this.#matrices, this.#gram, this.#square]) tensor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
