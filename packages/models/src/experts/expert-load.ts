import type { Parameter } from '@mtl/autograd';
import { addCounts, type Device, hasValues, Tensor } from '@mtl/kernels';
import { RouterEntropy } from './router-entropy.js';
import type { ScoredLoad } from './scored-load.js';

/** The rows that the experts of a layer got in the steps since they were last taken, on this process. */
export class ExpertLoad {
  /** The layer's name, such as `decoder.layers.3.mlp`. */
  readonly layer: string;
  /** E */
  readonly numExperts: number;
  /** float32 [E]: the bias that takes part in the choice; undefined where there is none. */
  readonly expertBias: Parameter | undefined;
  /** How much a step moves it. */
  readonly updateRate: number;
  /** What `global_aux_loss` takes from step to step; undefined where there is no such loss. */
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

  /** Adds the rows of a pass: int32 [E + 1], as differences of neighbours; and the choices of its router. */
  add(offsets: Tensor, numChoices: number): void {
    addCounts({ counts: this.#countsOn(offsets.device), offsets });
    this.#numChoices += numChoices;
  }

  /** The rows of each expert since the last call. */
  take(): readonly number[] {
    if (this.#counts === undefined || !hasValues(this.#counts.device)) {
      return new Array<number>(this.numExperts).fill(0);
    }
    const counts = Array.from(this.#counts.read<'int64'>(), Number);
    this.#counts.zero();
    return counts;
  }

  /** The experts that rows have chosen since the last call, k for each row: those without room for it too. */
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
