import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { renamedLosses } from '@mtl/trainer/metrics-records';

export { renamedLosses };

/** A record of metrics.jsonl, its losses by the names of today; a step has no `type`. */
export interface MetricsRecord {
  readonly type?: string;
  readonly time?: string;
  readonly iteration: number;
  /** Null where it was not finite. */
  readonly lm_loss: number | null;
  readonly [key: string]: unknown;
}

export interface LastMetrics {
  readonly step: MetricsRecord | undefined;
  readonly validation: MetricsRecord | undefined;
}

const blockBytes = 1 << 20;
/** An evaluation further from the end of a file is not looked for. */
const mostBytes = 16 << 20;

/**
 * Returns the last step and the last evaluation of a metrics.jsonl, from its end; neither where there is no
 * file.
 */
export function lastMetrics(path: string): LastMetrics {
  const file = open(path);
  if (file === undefined) return { step: undefined, validation: undefined };
  try {
    return lastMetricsIn(file);
  } finally {
    closeSync(file);
  }
}

/** Does as `lastMetrics`, for an open file. */
export function lastMetricsIn(file: number): LastMetrics {
  const { size } = fstatSync(file);
  for (let bytes = blockBytes; ; bytes *= 4) {
    const start = Math.max(0, size - bytes);
    const buffer = Buffer.alloc(size - start);
    const text = buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, start));
    const records = recordsIn(text).reverse();
    const step = records.find(({ type }) => type === undefined);
    const validation = records.find(({ type }) => type === 'validation');
    const isFound = step !== undefined && validation !== undefined;
    if (isFound || start === 0 || bytes >= mostBytes) return { step, validation };
  }
}

/** Reads all records of a metrics.jsonl; none where there is no file. */
export function readMetricsRecords(path: string): MetricsRecord[] {
  const file = open(path);
  if (file === undefined) return [];
  try {
    return recordsIn(readFileSync(file, 'utf8'));
  } finally {
    closeSync(file);
  }
}

function open(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Lines that are whole: the first may be cut by the block, the last by a process that is writing. */
function recordsIn(text: string): MetricsRecord[] {
  return text.split('\n').flatMap((line) => {
    try {
      const record = JSON.parse(line) as MetricsRecord | null;
      return Number.isInteger(record?.iteration) ? [renamedLosses(record!)] : [];
    } catch {
      return [];
    }
  });
}

/** Returns the file of metrics in a run folder. */
export const metricsPath = (directory: string): string => join(directory, 'metrics.jsonl');

/** The loss of an evaluation; NaN where it was not finite. */
interface Evaluation {
  readonly iteration: number;
  readonly loss: number;
}

/** Evaluations after the best one without which nothing is said. */
const fewest = 5;
/** Share of all steps so far, after the best one, without which nothing is said. */
const leastShare = 0.1;
/** The least share of the best loss by which the last one is above it: with less the loss is level. */
const leastRise = 0.01;

/**
 * Says in words that the validation loss of a run has been rising for long; undefined where it has not.
 *
 * It has been where at least five evaluations and a tenth of all steps follow the best one, the last loss is
 * more than 1 % above it, and the later half of those that follow is above the earlier one.
 *
 * @param all evaluations of a run, oldest first
 */
export function risingValidation(all: readonly Evaluation[]): string | undefined {
  const evaluations = all.filter(({ loss }) => Number.isFinite(loss));
  const last = evaluations.at(-1);
  if (last === undefined) return undefined;
  const best = evaluations.reduce((least, next) => (next.loss < least.loss ? next : least));
  const after = evaluations.filter(({ iteration }) => iteration > best.iteration);
  if (after.length < fewest || last.iteration - best.iteration < leastShare * last.iteration)
    return undefined;
  const half = Math.floor(after.length / 2);
  const isRising = mean(after.slice(-half)) > mean(after.slice(0, half));
  if (!isRising || last.loss <= best.loss * (1 + leastRise)) return undefined;
  return (
    `the validation loss has been rising since step ${best.iteration}, from ${best.loss.toFixed(4)} to ` +
    `${last.loss.toFixed(4)} at step ${last.iteration}: the model overfits its training data; train on more data, ` +
    'for fewer steps, or with a lower learning rate'
  );
}

const mean = (evaluations: readonly Evaluation[]): number =>
  evaluations.reduce((sum, { loss }) => sum + loss, 0) / evaluations.length;
