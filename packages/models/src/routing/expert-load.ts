import type { Parameter, PrecisionState } from '@mtl/autograd';
import { addCounts, type Device, sumRows, Tensor } from '@mtl/kernels';
import { hasValues } from '@mtl/kernels/internal';
import { RouterEntropy } from './router-sums.js';

/** The rows that the experts of a layer got on this process since the last call of `take`. */
export class ExpertLoad {
  /** The layer's name, such as `decoder.layers.3.mlp`. */
  readonly layer: string;
  /** E */
  readonly numExperts: number;
  /** float32 [E]: the bias that affects the choice; undefined without expert bias. */
  readonly expertBias: Parameter | undefined;
  /** The amount by which a step moves the bias. */
  readonly updateRate: number;
  /** The load that `global_aux_loss` carries from step to step; undefined without this loss. */
  readonly scored: ScoredLoad | undefined;
  readonly entropy = new RouterEntropy();
  #counts: Tensor | undefined;
  #numChoices = 0;

  constructor(options: {
    readonly layer: string;
    readonly numExperts: number;
    readonly expertBias: Parameter | undefined;
    readonly updateRate: number;
    readonly scored?: ScoredLoad | undefined;
  }) {
    this.layer = options.layer;
    this.numExperts = options.numExperts;
    this.expertBias = options.expertBias;
    this.updateRate = options.updateRate;
    this.scored = options.scored;
  }

  /**
   * Adds the rows of a pass and the choices of its router. `offsets` is int32 [E + 1]; expert e has the rows
   * between neighbours e and e + 1.
   */
  add(offsets: Tensor, numChoices: number): void {
    addCounts({ counts: this.#countsOn(offsets.device), offsets });
    this.#numChoices += numChoices;
  }

  /** Returns the rows of each expert since the last call. */
  take(): readonly number[] {
    if (this.#counts === undefined || !hasValues(this.#counts.device)) {
      return new Array<number>(this.numExperts).fill(0);
    }
    const counts = Array.from(this.#counts.read<'int64'>(), Number);
    this.#counts.zero();
    return counts;
  }

  /**
   * Returns the number of choices since the last call, k for each row, including choices beyond an expert's
   * capacity.
   */
  takeChoices(): number {
    const numChoices = this.#numChoices;
    this.#numChoices = 0;
    return numChoices;
  }

  dispose(): void {
    this.entropy.dispose();
    this.scored?.dispose();
    this.#counts?.dispose();
    this.#counts = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #countsOn(device: Device): Tensor {
    this.#counts ??= Tensor.zeros({ shape: [this.numExperts], dtype: 'int64', device });
    return this.#counts;
  }
}

/**
 * The frequency with which the scores alone would choose each expert of a layer, over all ranks and a whole
 * step. `global_aux_loss` uses the frequency of the previous step, since a step's own frequency is known only
 * after its last micro-batch is routed. Checkpoints keep it.
 */
export class ScoredLoad implements PrecisionState {
  readonly name = 'load';
  readonly #numExperts: number;
  readonly #device: Device;
  #tensor: Tensor | undefined;
  #counts: Tensor | undefined;

  constructor({ numExperts, device }: { readonly numExperts: number; readonly device: Device }) {
    this.#numExperts = numExperts;
    this.#device = device;
  }

  /** float32 [E]: the load of the step before, relative to an even load; at first 1. */
  get tensor(): Tensor {
    const shape = [this.#numExperts];
    this.#tensor ??= Tensor.from(new Float32Array(this.#numExperts).fill(1), {
      shape,
      dtype: 'float32',
      device: this.#device,
    });
    return this.#tensor;
  }

  /** Adds the choices of this rank's rows in a pass: float32 [N, E], of N sequences. */
  add(counts: Tensor): void {
    const options = { shape: [this.#numExperts], dtype: 'float32', device: this.#device } as const;
    this.#counts ??= Tensor.zeros(options);
    sumRows({ output: this.#counts, input: counts, accumulate: true });
  }

  /** Returns the choices of this rank since the last call. */
  take(): readonly number[] {
    if (this.#counts === undefined || !hasValues(this.#device)) {
      return new Array<number>(this.#numExperts).fill(0);
    }
    const counts = this.#counts.toArray();
    this.#counts.zero();
    return counts;
  }

  /** Sets the load of the next step from the choices of all ranks in a step. */
  set(counts: readonly number[]): void {
    const sum = counts.reduce((total, count) => total + count, 0);
    if (sum === 0) return;
    this.tensor.write(Float32Array.from(counts, (count) => (count * counts.length) / sum));
  }

  dispose(): void {
    this.#tensor?.dispose();
    this.#counts?.dispose();
    this.#tensor = undefined;
    this.#counts = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
