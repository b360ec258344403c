import type { Parameter, PrecisionState } from '@mtl/autograd';
import { addCounts, type Device, hasValues, sumRows, Tensor } from '@mtl/kernels';
import { RouterEntropy } from './router-sums.js';

/** Counts how many rows each expert of a layer gets on this process between two calls of `take`. */
export class ExpertLoad {
  /** The layer's name, for example `decoder.layers.3.mlp`. */
  readonly layer: string;
  /** E */
  readonly numExperts: number;
  /** float32 [E]: the bias, added to scores when experts are chosen. Undefined if the router has no bias. */
  readonly expertBias: Parameter | undefined;
  /** How far a step moves the bias. */
  readonly updateRate: number;
  /** The loads that `global_aux_loss` will use in the next step. Undefined without this loss. */
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
   * Adds the rows of a forward pass, and the `numChoices` expert assignments that its router made. `offsets`
   * is int32 [E + 1]: expert e has the rows offsets[e] to offsets[e + 1] - 1.
   */
  add(offsets: Tensor, numChoices: number): void {
    addCounts({ counts: this.#countsOn(offsets.device), offsets });
    this.#numChoices += numChoices;
  }

  /** Returns how many rows each expert got since the last call. */
  take(): readonly number[] {
    if (this.#counts === undefined || !hasValues(this.#counts.device)) {
      return new Array<number>(this.numExperts).fill(0);
    }
    const counts = Array.from(this.#counts.read<'int64'>(), Number);
    this.#counts.zero();
    return counts;
  }

  /**
   * Returns how many expert assignments the router made since the last call: k for each row, including
   * assignments beyond an expert's capacity.
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
 * Counts how often scores without biases would choose each expert of a layer, over all ranks in a step.
 * `global_aux_loss` uses the load of the previous step, because a step's own load is known only after its
 * last micro-batch. Checkpoints store this load.
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

  /**
   * float32 [E]: the load of each expert in the previous step, relative to an even load. It is 1 before the
   * first step.
   */
  get tensor(): Tensor {
    const shape = [this.#numExperts];
    this.#tensor ??= Tensor.from(new Float32Array(this.#numExperts).fill(1), {
      shape,
      dtype: 'float32',
      device: this.#device,
    });
    return this.#tensor;
  }

  /** Adds the expert assignments of this rank's rows in a forward pass: float32 [N, E], for N sequences. */
  add(counts: Tensor): void {
    const options = { shape: [this.#numExperts], dtype: 'float32', device: this.#device } as const;
    this.#counts ??= Tensor.zeros(options);
    sumRows({ output: this.#counts, input: counts, accumulate: true });
  }

  /** Returns how often this rank's rows chose each expert since the last call. */
  take(): readonly number[] {
    if (this.#counts === undefined || !hasValues(this.#device)) {
      return new Array<number>(this.#numExperts).fill(0);
    }
    const counts = this.#counts.toArray();
    this.#counts.zero();
    return counts;
  }

  /** Sets the load for the next step from the expert assignments of all ranks in this step. */
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
