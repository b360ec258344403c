import {
  closeSync,
  createReadStream,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { ConfigurationError } from '@mtl/errors';
import type { StepMetrics } from './step-metrics.js';

export interface MetricsJsonlWriterOptions {
  /** The file; its folder is made when missing (--metrics-jsonl). */
  readonly path: string;
  /** The iteration of the checkpoint that training resumes from, or 0 for a training from the start. */
  readonly resumeIteration?: number;
}

/**
 * Appends one JSON object per step to a file. A number that is not finite (the gradient norm of a skipped
 * step) becomes null, since JSON has no such numbers; all others keep full precision.
 *
 * The file always has one line per step, in order: on a resume at iteration n, lines of later steps, which
 * the interrupted run wrote after its last checkpoint, are dropped by writing the kept ones beside the file
 * and renaming. A training from the start moves an older file aside instead (see `movedAside`).
 */
export class MetricsJsonlWriter {
  readonly path: string;
  /** Where the file of an earlier training was moved to, if there was one: worth saying aloud. */
  readonly movedAside: string | undefined;
  /** Lines dropped because the resumed training will write them again. */
  readonly droppedLines: number;
  #descriptor: number | undefined;

  private constructor(path: string, movedAside: string | undefined, droppedLines: number) {
    this.path = path;
    this.movedAside = movedAside;
    this.droppedLines = droppedLines;
    this.#descriptor = openSync(path, 'a');
  }

  /** @throws ConfigurationError `MTL_METRICS_FILE` when the file exists and line N is not one of ours. */
  static async open({ path, resumeIteration = 0 }: MetricsJsonlWriterOptions): Promise<MetricsJsonlWriter> {
    mkdirSync(dirname(path), { recursive: true });
    if (!existsSync(path) || statSync(path).size === 0) return new MetricsJsonlWriter(path, undefined, 0);
    if (resumeIteration === 0) return new MetricsJsonlWriter(path, moveAside(path), 0);
    return new MetricsJsonlWriter(path, undefined, await dropLinesBeyond(path, resumeIteration));
  }

  /** Appends one line; it is in the file (not only in a buffer of this process) when the call returns. */
  write(metrics: StepMetrics): void {
    if (this.#descriptor === undefined) {
      throw new ConfigurationError('MTL_METRICS_FILE', `${this.path} is closed`, { exitCode: 1 });
    }
    writeSync(this.#descriptor, `${JSON.stringify(metricsObject(metrics))}\n`);
  }

  /** Makes the lines durable and closes the file; further calls do nothing. */
  close(): void {
    if (this.#descriptor === undefined) return;
    fsyncSync(this.#descriptor);
    closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }
}

/** The names that tools rely on. */
function metricsObject(metrics: StepMetrics): Record<string, unknown> {
  return {
    iteration: metrics.iteration,
    consumed_samples: metrics.consumedSamples,
    consumed_tokens: metrics.consumedTokens,
    lm_loss: metrics.lmLoss,
    ...metrics.otherLosses,
    grad_norm: metrics.gradNorm,
    learning_rate: metrics.learningRate,
    loss_scale: metrics.lossScale,
    skipped: metrics.skipped,
    step_ms: metrics.stepMs,
    tokens_per_s: metrics.tokensPerSecond,
    model_tflops: metrics.modelTflops,
    peak_bytes: metrics.peakBytes,
  };
}

function moveAside(path: string): string {
  let number = 1;
  while (existsSync(`${path}.${number}`)) number += 1;
  renameSync(path, `${path}.${number}`);
  return `${path}.${number}`;
}

/**
 * Rewrites the file with the lines of iterations up to `lastIteration`; gives the number of lines left out.
 */
async function dropLinesBeyond(path: string, lastIteration: number): Promise<number> {
  const temporary = `${path}.${process.pid}.tmp`;
  const descriptor = openSync(temporary, 'w');
  let dropped = 0;
  let written = 0;
  let torn: number | undefined;
  try {
    let lineNumber = 0;
    for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
      lineNumber += 1;
      // A torn line is what a killed run leaves at the end; with more lines behind it, this is some other
      // file.
      if (torn !== undefined) throw notOurs(path, torn);
      const iteration = iterationOf(line);
      if (iteration === undefined) {
        torn = lineNumber;
        dropped += 1;
      } else if (iteration <= lastIteration && iteration > written) {
        writeSync(descriptor, `${line}\n`);
        written = iteration;
      } else {
        dropped += 1;
      }
    }
    if (written === 0 && torn === 1) throw notOurs(path, torn);
    fsyncSync(descriptor);
    closeSync(descriptor);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  return dropped;
}

function iterationOf(line: string): number | undefined {
  try {
    const value: unknown = (JSON.parse(line) as { iteration?: unknown } | null)?.iteration;
    return typeof value === 'number' && Number.isInteger(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function notOurs(path: string, lineNumber: number): ConfigurationError {
  return new ConfigurationError('MTL_METRICS_FILE', `${path}, line ${lineNumber}, is not a step's metrics`, {
    expected: 'a file that --metrics-jsonl wrote: one JSON object with an iteration per line',
    remedy: 'pass --metrics-jsonl with another file',
  });
}
