import type { ScaledPart } from '@mtl/autograd';
import type { Slice } from '@mtl/layout';
import type { ModelOptimizer } from '@mtl/optimizer';
import type { StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import type { Ranks } from '../steps/ranks.js';
import type { TrainerExtension } from './trainer-extension.js';

/** The attention heads of a layer on this rank. */
export interface WatchedHeads {
  /** Global index of the layer. */
  readonly layer: number;
  /** The number of query heads in the layer, over all ranks. */
  readonly numHeads: number;
  /** The query heads of this rank. */
  readonly heads: Slice;
  /** Starts to record the highest scores of the following passes. */
  watch(): void;
  /**
   * Stops recording. Returns the highest score of each head since `watch`, or -infinity for a head without a
   * score.
   */
  take(): readonly number[];
  /**
   * Returns the weight slices to scale, so that each head's scores are multiplied by the head's factor.
   * `alpha` is the exponent of `QkClip`.
   */
  scaledBy(factors: readonly number[], alpha: number): readonly ScaledPart[];
}

/** QK-clip (Kimi Team 2025, "Kimi K2"), with Megatron-LM's names. */
export interface QkClip {
  /**
   * The factor of a head is split between its weights: queries are multiplied by factor^alpha, keys by
   * factor^(1 - alpha).
   */
  readonly alpha: number;
  /** The weights of a head are scaled only if the head's highest score is above this value. */
  readonly threshold: number;
}

interface AttentionScoresOptions {
  /** The heads of all layers of this rank. */
  readonly watched: readonly WatchedHeads[];
  readonly optimizer: Pick<ModelOptimizer, 'scaleParts'>;
  readonly ranks: Pick<Ranks, 'maximum'>;
  /** Default: no head is clipped. */
  readonly clip?: QkClip | undefined;
  /** Number of steps that a report covers. */
  readonly interval: number;
}

/**
 * Finds the highest score of every attention head in each step, over all micro-batches and ranks. With
 * `clip`, after the update, also scales the weights of each head whose highest score m is above the
 * threshold, so that the head's scores are multiplied by `threshold / m`. Skipped steps clip nothing.
 *
 * A report covers the steps of an interval: the highest score of the model and of each layer, and the number
 * of clipped heads. A head counts once for each step that clips it.
 */
export class AttentionScores implements TrainerExtension {
  readonly name = 'attention-scores';
  /** true because the next step computes with the clipped weights */
  readonly waits = true;
  readonly #options: AttentionScoresOptions;
  /** The highest scores since the last report, by layer. */
  #reported: readonly number[] = [];
  /** The number of layers and heads in the whole model. Known after the ranks have exchanged their counts. */
  #sizes: { readonly layerCount: number; readonly numHeads: number } | undefined;
  #numClipped = 0;

  constructor(options: AttentionScoresOptions) {
    this.#options = options;
  }

  aroundPasses(_: number, passes: () => void): void {
    for (const heads of this.#options.watched) heads.watch();
    passes();
  }

  afterStep({ iteration, skipped, isLeftOut }: StepMetrics): readonly TrainingEvent[] {
    const { interval, clip } = this.#options;
    // a step that is left out (--iterations-to-skip) computes no scores on any rank
    if (isLeftOut !== true) {
      const highest = this.#highestOfAll();
      if (clip !== undefined && !skipped) this.#clip(highest, clip);
      this.#addToReport(highest);
    }
    if (iteration % interval !== 0 || this.#reported.length === 0) return [];
    const layers = this.#reported;
    const [numClipped, all] = [this.#numClipped, Math.max(...layers)];
    this.#reported = [];
    this.#numClipped = 0;
    const text = `the highest attention score of ${interval === 1 ? 'this step' : `the last ${interval} steps`} is ${all.toPrecision(4)}`;
    const clipped = `${numClipped} ${numClipped === 1 ? 'head was' : 'heads were'} clipped`;
    return [
      {
        type: 'attention_scores',
        iteration,
        text: clip === undefined ? text : `${text}; ${clipped}`,
        fields: { max_attention_logit: all, layers, ...(clip !== undefined && { clipped: numClipped }) },
      },
    ];
  }

  #addToReport(highest: readonly number[]): void {
    const { layerCount, numHeads } = this.#sizesOfAll();
    this.#reported = Array.from({ length: layerCount }, (_, layer) =>
      Math.max(
        this.#reported[layer] ?? Number.NEGATIVE_INFINITY,
        ...highest.slice(layer * numHeads, (layer + 1) * numHeads),
      ),
    );
  }

  /**
   * Returns the number of layers and heads in the whole model. Each rank knows only its own stage, so the
   * counts are summed over ranks.
   */
  #sizesOfAll(): { readonly layerCount: number; readonly numHeads: number } {
    if (this.#sizes === undefined) {
      const { watched, ranks } = this.#options;
      const own = [
        Math.max(0, ...watched.map(({ layer }) => layer + 1)),
        Math.max(0, ...watched.map((one) => one.numHeads)),
      ];
      const [layerCount, numHeads] = ranks.maximum(own) as [number, number];
      this.#sizes = { layerCount, numHeads };
    }
    return this.#sizes;
  }

  /** Returns the highest score of each head in each layer, over all ranks, using one collective. */
  #highestOfAll(): readonly number[] {
    const { watched, ranks } = this.#options;
    const { layerCount, numHeads } = this.#sizesOfAll();
    const own = new Array<number>(layerCount * numHeads).fill(Number.NEGATIVE_INFINITY);
    for (const one of watched) {
      one.take().forEach((score, head) => {
        own[one.layer * numHeads + one.heads.start + head] = score;
      });
    }
    return ranks.maximum(own);
  }

  #clip(highest: readonly number[], { alpha, threshold }: QkClip): void {
    const { watched, optimizer } = this.#options;
    const { numHeads } = this.#sizesOfAll();
    const isAbove = (score: number): boolean => Number.isFinite(score) && score > threshold;
    const numAbove = highest.filter(isAbove).length;
    // every rank knows all scores, so either all ranks scale weights or none does
    if (numAbove === 0) return;
    this.#numClipped += numAbove;
    optimizer.scaleParts(
      watched.flatMap((one) => {
        const start = one.layer * numHeads;
        const own = highest.slice(start + one.heads.start, start + one.heads.end);
        const factors = own.map((score) => (isAbove(score) ? threshold / score : 1));
        return one.scaledBy(factors, alpha);
      }),
    );
  }
}
