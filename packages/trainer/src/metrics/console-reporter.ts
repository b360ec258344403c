import { styleText } from 'node:util';
import { formatDuration } from './format-quantities.js';
import { TerminalLine, type TerminalStream } from './terminal-line.js';
import {
  type MetricsSink,
  type StepMetrics,
  type TrainingEvent,
  type ValidationLoss,
  validationMetrics,
} from './training-reports.js';

/** The metrics in a console line, which cover the steps since the previous line. */
interface IntervalMetrics {
  readonly iteration: number;
  readonly trainIterations: number;
  readonly consumedSamples: number;
  readonly globalBatchSize: number;
  /** The mean time of a step in the interval, in milliseconds. */
  readonly stepMs: number;
  readonly learningRate: number;
  /** Present as in `StepMetrics`. */
  readonly decoupledLearningRate?: number | undefined;
  /** The losses, by printed name. Each is a mean over the steps that were not skipped. */
  readonly losses: Readonly<Record<string, number>>;
  readonly lossScale: number;
  readonly gradNorm: number;
  readonly numSkipped: number;
  readonly numNan: number;
  readonly tokensPerSecond: number;
  readonly modelTflops: number;
}

/**
 * Formats a step as a line of at most 80 columns for people: `iteration 50/1000 | lm loss 6.7371 | grad norm
 * 0.900 | 137 ms | 14,895 tokens/s`. Scripts read Megatron-LM's format instead (see `formatStepLine`).
 */
function formatShortStepLine(metrics: IntervalMetrics): string {
  const { iteration, trainIterations, losses, gradNorm, stepMs, tokensPerSecond, numSkipped } = metrics;
  const width = String(trainIterations).length;
  return [
    `iteration ${String(iteration).padStart(width)}/${trainIterations}`,
    ...Object.entries(losses).map(([name, loss]) => `${name} ${loss.toFixed(4)}`),
    `grad norm ${gradNorm.toFixed(3)}`,
    `${Math.round(stepMs).toLocaleString('en-US')} ms`,
    `${Math.round(tokensPerSecond).toLocaleString('en-US')} tokens/s`,
    ...(numSkipped > 0 ? [`${numSkipped} skipped`] : []),
  ].join(' | ');
}

/**
 * Formats an evaluation for people: `validation at iteration 100 | lm loss 5.2311 | perplexity 187.00`. If a
 * loss has a perplexity, it follows the loss.
 */
function formatShortValidationLine(result: ValidationLoss): string {
  const parts = validationMetrics(result).flatMap(({ key, value, perplexity }) => [
    `${key.replaceAll('_', ' ')} ${value.toFixed(4)}`,
    ...(perplexity === undefined ? [] : [`perplexity ${perplexity.toFixed(2)}`]),
  ]);
  return [`validation at iteration ${result.iteration}`, ...parts].join(' | ');
}

/**
 * Formats a step with the names, order and digits in Megatron-LM's log, so that existing scripts can read it.
 */
export function formatStepLine(metrics: IntervalMetrics): string {
  const { decoupledLearningRate: decoupled } = metrics;
  const parts = [
    ` iteration ${pad(metrics.iteration, 8)}/${pad(metrics.trainIterations, 8)}`,
    `consumed samples: ${pad(metrics.consumedSamples, 12)}`,
    `elapsed time per iteration (ms): ${metrics.stepMs.toFixed(1)}`,
    `learning rate: ${formatScientific(metrics.learningRate)}`,
    ...(decoupled === undefined ? [] : [`decoupled learning rate: ${formatScientific(decoupled)}`]),
    `global batch size: ${pad(metrics.globalBatchSize, 5)}`,
    ...Object.entries(metrics.losses).map(([name, loss]) => `${name}: ${formatScientific(loss)}`),
    `loss scale: ${metrics.lossScale.toFixed(1)}`,
    `grad norm: ${formatFixed(metrics.gradNorm, 3)}`,
    `number of skipped iterations: ${pad(metrics.numSkipped, 3)}`,
    `number of nan iterations: ${pad(metrics.numNan, 3)}`,
    `tokens/s: ${Math.round(metrics.tokensPerSecond)}`,
    `model TFLOP/s: ${metrics.modelTflops.toPrecision(3)}`,
  ];
  return `${parts.join(' | ')} |`;
}

/**
 * Formats an evaluation as Megatron-LM does. For one loss, the line is `validation loss at iteration 100 | lm
 * loss value: 4.1E+00 | lm loss PPL: 6.0E+01 |`, after a space. Only losses over tokens have a perplexity.
 */
