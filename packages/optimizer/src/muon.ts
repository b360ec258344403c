import type { Parameter } from '@mtl/autograd';
import { adamwScalars, muonMomentum, muonUpdate, type Slice, Tensor } from '@mtl/kernels';
import { NewtonSchulz, newtonSchulzCoefficients } from './newton-schulz.js';
import type {
  BindOptions,
  BoundOptimizer,
  Optimizer,
  OptimizerRange,
  OptimizerState,
  OptimizerStep,
} from './optimizer.js';
import type { MatrixOfParameter, WholeMatrices } from './whole-matrices.js';

/**
 * How long an update of a matrix [outputs, inputs] is, relative to singular values of 1; the names are
 * Megatron-LM's. `shape_scaling` is that of Jordan et al. 2024 (PyTorch's `original`); `spectral` with an
 * extra factor of 0.2 gives the updates the RMS of AdamW's (Liu et al. 2025, PyTorch's `match_rms_adamw`).
 */
export const muonScales = {
  spectral: (outputs: number, inputs: number) => Math.sqrt(Math.max(outputs, inputs)),
  unit_rms_norm: (outputs: number, inputs: number) => Math.sqrt(outputs / inputs),
  shape_scaling: (outputs: number, inputs: number) => Math.sqrt(Math.max(1, outputs / inputs)),
} as const;

export interface MuonOptions {
  /** The weight of the old average of gradients. */
  readonly momentum: number;
  readonly nesterov: boolean;
  readonly scaleMode: keyof typeof muonScales;
  readonly extraScaleFactor: number;
  readonly coefficientType: keyof typeof newtonSchulzCoefficients;
  /** Steps of Newton-Schulz. */
  readonly numSteps: number;
  /** Whether the matrices of queries, keys and values in one parameter are updated one by one. */
  readonly splitQkv: boolean;
  /** The dtype of the factors of Newton-Schulz's matmuls. */
  readonly dtype: 'float32' | 'bfloat16';
}

/**
 * Muon (Jordan et al. 2024): the average of gradients of a matrix, with all its singular values brought near
 * one. For parameters with `matrices`; the others need another rule (see `ModelOptimizerOptions.optimizer`).
 * The update is that of the whole matrix, however ranks share it.
 */
export class Muon implements Optimizer {
  /** The name is PyTorch's. */
  static readonly states: readonly OptimizerState[] = [{ name: 'momentum_buffer', dtype: 'float32' }];

  readonly states = Muon.states;
  readonly #options: MuonOptions;

  constructor(options: MuonOptions) {
    this.#options = options;
  }

  bind(ranges: readonly OptimizerRange[], options: BindOptions): BoundOptimizer {
    return new BoundMuon(this.#options, ranges, options);
  }
}

/** A parameter's part of a range, and the matrices to orthogonalise for it. */
interface MuonPart {
  readonly matrices: readonly MatrixOfParameter[];
  readonly decays: boolean;
  readonly parameter: Tensor;
  readonly modelParameter: Tensor | undefined;
  readonly direction: Tensor;
}

function shapeOf({ box }: MatrixOfParameter): [rows: number, columns: number] {
  const sizes = box.map(({ start, end }) => end - start);
  const columns = sizes.at(-1)!;
  return [sizes.reduce((product, size) => product * size, 1) / columns, columns];
}

class BoundMuon implements BoundOptimizer {
  readonly #options: MuonOptions;
  readonly #ranges: readonly OptimizerRange[];
  /** By range. */
  readonly #parts: readonly (readonly MuonPart[])[];
  readonly #matrices: WholeMatrices;
  readonly #newtonSchulz: NewtonSchulz | undefined;
  readonly #scalars: Tensor;
  #weightDecay = 0;

  constructor(options: MuonOptions, ranges: readonly OptimizerRange[], { device, matrices }: BindOptions) {
    const { dtype, numSteps, coefficientType } = options;
    this.#options = options;
    this.#ranges = ranges;
    this.#matrices = matrices;
    this.#parts = ranges.map((range) => partsOf(range, options));
    matrices.reserve(this.#parts.flat().flatMap((part) => part.matrices));
    this.#scalars = Tensor.zeros({ shape: [5], dtype: 'float32', device });
    const shapes = this.#parts.flat().flatMap((part) => part.matrices.map(shapeOf));
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
    for (const { matrices, decays, ...tensors } of this.#parts[index]!) {
      for (const matrix of matrices) {
        using direction = this.#matrices.read(matrix);
        const [outputs, inputs] = shapeOf(matrix);
        const scale = muonScales[scaleMode](outputs, inputs) * extraScaleFactor;
        using update = this.#newtonSchulz!.orthogonalize(direction, { scale });
        this.#matrices.write(matrix, update);
      }
      muonUpdate({
        ...tensors,
        scalars: this.#scalars,
        weightDecay: decays ? this.#weightDecay : 0,
        clearDirection: clearGradient,
      });
    }
  }

  dispose(): void {
    for (const { parameter, modelParameter, direction } of this.#parts.flat()) {
      for (const tensor of [parameter, modelParameter, direction]) tensor?.dispose();
    }
    this.#newtonSchulz?.dispose();
    this.#scalars.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function partsOf(
  { start, segments, parameter, modelParameter, gradient }: OptimizerRange,
  { splitQkv }: MuonOptions,
): MuonPart[] {
  return segments.flatMap(({ end, group, range }): MuonPart[] => {
    if (range === undefined) return [];
    const offset = Math.max(0, range.start - start);
    const viewOf = (tensor: Tensor): Tensor => tensor.view({ offset, shape: [end - offset] });
    const boxes = matricesHere(range.parameter, { splitQkv });
    return [
      {
        matrices: boxes.map((box) => ({ range, box })),
        decays: group.decays,
        parameter: viewOf(parameter),
        modelParameter: modelParameter && viewOf(modelParameter),
        direction: viewOf(gradient),
      },
    ];
  });
}

/**
 * The matrices of a parameter that are updated one by one, of which this rank holds something: other ranks
 * have other experts.
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

/** Muon for the matrices between hidden activations, another rule for everything else. */
export const muonWith =
  ({ muon, auxiliary }: { readonly muon: Optimizer; readonly auxiliary: Optimizer }) =>
  (parameter: Parameter): Optimizer =>
    parameter.matrices.length > 0 ? muon : auxiliary;
