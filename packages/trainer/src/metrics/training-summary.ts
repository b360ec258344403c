import { median } from '@mtl/pipeline/internal';
import { formatBytes, formatDuration } from './format-quantities.js';
import type { EvaluatedStep, StepMetrics, SummaryRow, ValidationLoss } from './training-reports.js';
import { validationMetrics } from './training-reports.js';

interface TrainingSummaryOptions {
  /** The result of `modelFlopsText`, which describes how the FLOPs of a TFLOP/s value are counted. */
  readonly flopsFormula: string;
  /** The evaluations before the run was resumed. Default: none. */
  readonly earlierEvaluations?: readonly EvaluatedStep[];
}

/** The contents of a summary, in addition to the metrics of the steps. */
interface SummaryTextOptions {
  readonly checkpointPath?: string | undefined;
  readonly rows?: readonly SummaryRow[];
}

/**
 * Collects the values for the summary at the end of a run. The speed is a median over the steps of this run,
 * so that warm-up, evaluation and saves do not affect it.
 */
export class TrainingSummary {
  readonly #flopsFormula: string;
  readonly #tokensPerSecond: number[] = [];
  readonly #modelTflops: number[] = [];
  #numSkipped = 0;
  #first: StepMetrics | undefined;
  #last: StepMetrics | undefined;
  /** The first and the last step that was not left out. */
  #firstComputed: StepMetrics | undefined;
  #lastComputed: StepMetrics | undefined;
  #best: EvaluatedStep | undefined;
  #latest: ValidationLoss | undefined;
  #elapsedMs = 0;

  constructor({ flopsFormula, earlierEvaluations = [] }: TrainingSummaryOptions) {
    this.#flopsFormula = flopsFormula;
    for (const evaluation of earlierEvaluations) this.#compare(evaluation);
  }

  step(metrics: StepMetrics): void {
    this.#first ??= metrics;
    this.#last = metrics;
    this.#numSkipped += metrics.skipped ? 1 : 0;
    this.#elapsedMs += metrics.stepMs;
    if (metrics.isLeftOut === true) return;
    this.#firstComputed ??= metrics;
    this.#lastComputed = metrics;
    this.#tokensPerSecond.push(metrics.tokensPerSecond);
    this.#modelTflops.push(metrics.modelTflops);
  }

  validation(result: ValidationLoss): void {
    this.#latest = result;
    this.#compare(result);
  }

  #compare(evaluation: EvaluatedStep): void {
    if (this.#best === undefined || evaluation.loss < this.#best.loss) this.#best = evaluation;
  }

  /**
   * Returns the summary for the end of the run, one fact per line.
   *
   * @param options `checkpointPath`: the last checkpoint, absent if nothing was saved; `rows`: further facts
   */
  text({ checkpointPath, rows: further = [] }: SummaryTextOptions = {}): string {
    const [first, last] = [this.#first, this.#last];
    if (first === undefined || last === undefined) return 'no step was trained';
    const rows: SummaryRow[] = [
      ['steps', this.#stepsText(first, last)],
      ['tokens', `${whole(last.consumedTokens)} (${whole(last.consumedSamples)} samples)`],
      ...lossRows(this.#firstComputed, this.#lastComputed),
    ];
    if (this.#latest !== undefined && this.#best !== undefined) {
      const [{ perplexity }, ...others] = validationMetrics(this.#latest);
      const meaning = [
        ...(perplexity === undefined ? [] : [`perplexity ${perplexity.toPrecision(4)}`]),
        ...others.map(({ key, value }) => `${key.replaceAll('_', ' ')} ${value.toFixed(4)}`),
      ].join(', ');
      const best = this.#best === this.#latest ? 'the best' : `best ${this.#best.loss.toFixed(4)}`;
      rows.push([
        'validation loss',
        `${this.#latest.loss.toFixed(4)} (${meaning === '' ? '' : `${meaning}; `}${best} at step ${this.#best.iteration})`,
      ]);
    }
    const tflops = median(this.#modelTflops).toPrecision(3);
    rows.push(
      ['speed', `${whole(median(this.#tokensPerSecond))} tokens/s, ${tflops} model TFLOP/s (medians)`],
      ['model FLOPs', this.#flopsFormula],
      ['training time', `${formatSeconds(this.#elapsedMs / 1000)} in steps`],
      ['peak memory', `${formatBytes(last.peakBytes)} ${peakMemoryMeaning}`],
    );
    if (checkpointPath !== undefined) rows.push(['checkpoint', checkpointPath]);
    rows.push(...further);
    const width = Math.max(...rows.map(([name]) => name.length));
    return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`).join('\n');
  }

  #stepsText(first: StepMetrics, last: StepMetrics): string {
    const resumed = first.iteration > 1 ? `, resumed at ${first.iteration - 1}` : '';
    const skipped = this.#numSkipped > 0 ? `, ${this.#numSkipped} skipped` : '';
    return `${last.iteration}${resumed}${skipped}`;
  }
}

/** An explanation of `peakBytes`, printed in the summary. */
const peakMemoryMeaning = 'of tensors, on the rank with the most (Node.js and its libraries not counted)';

function lossRows(first: StepMetrics | undefined, last: StepMetrics | undefined): readonly SummaryRow[] {
  if (first === undefined || last === undefined) return [];
  const row = (name: string, loss: number, before: number | undefined): SummaryRow => [
    name.replaceAll('_', ' '),
    `${loss.toFixed(4)} (first step of this run ${before?.toFixed(4)})`,
  ];
  const others = Object.entries(last.otherLosses ?? {});
  return [
    row('lm loss', last.loss, first.loss),
    ...others.map(([name, loss]) => row(name, loss, first.otherLosses?.[name])),
  ];
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Formats a duration. From a minute on, tenths of a second are not shown. */
function formatSeconds(seconds: number): string {
  return seconds < 59.95 ? `${seconds.toFixed(1)} s` : formatDuration(seconds * 1000);
}
