import type { Parameter } from '@mtl/autograd';
import { addCounts, type Device, hasValues, Tensor } from '@mtl/kernels';
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
  #counts: Tensor | undefined;

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

  /** Adds the rows of a pass: int32 [E + 1], as differences of neighbours. */
  add(offsets: Tensor): void {
    addCounts({ counts: this.#countsOn(offsets.device), offsets });
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

  dispose(): void {
    this.scored?.dispose();
    this.#counts?.dispose();
    this.#counts = undefined;
  }

  #countsOn(device: Device): Tensor {
    this.#counts ??= Tensor.zeros({ shape: [this.numExperts], dtype: 'int64', device });
    return this.#counts;
  }
}
