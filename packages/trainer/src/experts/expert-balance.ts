import type { Parameter } from '@mtl/autograd';
import type { JsonObject } from '@mtl/checkpoint';
import { Tensor, updateExpertBias } from '@mtl/kernels';
import { isCount, noStateOf } from '../extensions.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import type { Ranks } from '../ranks.js';
import type { TrainerExtension } from '../trainer-extension.js';
import type { TrainingEvent } from '../training-event.js';

/** The rows that the experts of a layer got on this rank. */
export interface LoadOfExperts {
  /** The layer's name, such as `decoder.layers.3.mlp`. */
  readonly layer: string;
  readonly numExperts: number;
  /** float32 [E]: a bias that takes part in the choice of experts; undefined where there is none. */
  readonly expertBias: Parameter | undefined;
  /** How much a step moves it. */
  readonly updateRate: number;
  /** The rows of each expert since the last call. */
  take(): readonly number[];
  /** Choices by scores alone, whose sums over all ranks are what the next step's loss reads. */
  readonly scored?: { take(): readonly number[]; set(counts: readonly number[]): void } | undefined;
}

export interface ExpertBalanceOptions {
  /** The layers with experts of this rank. */
  readonly loads: readonly LoadOfExperts[];
  /** The names of the layers with experts of all ranks, and how many experts they have. */
  readonly layers: readonly string[];
  readonly numExperts: number;
  readonly ranks: Pick<Ranks, 'sum'>;
  /** Steps whose loads are reported together. */
  readonly interval: number;
}

/**
 * Counts the rows of every expert over all ranks, once a step, in whole numbers; moves the expert biases
 * towards even loads (DeepSeek-V3, arXiv 2412.19437: up by the rate where an expert got fewer rows than the
 * mean, down where it got more); and reports loads, naming experts that got no rows. Steps that are skipped
 * move nothing.
 */
export class ExpertBalance implements TrainerExtension {
  readonly name = 'experts';
  /** The choice of the next step depends on the biases. */
  readonly waits = true;
  readonly #options: ExpertBalanceOptions;
  /** Rows since the last report: by layer, then by expert. */
  #reported: number[];
  #numSteps = 0;
  #idle = '';

  constructor(options: ExpertBalanceOptions) {
    this.#options = options;
    this.#reported = this.#zeros();
  }

  get state(): JsonObject {
    return { reported: this.#reported, steps: this.#numSteps };
  }

  restore(state: unknown, path: string): void {
    const { reported, steps } = (state ?? {}) as { readonly reported?: unknown; readonly steps?: unknown };
    const isKnown = Array.isArray(reported) && reported.every(isCount) && isCount(steps);
    if (!isKnown || reported.length !== this.#reported.length) throw noStateOf(this.name, path);
    this.#reported = [...(reported as readonly number[])];
    this.#numSteps = steps;
  }

  aroundPasses(_: number, passes: () => void): void {
    // those of passes that are computed again count once
    for (const load of this.#options.loads) {
      load.take();
      load.scored?.take();
    }
    passes();
  }

  afterStep({ iteration, skipped, isLeftOut }: StepMetrics): readonly TrainingEvent[] {
    if (isLeftOut === true) return [];
    const { numExperts, interval } = this.#options;
    const { counts, scored } = this.#countsOfAll();
    if (!skipped) {
      this.#moveBiases(counts);
      this.#setScored(scored);
    }
    this.#reported = this.#reported.map((sum, index) => sum + counts[index]!);
    this.#numSteps += 1;
    if (iteration % interval !== 0) return [];
    const loads = this.#options.layers.map((_, index) =>
      this.#reported.slice(index * numExperts, (index + 1) * numExperts),
    );
    const event = this.#eventOf(iteration, loads);
    this.#reported = this.#zeros();
    this.#numSteps = 0;
    return [event];
  }

  #zeros(): number[] {
    const { layers, numExperts } = this.#options;
    return new Array<number>(layers.length * numExperts).fill(0);
  }

  /** The rows of a step by layer and expert, of all ranks. */
  #countsOfAll(): { readonly counts: readonly number[]; readonly scored: readonly number[] } {
    const { loads, layers, numExperts, ranks } = this.#options;
    const [counts, scored] = [this.#zeros(), this.#zeros()];
    for (const load of loads) {
      const start = layers.indexOf(load.layer) * numExperts;
      load.take().forEach((count, expert) => {
        counts[start + expert] = count;
      });
      load.scored?.take().forEach((count, expert) => {
        scored[start + expert] = count;
      });
    }
    const sums = ranks.sum([...counts, ...scored]);
    return { counts: sums.slice(0, counts.length), scored: sums.slice(counts.length) };
  }

  #setScored(counts: readonly number[]): void {
    const { loads, layers, numExperts } = this.#options;
    for (const { layer, scored } of loads) {
      const start = layers.indexOf(layer) * numExperts;
      scored?.set(counts.slice(start, start + numExperts));
    }
  }

  #moveBiases(counts: readonly number[]): void {
    const { loads, layers, numExperts } = this.#options;
    for (const { layer, expertBias, updateRate } of loads) {
      if (expertBias === undefined || updateRate === 0) continue;
      const start = layers.indexOf(layer) * numExperts;
      const ofLayer = BigInt64Array.from(counts.slice(start, start + numExperts), BigInt);
      const { data } = expertBias;
      using tensor = Tensor.from(ofLayer, { shape: [numExperts], dtype: 'int64', device: data.device });
      updateExpertBias({ expertBias: data, counts: tensor, rate: updateRate });
    }
  }

  #eventOf(iteration: number, loads: ReadonlyArray<readonly number[]>): TrainingEvent {
    const { layers } = this.#options;
    const idle = layers
      .map((layer, index) => {
        const experts = loads[index]!.flatMap((count, expert) => (count === 0 ? [expert] : []));
        return experts.length === 0 ? '' : `${layer}: ${experts.join(', ')}`;
      })
      .filter((text) => text !== '')
      .join('; ');
    const isNews = idle !== this.#idle && idle !== '';
    this.#idle = idle;
    const steps = this.#numSteps === 1 ? 'this step' : `the last ${this.#numSteps} steps`;
    return {
      type: 'experts',
      iteration,
      ...(isNews && { text: `experts that got no tokens in ${steps}: ${idle}` }),
      fields: { steps: this.#numSteps, layers, loads },
    };
  }
}
