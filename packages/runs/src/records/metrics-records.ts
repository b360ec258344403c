import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
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

/** The last step and the last evaluation of a metrics.jsonl, from its end; neither where there is no file. */
export function lastMetrics(path: string): LastMetrics {
  const file = open(path);
  if (file === undefined) return { step: undefined, validation: undefined };
  try {
    return lastMetricsIn(file);
  } finally {
    closeSync(file);
  }
}

/** As `lastMetrics`, of an open file. */
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

/** All records of a metrics.jsonl; none where there is no file. */
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
