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
    /** The groups and query heads of this rank. */
    readonly groups: Slice;
    readonly heads: Slice;
  };
  /** The packed projection of this rank's groups: weight [G, A / G + 2, D, H] and bias [G, A / G + 2, D]. */
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
}

/**
 * Records the highest attention scores of this rank's heads in a layer, and scales the weights of queries and
 * keys (QK-clip). Recomputed passes do not change the recorded scores, because their values are the same.
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

  /** float32, one element for each head of this rank; undefined while scores are not recorded. */
  get tensor(): Tensor | undefined {
    return this.#isWatched ? this.#tensor : undefined;
  }

  /** Starts to record the highest scores of the passes that follow, beginning at -infinity. */
  watch(): void {
    const size = this.heads.end - this.heads.start;
    this.#tensor ??= Tensor.empty({ shape: [size], dtype: 'float32', device: this.#options.device });
    this.#isWatched = true;
    this.#tensor.write(new Float32Array(size).fill(Number.NEGATIVE_INFINITY));
  }

  /** Stops recording. Returns the highest score of each head of this rank since `watch`. */
  take(): readonly number[] {
    if (!this.#isWatched) return [];
    this.#isWatched = false;
    return this.#tensor!.toArray();
  }

  /**
   * Returns slices of the projection's weight, each with a factor. If each slice is multiplied by its factor,
   * the scores of query head h are multiplied by factors[h]. Queries are scaled by factors[h]^alpha. The key
   * of a group is scaled by f^(1 - alpha), where f is the smallest factor of the group's heads. The scores of
   * the other heads in the group thus become smaller than requested. With one head per group, this is QK-clip
   * (Kimi Team 2025, "Kimi K2"). Biases are scaled like their weights.
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
