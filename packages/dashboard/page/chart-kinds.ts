import { formatBytes, formatCount, formatNumber } from './format.js';

/** A kind of chart. */
export interface ChartKind {
  /** The name of the chart's curves in metrics.jsonl; names of evaluations begin with `validation.`. */
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  readonly format: (value: number | null | undefined) => string;
  /** Possible distances between marks on the vertical axis. Default: 1, 2, 5, 10 and so on. */
  readonly marks?: number[];
  /**
   * True if the vertical axis must begin at zero, because the size of the values matters, not only their
   * change.
   */
  readonly isFromZero: boolean;
  /** True if a moving average is useful. */
  readonly canBeSmoothed: boolean;
  /** True if a logarithmic scale is useful. */
  readonly canBeLogarithmic: boolean;
  /** True if the median and a band are shown, for values that vary from step to step around a median. */
  readonly isBand: boolean;
  /** A second metric, whose values are shown next to the values of this metric. */
  readonly companion?: { readonly name: string; readonly unit: string };
  /** True if the chart is shown only if its values change. */
  readonly isOnlyIfChanging: boolean;
}

type KnownKind = Partial<Omit<ChartKind, 'name'>> & { readonly title: string };

/** The unit of the balancing loss, which metrics.jsonl contains without its coefficient. */
const balancingUnit = '1 where loads are even';

/** The name of the language model's loss on the whole page. */
export const trainingLoss = 'Training loss';
export const validationLoss = 'Validation loss';

const known: Readonly<Record<string, KnownKind>> = {
  lm_loss: { title: trainingLoss, unit: 'nats per token' },
  'validation.lm_loss': { title: validationLoss, unit: 'nats per token' },
  load_balancing_loss: { title: 'Load balancing loss', unit: balancingUnit },
  seq_load_balancing_loss: { title: 'Load balancing loss of sequences', unit: balancingUnit },
  global_load_balancing_loss: { title: 'Load balancing loss of batches', unit: balancingUnit },
  sop_loss: { title: 'Sentence order loss', unit: 'nats per sample' },
  z_loss: { title: 'Router z-loss', unit: 'squared log-sum-exp' },
  grad_norm: { title: 'Gradient norm', unit: 'before clipping' },
  learning_rate: { title: 'Learning rate', isFromZero: true, canBeSmoothed: false },
  decoupled_learning_rate: { title: 'Decoupled learning rate', isFromZero: true, canBeSmoothed: false },
  tokens_per_s: {
    title: 'Throughput',
    unit: 'tokens per second, 80 % band',
    format: formatCount,
    isFromZero: true,
    isBand: true,
    canBeSmoothed: false,
    canBeLogarithmic: false,
    companion: { name: 'model_tflops', unit: 'TFLOP/s' },
  },
  step_ms: {
    title: 'Step time',
    unit: 'ms, 80 % band',
    isFromZero: true,
    isBand: true,
    canBeSmoothed: false,
    canBeLogarithmic: false,
  },
  peak_bytes: {
    title: 'Peak memory',
    unit: 'tensors of the rank with most',
    format: formatBytes,
    marks: Array.from({ length: 60 }, (_, power) => 2 ** power),
    isFromZero: true,
    canBeSmoothed: false,
    canBeLogarithmic: false,
  },
  model_tflops: { title: 'Model FLOPs', unit: 'TFLOP/s', isFromZero: true, isBand: true },
  loss_scale: { title: 'Loss scale', format: formatCount, isOnlyIfChanging: true, canBeSmoothed: false },
};

/**
 * Metrics without charts: counts of samples and tokens, which are units of the horizontal axis, and skipped
 * steps.
 */
const hidden = ['consumed_samples', 'consumed_tokens', 'skipped'];

/** Metrics that are shown in the chart of a different metric, `of`. */
const companions = Object.entries(known).flatMap(([of, { companion }]) =>
  companion === undefined ? [] : [{ name: companion.name, of }],
);

export const isBand = (name: string): boolean => known[name]?.isBand === true;

/** Returns the charts for curves of these names. Known names come first, in the order of `known`. */
export function chartKinds(names: ReadonlySet<string>): readonly ChartKind[] {
  const order = Object.keys(known);
  const rank = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);
  return [...names]
    .filter(
      (name) => !hidden.includes(name) && !companions.some((one) => one.name === name && names.has(one.of)),
    )
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b))
    .map(findChartKind);
}

export function findChartKind(name: string): ChartKind {
  return {
    name,
    title: formatTitle(name),
    unit: known[name.replace(ofValidation, '')]?.unit ?? '',
    format: formatNumber,
    isFromZero: false,
    canBeSmoothed: true,
    canBeLogarithmic: true,
    isBand: false,
    isOnlyIfChanging: false,
    ...known[name],
  };
}

const ofValidation = /^validation\./;

/** Returns the title of a curve, such as "Validation sentence order loss" for `validation.sop_loss`. */
export function formatTitle(name: string): string {
  const step = name.replace(ofValidation, '');
  const title = known[name]?.title ?? known[step]?.title ?? capitalized(step.replaceAll('_', ' '));
  return step === name || name in known
    ? title
    : `Validation ${title.charAt(0).toLowerCase()}${title.slice(1)}`;
}

const capitalized = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);
