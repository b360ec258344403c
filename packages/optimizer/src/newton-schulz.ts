import { type Device, matmul, muonNormalize, muonPolynomial, sumOfSquares, Tensor } from '@mtl/kernels';

/** The polynomial a x + b x^3 + c x^5 of the singular values that one step applies. */
export type NewtonSchulzCoefficients = readonly [a: number, b: number, c: number];

/** What Megatron-LM calls `--muon-coefficient-type`: the polynomials of consecutive steps, over and over. */
export const newtonSchulzCoefficients = {
  /** Jordan et al. 2024, and PyTorch's. */
  simple: [[3.4445, -4.775, 2.0315]],
  quintic: [
    [4.0848, -6.8946, 2.927],
    [3.9505, -6.3029, 2.6377],
    [3.7418, -5.5913, 2.3037],
    [2.8769, -3.1427, 1.2046],
    [2.8366, -3.0525, 1.2012],
  ],
} as const satisfies Record<string, readonly NewtonSchulzCoefficients[]>;

export interface NewtonSchulzOptions {
  readonly coefficients: readonly NewtonSchulzCoefficients[];
  /** 1 or more. */
  readonly numSteps: number;
  /** Of the factors of its matmuls; sums are float32. */
  readonly dtype: 'float32' | 'bfloat16';
  readonly device: Device;
  /** The shapes of the matrices, for its memory. */
  readonly shapes: ReadonlyArray<readonly [rows: number, columns: number]>;
}

/** Frobenius norms below it count as it: a matrix of zeros stays one. */
const epsilon = 1e-15;

/**
 * Brings the singular values of matrices near 1 by an odd polynomial that is applied again and again, with
 * matmuls alone (Jordan et al. 2024; Bernstein and Newhouse 2024).
 */
export class NewtonSchulz {
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
   * The matrix [R, C] float32 with singular values near `scale`, in the dtype of the matmuls; valid until the
   * next call, and the caller's to dispose of.
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
      // of the shorter side: X X^T or X^T X, which is symmetric
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
