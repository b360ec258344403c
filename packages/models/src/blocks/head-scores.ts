import type { Parameter, ScaledPart } from '@mtl/autograd';
import { Tensor } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';

interface HeadScoresOptions {
  /** Global index of the layer. */
  readonly layer: number;
  readonly groups: {
    /** G, of all ranks. */
    readonly numGroups: number;
    /** A / G */
    readonly headsPerGroup: number;
    /** The groups and the query heads of this rank. */
    readonly groups: Slice;
    readonly heads: Slice;
  };
  /**
   * The packed projection of this rank's groups: its weight [G, A / G + 2, D, H] and bias [G, A / G + 2, D].
   */
  readonly weight: Parameter;
  readonly bias: Parameter | undefined;
}

/**
 * The highest scores of this rank's heads of an attention, and the weights of their queries and keys. Passes
 * raise the scores while these are watched; recomputed passes raise them to the same values.
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

  /** [heads of this rank] float32; undefined while nothing is watched. */
  get tensor(): Tensor | undefined {
    return this.#isWatched ? this.#tensor : undefined;
  }

  /** Watches the scores of the following passes, from -infinity on. */
  watch(): void {
    const size = this.heads.end - this.heads.start;
    // to read the weight would wait for a gather that the first layers can compute next to
    this.#tensor ??= Tensor.empty({
      shape: [size],
      dtype: 'float32',
      device: this.#options.weight.data.device,
    });
    this.#isWatched = true;
    this.#tensor.write(new Float32Array(size).fill(Number.NEGATIVE_INFINITY));
  }

  /** Ends the watch. Returns the highest score of each head of this rank since `watch`. */
  take(): readonly number[] {
    if (!this.#isWatched) return [];
    this.#isWatched = false;
    return this.#tensor!.toArray();
  }

  /**
   * Returns the parts of the projection that are scaled to multiply the scores of query head h by factors[h]:
   * queries by factors[h]^alpha, the key of a group by f^(1 - alpha) with the smallest factor f of the heads
   * that share it, so that the scores of the other heads become smaller than asked. With one head per group
   * it is QK-clip of Kimi Team 2025, "Kimi K2". Biases are scaled as their weights are: scores are products
   * of their sums.
   *
   * @param factors of this rank's heads, above 0 and at most 1
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
