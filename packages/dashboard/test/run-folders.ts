import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface WrittenRun {
  readonly flags?: Readonly<Record<string, unknown>>;
  readonly command?: readonly string[];
  /** The ends of the starts before the last one, and of the last one; none for a process that was killed. */
  readonly ends?: readonly (
    | { readonly reason: string; readonly error?: string; readonly remedy?: string }
    | undefined
  )[];
  readonly trainIterations?: number;
  readonly worldSize?: number;
  readonly startedAt?: string;
}

/** A directory of run folders as training runs write them. */
export class RunFolders {
  readonly path = mkdtempSync(join(tmpdir(), 'mtl-dashboard-'));

  dispose(): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Writes the record of a run. */
  record(name: string, options: WrittenRun = {}): void {
    const { flags = {}, ends = [{ reason: 'done' }], trainIterations = 100, worldSize = 1 } = options;
    const { startedAt = '2026-11-22T10:11:12.000Z', command = ['node', 'gpt-train'] } = options;
    const starts = ends.map((end, index) => ({
      time: startedAt,
      host: 'here',
      pid: 1,
      command,
      workingDirectory: '/',
      model: 'gpt',
      preset: 'default',
      flags,
      iteration: 10 * index,
      trainIterations,
      commit: null,
      versions: { mtl: '0.1.0', node: '20.19.0', onednn: '3.1' },
      instructionSet: 'avx2',
      device: 'cpu',
      threads: { count: 1, reason: 'one core' },
      layout: { worldSize, tensor: 1, pipeline: 1, data: worldSize },
      datasets: [],
      ...(end === undefined ? {} : { end: { time: '2026-11-22T10:12:12.000Z', iteration: 20, ...end } }),
    }));
    this.write(name, 'run.json', JSON.stringify({ format: 'mtl-run', version: 1, starts }));
  }

  write(name: string, file: string, text: string): void {
    mkdirSync(join(this.path, name, file, '..'), { recursive: true });
    writeFileSync(join(this.path, name, file), text);
  }

  /** Appends records to the metrics of a run, as a training run does. */
  append(name: string, ...records: readonly object[]): void {
    mkdirSync(join(this.path, name), { recursive: true });
    appendFileSync(join(this.path, name, 'metrics.jsonl'), lines(records));
  }
}

/** Returns the record of a step; `more` replaces figures. */
export function step(iteration: number, more: Readonly<Record<string, unknown>> = {}): object {
  return {
    time: new Date(Date.UTC(2026, 10, 22, 10, 11, 12) + 500 * iteration).toISOString(),
    iteration,
    consumed_samples: 8 * iteration,
    consumed_tokens: 2048 * iteration,
    lm_loss: 2 + 6 / Math.sqrt(iteration),
    grad_norm: 1 + 1 / iteration,
    learning_rate: 1e-3,
    loss_scale: 1,
    skipped: false,
    step_ms: 500,
    tokens_per_s: 4096,
    model_tflops: 0.1,
    peak_bytes: 1 << 28,
    ...more,
  };
}

/** Steps from `first` to `last`. */
export function steps(first: number, last: number): object[] {
  return Array.from({ length: last - first + 1 }, (_, index) => step(first + index));
}

export const lines = (records: readonly object[]): string =>
  records.map((record) => `${JSON.stringify(record)}\n`).join('');
