import type { Parameter } from '@mtl/autograd';
import type { JsonObject } from '@mtl/checkpoint';
import { Tensor, updateExpertBias } from '@mtl/kernels';
import type { StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import type { Ranks } from '../steps/ranks.js';
import { isCount, makeStateError, type TrainerExtension } from './trainer-extension.js';

/** The number of rows (tokens) that this rank's router has sent to each expert of a layer. */
export interface LoadOfExperts {
  /** The layer's name, such as `decoder.layers.3.mlp`. */
  readonly layer: string;
  readonly numExperts: number;
  /**
   * float32 [E]: the bias that is added to the scores when experts are chosen; undefined for a router without
   * a bias.
   */
  readonly expertBias: Parameter | undefined;
  /** The amount by which a step increases or decreases a bias. */
  readonly updateRate: number;
  /** Returns the number of rows that each expert has received since the last call. */
  take(): readonly number[];
  /**
   * Returns the number of expert assignments since the last call: k for each row, including assignments that
   * were dropped because an expert was full.
   */
  takeChoices(): number;
  /**
   * The entropy of the router's scores, in nats, summed over the rows that are routed while `isWatched` is
   * true.
   */
  readonly entropy: {
    isWatched: boolean;
    take(): { readonly sum: number; readonly numRows: number };
  };
  /**
   * How many times each expert is chosen by scores alone, without the bias. `set` receives the sums over all
   * ranks, which the next step's loss uses.
   */
  readonly scored?: { take(): readonly number[]; set(counts: readonly number[]): void } | undefined;
}

interface ExpertBalanceOptions {
  /** The mixture-of-experts layers of this rank. */
  readonly loads: readonly LoadOfExperts[];
  /** The names of the mixture-of-experts layers on all ranks. */
  readonly layers: readonly string[];
  readonly numExperts: number;
  readonly ranks: Pick<Ranks, 'sum'>;
  /** Number of steps that a report covers. */
  readonly interval: number;
}

/**
 * Counts the rows of every expert over all ranks in each step, as integers, and moves the expert biases
 * towards even loads (DeepSeek-V3, arXiv 2412.19437). A bias increases by the rate if its expert received
 * fewer rows than the mean, and decreases by it if the expert received more. Skipped steps do not move
 * biases.
 *
 * A report covers the steps of an interval. It has the loads, the experts that got no rows, and the fraction
 * of expert assignments that were dropped because an expert was full. It also has the mean entropy of the
 * router's scores in the last step.
 */
export class ExpertBalance implements TrainerExtension {
  readonly name = 'experts';
  /** true because the next step chooses experts with the new biases */
  readonly waits = true;
  readonly #options: ExpertBalanceOptions;
  /** The number of rows since the last report, by layer and then by expert. */
  #reported: number[];
  /** Choices since the last report, by layer. */
  #choices: number[];
  #numSteps = 0;
  #idle = '';

  constructor(options: ExpertBalanceOptions) {
    this.#options = options;
    this.#reported = this.#zeros();
    this.#choices = makeZeros(options.layers);
  }

  get state(): JsonObject {
    return { reported: this.#reported, choices: this.#choices, steps: this.#numSteps };
  }

  restore(state: unknown, path: string): void {
    const { reported, choices, steps } = (state ?? {}) as Readonly<Record<string, unknown>>;
    const isKnown = areCounts(reported, this.#reported) && areCounts(choices, this.#choices);
    if (!isKnown || !isCount(steps)) throw makeStateError(this.name, path);
    this.#reported = [...reported];
    this.#choices = [...choices];
    this.#numSteps = steps;
  }

  aroundPasses(iteration: number, passes: () => void): void {
    for (const load of this.#options.loads) {
      load.entropy.isWatched = iteration % this.#options.interval === 0;
      // discards the counts of earlier passes, so that a repeated step counts only once
      load.take();
      load.takeChoices();
      load.scored?.take();
      if (load.entropy.isWatched) load.entropy.take();
    }
    passes();
  }

  afterStep({ iteration, skipped, isLeftOut }: StepMetrics): readonly TrainingEvent[] {
    if (isLeftOut === true) return [];
    const { interval } = this.#options;
    const isReported = iteration % interval === 0;
    const { counts, scored, choices, entropies, rows } = this.#sumsOfAll({ isReported });
    if (!skipped) {
      this.#moveBiases(counts);
      this.#setScored(scored);
    }
    this.#reported = addSums(this.#reported, counts);
    this.#choices = addSums(this.#choices, choices);
    this.#numSteps += 1;
    if (!isReported) return [];
    const event = this.#makeEvent(
      iteration,
      entropies.map((entropy, layer) => (rows[layer] === 0 ? null : entropy / rows[layer]!)),
    );
    this.#reported = this.#zeros();
    this.#choices = makeZeros(this.#options.layers);
    this.#numSteps = 0;
    return [event];
  }

  #zeros(): number[] {
    const { layers, numExperts } = this.#options;
    return new Array<number>(layers.length * numExperts).fill(0);
  }

  /**
   * Returns the counts and entropies of a step, summed over all ranks with one collective. Rows are listed by
   * layer and expert. Expert assignments, the sum of entropies, and the number of rows in this sum are listed
   * by layer.
   */
  #sumsOfAll({ isReported }: { readonly isReported: boolean }) {
    const { loads, layers, numExperts, ranks } = this.#options;
    const [counts, scored] = [this.#zeros(), this.#zeros()];
    const [choices, entropies, rows] = [makeZeros(layers), makeZeros(layers), makeZeros(layers)];
    for (const load of loads) {
      const layer = layers.indexOf(load.layer);
      const start = layer * numExperts;
      load.take().forEach((count, expert) => {
        counts[start + expert] = count;
      });
      load.scored?.take().forEach((count, expert) => {
        scored[start + expert] = count;
      });
      choices[layer] = load.takeChoices();
      if (!isReported) continue;
      const { sum, numRows } = load.entropy.take();
      [entropies[layer], rows[layer]] = [sum, numRows];
    }
    const parts = { counts, scored, choices, entropies, rows };
    return splitNumbers(ranks.sum(Object.values(parts).flat()), parts);
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

  #makeEvent(iteration: number, entropy: ReadonlyArray<number | null>): TrainingEvent {
    const { layers, numExperts } = this.#options;
    const loads = layers.map((_, index) =>
      this.#reported.slice(index * numExperts, (index + 1) * numExperts),
    );
    const dropped = loads.map((load, index) => {
      const numChoices = this.#choices[index]!;
      return numChoices === 0 ? 0 : 1 - load.reduce((sum, count) => sum + count, 0) / numChoices;
    });
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
      fields: { steps: this.#numSteps, layers, loads, dropped, entropy },
    };
  }
}

const makeZeros = (layers: readonly string[]): number[] => new Array<number>(layers.length).fill(0);

const addSums = (sums: readonly number[], more: readonly number[]): number[] =>
  sums.map((sum, index) => sum + more[index]!);

/** Returns true if `value` is a list of counts with the same length as the given list. */
const areCounts = (value: unknown, { length }: readonly number[]): value is readonly number[] =>
  Array.isArray(value) && value.length === length && value.every(isCount);

/** Splits `numbers` into consecutive lists with the lengths of `parts`. */
function splitNumbers<Name extends string>(
  numbers: readonly number[],
  parts: Readonly<Record<Name, readonly number[]>>,
): Record<Name, readonly number[]> {
  let start = 0;
  const entries = Object.entries<readonly number[]>(parts).map(([name, { length }]) => {
    start += length;
    return [name, numbers.slice(start - length, start)];
  });
  return Object.fromEntries(entries) as Record<Name, readonly number[]>;
}