export function formatValidationLine(result: ValidationLoss): string {
  const parts = validationMetrics(result).flatMap(({ key, value, perplexity }) => {
    const name = key.replaceAll('_', ' ');
    const text = `${name} value: ${formatScientific(value)}`;
    return perplexity === undefined ? [text] : [text, `${name} PPL: ${formatScientific(perplexity)}`];
  });
  return `${[` validation loss at iteration ${result.iteration}`, ...parts].join(' | ')} |`;
}

interface ProgressBarState {
  readonly iteration: number;
  readonly trainIterations: number;
  readonly loss: number;
  /** The newest loss on held-out data; undefined before the first evaluation. */
  readonly validationLoss?: number | undefined;
  readonly tokensPerSecond: number;
  readonly remainingMs: number;
}

/**
 * Formats a line of at most `width` columns, with a bar, the steps, the losses, the speed and the remaining
 * time.
 */
export function formatProgressBar(state: ProgressBarState, width: number): string {
  const share = Math.min(1, state.iteration / state.trainIterations);
  const validation =
    state.validationLoss === undefined ? '' : `  validation ${formatFixed(state.validationLoss, 4)}`;
  const text =
    ` ${String(Math.floor(share * 100)).padStart(3)}% ${state.iteration}/${state.trainIterations}` +
    `  loss ${formatFixed(state.loss, 4)}${validation}  ${Math.round(state.tokensPerSecond).toLocaleString('en-US')} tokens/s` +
    `  ${formatDuration(state.remainingMs)} left`;
  const barWidth = Math.min(40, width - text.length - 1);
  if (barWidth < 5) return text.slice(0, Math.max(0, width - 1));
  const filled = Math.round(share * barWidth);
  return `${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)}${text}`;
}

