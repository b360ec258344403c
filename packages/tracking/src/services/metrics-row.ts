import { expertScalars } from '../expert-scalars.js';

/**
 * What tracking services are told about one step: its metrics, and those of an evaluation and of experts
 * after it.
 */
export interface MetricsRow {
  readonly iteration: number;
  /** When the record of the step was written, in milliseconds since 1970. */
  readonly time: number;
  /** By Megatron-LM's names, as in TensorBoard. */
  readonly values: Readonly<Record<string, number>>;
}

/** Megatron-LM's names, where they differ from those of metrics.jsonl in more than underscores. */
const namesOfKeys: Readonly<Record<string, string>> = {
  consumed_samples: 'samples vs steps',
  consumed_tokens: 'consumed-tokens',
  decoupled_learning_rate: 'decoupled-learning-rate',
  grad_norm: 'grad-norm',
  learning_rate: 'learning-rate',
  loss_scale: 'loss-scale',
  model_tflops: 'throughput',
  peak_bytes: 'mem-max-allocated-bytes',
  step_ms: 'iteration-time',
  tokens_per_s: 'tokens-per-second',
};

/** Whether a record of metrics.jsonl is part of a row: other types are skipped. */
function isPartOfRow(
  record: unknown,
): record is { type?: 'validation' | 'experts'; iteration: number; time?: unknown } {
  if (typeof record !== 'object' || record === null) return false;
  const { type, iteration } = record as { type?: unknown; iteration?: unknown };
  return Number.isInteger(iteration) && (type === undefined || type === 'validation' || type === 'experts');
}

/**
 * The row of one line of metrics.jsonl; undefined for a line that is none, or of another type. `isAddition`:
 * it is of a step that has a line before it.
 */
export function rowOfLine(line: string): (MetricsRow & { readonly isAddition: boolean }) | undefined {
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    return undefined; // torn by a process that was killed
  }
  if (!isPartOfRow(record)) return undefined;
  const { type, iteration, time, ...others } = record;
  const milliseconds = Date.parse(String(time));
  const row = { iteration, time: Number.isNaN(milliseconds) ? 0 : milliseconds };
  if (type === 'experts') {
    const scalars = expertScalars(others).map(({ name, value }) => [name, value] as const);
    return { ...row, values: Object.fromEntries(scalars), isAddition: true };
  }
  const isValidation = type === 'validation';
  const values: Record<string, number> = {};
  for (const [key, value] of Object.entries(others)) {
    // null: it was not finite
    if (typeof value !== 'number') continue;
    const name = namesOfKeys[key] ?? key.replaceAll('_', ' ');
    // Megatron-LM reports seconds
    values[isValidation ? `${name} validation` : name] = key === 'step_ms' ? value / 1000 : value;
  }
  return { ...row, values, isAddition: isValidation };
}
