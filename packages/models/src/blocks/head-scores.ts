import type { Parameter, ScaledPart } from '@mtl/autograd';
import { type Device, Tensor } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';

interface HeadScoresOptions {
  /** Global index of the layer. */
  readonly layer: number;
  readonly device: Device;
  readonly groups: {
    /** G, of all ranks. */
    readonly numGroups: number;
    /** A / G */
    readonly headsPerGroup: number;
    /** This rank's groups; `heads` are this rank's query heads. */
    readonly groups: Slice;
    readonly heads: Slice;
  };
  /** The packed projection for this rank's groups: weight [G, A / G + 2, D, H] and bias [G, A / G + 2, D]. */
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
}

/**
 * Records the highest attention score of each of this rank's heads in a layer, and scales the weights of
 * queries and keys (QK-clip). Recomputed forward passes do not change the recorded scores, because they
 * compute the same scores.
 */
export class HeadScores {
  /** Global index of the layer. */
  readonly layer: number;
  /** A, of all ranks. */
  readonly numHeads: number;
  /** The query heads of this rank. */
  readonly heads: Slice;
  readonly #options: HeadScoresOptions;
  #tensor: Tensor | undefined;
  #isWatched = false;

  constructor(options: HeadScoresOptions) {
    this.layer = options.layer;
    const { numGroups, headsPerGroup, heads } = options.groups;
    this.numHeads = numGroups * headsPerGroup;
    this.heads = heads;
    this.#options = options;
  }

  /** float32, with one element for each of this rank's heads; undefined while scores are not recorded. */
  get tensor(): Tensor | undefined {
    return this.#isWatched ? this.#tensor : undefined;
  }

  /**
   * Starts to record the highest scores in the forward passes that follow. Each recorded score is initially
   * -infinity.
   */
  watch(): void {
    const size = this.heads.end - this.heads.start;
    this.#tensor ??= Tensor.empty({ shape: [size], dtype: 'float32', device: this.#options.device });
    this.#isWatched = true;
    this.#tensor.write(new Float32Array(size).fill(Number.NEGATIVE_INFINITY));
  }

  /**
   * Stops recording. Returns the highest score of each of this rank's heads since `watch`, or an empty list
   * if scores were not recorded.
   */
  take(): readonly number[] {
    if (!this.#isWatched) return [];
    this.#isWatched = false;
    return this.#tensor!.toArray();
  }

  /**
   * Returns slices of the projection's weight and bias, each with a factor by which the caller must multiply
   * it so that the scores of query head h are multiplied by factors[h]. The head's query is scaled by
   * factors[h]^alpha. A group's key is scaled by f^(1 - alpha), where f is the smallest factor of the group's
   * heads, so the other heads of the group get smaller scores than requested. With one head per group, this
   * is QK-clip (Kimi Team 2025, "Kimi K2").
   *
   * @param factors the factors of this rank's heads, above 0 and at most 1
   */
  scaledBy(factors: readonly number[], alpha: number): readonly ScaledPart[] {
    const { groups, weight, bias } = this.#options;
    const { headsPerGroup } = groups;
    const numGroups = groups.groups.end - groups.groups.start;
    const parameters = bias === undefined ? [weight] : [weight, bias];
    const part = (row: number, factor: number): ScaledPart[] => {
      if (factor === 1) return [];
      return parameters.map((parameter) => {
        const size = parameter.size / (numGroups * (headsPerGroup + 2));
        return { parameter, start: row * size, end: (row + 1) * size, factor };
      });
    };
    return Array.from({ length: numGroups }, (_, group) => {
      const own = factors.slice(group * headsPerGroup, (group + 1) * headsPerGroup);
      const first = group * (headsPerGroup + 2);
      return [
        ...own.flatMap((factor, member) => part(first + member, factor ** alpha)),
        ...part(first + headsPerGroup, Math.min(...own) ** (1 - alpha)),
      ];
    }).flat();
  }

  dispose(): void {
    this.#tensor?.dispose();
    this.#tensor = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