/** Formats a number as Python's `{:.6E}`: `1.500000E-04`. */
function formatScientific(value: number): string {
  if (!Number.isFinite(value)) return formatFixed(value, 0);
  const [mantissa, exponent] = value.toExponential(6).split('e') as [string, string];
  return `${mantissa}E${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
}

function formatFixed(value: number, digits: number): string {
  if (Number.isFinite(value)) return value.toFixed(digits);
  return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
}

function pad(value: number, width: number): string {
  return String(value).padStart(width);
}

/**
 * The part of a stream's interface that the reporter needs. An example of such a stream is `process.stdout`.
 */
export type ConsoleStream = TerminalStream;

interface ConsoleReporterOptions {
  readonly stream: ConsoleStream;
  readonly trainIterations: number;
  /** Steps per line (--log-interval). */
  readonly logInterval: number;
  /**
   * True to print lines even on a terminal, above the progress line. Default: a terminal shows only the
   * progress line.
   */
  readonly isVerbose?: boolean;
  /**
   * True to print short lines for people, unless `isVerbose` is true. Default: Megatron-LM's lines, for
   * scripts.
   */
  readonly areLinesShort?: boolean;
  /** Further streams to the same terminal. Default: none. */
  readonly others?: readonly ConsoleStream[];
  /**
   * True to print without colours. Default: true if the environment variable NO_COLOR is not empty
   * (https://no-color.org).
   */
  readonly noColor?: boolean;
  /** Returns the current time in milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

/**
 * The minimum time between redraws, in milliseconds. Faster redraws would cost time without a visible effect.
 */
const redrawIntervalMs = 100;
/** The weight of the newest step in the moving average of step times, which determines the remaining time. */
const newestWeight = 0.05;

/**
 * Reports training on a stream. On a terminal, draws a progress line below all other output. On any other
 * stream, prints a line every `logInterval` steps and for every evaluation.
 */
export class ConsoleReporter implements MetricsSink {
  readonly #options: ConsoleReporterOptions;
  readonly #line: TerminalLine | undefined;
  readonly #areLinesShort: boolean;
  readonly #hasColor: boolean;
  readonly #now: () => number;
  #interval: StepMetrics[] = [];
  #averageStepMs: number | undefined;
  #drawnAt = Number.NEGATIVE_INFINITY;
  #validationLoss: number | undefined;

  constructor(options: ConsoleReporterOptions) {
    this.#options = options;
    const { stream, others = [], isVerbose = false, areLinesShort = false } = options;
    this.#areLinesShort = areLinesShort && !isVerbose;
    const isTerminal = stream.isTTY === true && process.env.TERM !== 'dumb';
    this.#line = isTerminal ? new TerminalLine({ stream, others }) : undefined;
    const noColor = options.noColor ?? (process.env.NO_COLOR ?? '') !== '';
    this.#hasColor = isTerminal && !noColor;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Records a step, and prints a line when the interval is full or the training run is over. */
  step(metrics: StepMetrics): void {
    this.#interval.push(metrics);
    const { logInterval, trainIterations } = this.#options;
    const average = this.#averageStepMs ?? metrics.stepMs;
    this.#averageStepMs = average + newestWeight * (metrics.stepMs - average);
    if (metrics.iteration % logInterval === 0 || metrics.iteration === trainIterations) {
      const format = this.#areLinesShort ? formatShortStepLine : formatStepLine;
      this.#print(format(summarise(this.#interval, trainIterations)));
      this.#interval = [];
    }
    this.#drawBar(metrics);
  }

  /** Prints the loss on held-out data. */
  validation(result: ValidationLoss): void {
    this.#validationLoss = result.loss;
    const format = this.#areLinesShort ? formatShortValidationLine : formatValidationLine;
    this.#print(this.#style('green', format(result)));
  }

  /** Prints a message. */
  event({ text }: TrainingEvent): void {
    if (text !== undefined) this.message(this.#style('yellow', ` ${text}`));
  }

  /** Prints a message of any kind. On a terminal, it appears above the progress line. */
  message(text: string): void {
    this.#options.stream.write(`${text}\n`);
  }

  /** Removes the progress line; printed lines stay. */
  close(): void {
    this.#line?.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #print(text: string): void {
    if (this.#line === undefined || this.#options.isVerbose === true) this.message(text);
  }

  #drawBar(metrics: StepMetrics): void {
    if (this.#line === undefined) return;
    const { stream, trainIterations } = this.#options;
    const now = this.#now();
    if (now - this.#drawnAt < redrawIntervalMs) return;
    const bar = formatProgressBar(
      {
        iteration: metrics.iteration,
        trainIterations,
        loss: metrics.loss,
        validationLoss: this.#validationLoss,
        tokensPerSecond: metrics.tokensPerSecond,
        remainingMs: (trainIterations - metrics.iteration) * (this.#averageStepMs ?? 0),
      },
      stream.columns || 80,
    );
    this.#line.show(bar, (text) => this.#style('cyan', text));
    this.#drawnAt = now;
  }

  #style(style: 'cyan' | 'green' | 'yellow', text: string): string {
    return this.#hasColor ? styleText(style, text, { validateStream: false }) : text;
  }
}

/**
 * Computes the means over an interval. As in Megatron-LM, a skipped step counts in the mean time but not in
 * the mean losses.
 */
function summarise(interval: readonly StepMetrics[], trainIterations: number): IntervalMetrics {
  const last = interval.at(-1)!;
  const counted = interval.filter((step) => !step.skipped);
  const meanOver = (steps: readonly StepMetrics[], value: (step: StepMetrics) => number): number =>
    steps.reduce((sum, step) => sum + value(step), 0) / steps.length;
  const losses: Record<string, number> = {};
  // if every step was skipped, there is no loss, and Megatron-LM omits it
  if (counted.length > 0) {
    losses['lm loss'] = meanOver(counted, (step) => step.loss);
    for (const name of Object.keys(last.otherLosses ?? {})) {
      losses[name.replaceAll('_', ' ')] = meanOver(counted, (step) => step.otherLosses?.[name] ?? Number.NaN);
    }
  }
  const stepMs = meanOver(interval, (step) => step.stepMs);
  // rates per second are averaged over time, not over steps
  const perSecond = (value: (step: StepMetrics) => number): number =>
    meanOver(interval, (step) => value(step) * step.stepMs) / stepMs;
  return {
    iteration: last.iteration,
    trainIterations,
    consumedSamples: last.consumedSamples,
    globalBatchSize: last.globalBatchSize,
    stepMs,
    learningRate: last.learningRate,
    decoupledLearningRate: last.decoupledLearningRate,
    losses,
    lossScale: last.lossScale,
    gradNorm: last.gradNorm,
    numSkipped: interval.length - counted.length,
    numNan: interval.filter((step) => hasNan(step) && step.isLeftOut !== true).length,
    tokensPerSecond: perSecond((step) => step.tokensPerSecond),
    modelTflops: perSecond((step) => step.modelTflops),
  };
}

const hasNan = ({ loss, otherLosses = {} }: StepMetrics): boolean =>
  [loss, ...Object.values(otherLosses)].some(Number.isNaN);
