import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PretrainingConfiguration, RecordedMatmuls } from '@mtl/configuration';
import { recordedSizes } from '@mtl/configuration/strategies';
import { ConfigurationError, formatError, MtlError } from '@mtl/errors';
import { renameFileSync } from '@mtl/errors/files';
import { hostInformation } from '@mtl/kernels';
import {
  comparedFlags,
  type RunRecord,
  type RunStart,
  readRunRecord,
  runRecordPath,
  trackedRun,
  writeRunRecord,
} from '@mtl/run-records';
import type { TrackedRun } from '@mtl/tracking';
import { contentsOfFlags, type FileContents } from '../data-changes/contents-of-flags.js';
import { libraryVersion } from '../library-version.js';
import { once } from '../once.js';
import type { ModelSample } from '../parts/samples/sample-continuation.js';
import type { ThreadChoice } from '../parts/threads/threads-of-run.js';

/** The parts of a configuration that run.json records. */
interface RecordedConfiguration extends Pick<PretrainingConfiguration, 'kind' | 'preset' | 'parallel'> {
  readonly flags: Readonly<Record<string, unknown>>;
  /** All flags, with the values in effect. Default: `flags`. */
  readonly resolved?: Readonly<Record<string, unknown>>;
  readonly training: Pick<PretrainingConfiguration['training'], 'trainIterations'>;
  /** The task of a fine-tuning run. */
  readonly task?: string;
}

export interface StartRunOptions {
  /** The run folder, which is the directory of --save; undefined for a run without a folder. */
  readonly directory: string | undefined;
  readonly configuration: RecordedConfiguration;
  /** Returns checksums of the training data. Called only if the run has a folder. */
  readonly datasets: () => RunStart['datasets'];
  /**
   * Returns checksums of the files that the flags name. Called only if the run has a folder. Default:
   * `contentsOfFlags`.
   */
  readonly contents?: () => FileContents;
  readonly threads: ThreadChoice;
  /** The algorithms that were chosen for matmuls. Default: none. */
  readonly matmuls?: RecordedMatmuls | undefined;
  /** The iteration from which training continues. */
  readonly iteration: number;
  readonly onMessage: (text: string) => void;
}

/** How a start of a run ended. */
type RunEnd = Omit<NonNullable<RunStart['end']>, 'time'>;

/** Writes run.json in the run folder. Only rank 0 has an instance. */
export class RunLog {
  readonly #directory: string;
  readonly #record: RunRecord;

  private constructor(directory: string, record: RunRecord) {
    this.#directory = directory;
    this.#record = record;
  }

  /**
   * Adds this start to the run's record, and creates the record if necessary. Returns undefined for a run
   * without a folder.
   *
   * @throws ConfigurationError MTL_RUN_RECORD if the record cannot be written
   */
  static start(options: StartRunOptions): RunLog | undefined {
    const { directory, onMessage } = options;
    if (directory === undefined) return undefined;
    mkdirSync(directory, { recursive: true });
    const starts = [...earlierStarts(directory, onMessage), describeStart(options)];
    const log = new RunLog(directory, { format: 'mtl-run', version: 1, starts });
    writeRunRecord(directory, log.#record);
    return log;
  }

  /** Returns the facts about the run that tracking services show. */
  get tracked(): TrackedRun {
    return trackedRun(this.#record);
  }

  /**
   * Adds the end of this start to the record. If a different run now owns the folder, its record stays
   * unchanged.
   *
   * @throws ConfigurationError MTL_RUN_RECORD
   */
  end(end: RunEnd): void {
    const own = this.#record.starts.at(-1)!;
    own.end = { time: new Date().toISOString(), ...end };
    mkdirSync(this.#directory, { recursive: true });
    const record = readRunRecord(this.#directory) ?? this.#record;
    const index = record.starts.findIndex(
      ({ time, pid, host }) => time === own.time && pid === own.pid && host === own.host,
    );
    if (index < 0) return;
    record.starts[index] = own;
    writeRunRecord(this.#directory, record);
  }

  /**
   * Appends a sample of the model to samples.jsonl in the run folder, as a line of JSON with time, iteration,
   * text and label, and for a GPT also prompt and completion.
   *
   * @throws ConfigurationError MTL_RUN_RECORD if the file cannot be written
   */
  sample({ iteration, ...sample }: ModelSample & { readonly iteration: number }): void {
    const path = join(this.#directory, 'samples.jsonl');
    try {
      appendFileSync(path, `${JSON.stringify({ time: new Date().toISOString(), iteration, ...sample })}\n`);
    } catch (cause) {
      throw new ConfigurationError('MTL_RUN_RECORD', `${path}: ${(cause as Error).message}`, {
        expected: 'a file that can be written',
        remedy: 'free space on that disk: everything else of the run is saved',
        exitCode: 1,
        cause,
      });
    }
  }

  /**
   * Calls `end` with an error. If the record cannot be written, the failure is ignored, because it would hide
   * the original error.
   */
  fail(error: unknown, { iteration }: { readonly iteration: number }): void {
    const isCoded = MtlError.isInstance(error);
    const what = isCoded ? `${error.code}: ${error.message}` : formatError(error);
    const remedy = isCoded ? error.remedy : undefined;
    try {
      this.end({
        reason: 'failed',
        iteration,
        error: what,
        ...(remedy === undefined ? {} : { remedy }),
      });
    } catch {
      // nothing to do, because a start without a recorded end counts as failed
    }
  }
}

/** Returns the earlier starts in the folder. If the record cannot be read, renames it and sends a message. */
function earlierStarts(directory: string, onMessage: (text: string) => void): RunRecord['starts'] {
  try {
    return readRunRecord(directory)?.starts ?? [];
  } catch (error) {
    const path = runRecordPath(directory);
    let number = 1;
    while (existsSync(`${path}.${number}`)) number += 1;
    renameFileSync(path, `${path}.${number}`);
    onMessage(`  note: ${(error as Error).message}; moved to ${path}.${number}`);
    return [];
  }
}

function describeStart(options: StartRunOptions): RunStart {
  const { configuration, datasets, threads, matmuls, iteration } = options;
  const { parallel, training, kind, preset, flags, resolved = flags, task } = configuration;
  const { contents = () => contentsOfFlags(resolved) } = options;
  const { instructionSet, onednnVersion } = hostInformation();
  return {
    time: new Date().toISOString(),
    host: hostname(),
    pid: process.pid,
    command: [...process.argv],
    workingDirectory: process.cwd(),
    model: kind,
    preset,
    ...(task === undefined ? {} : { task }),
    flags: { ...flags },
    resolved: comparedFlags(resolved),
    ...contents(),
    iteration,
    trainIterations: training.trainIterations,
    commit: commitOfProcess(),
    versions: { mtl: libraryVersion, node: process.versions.node, onednn: onednnVersion },
    instructionSet,
    device: parallel.device,
    threads,
    ...(matmuls === undefined ? {} : { matmuls }),
    layout: {
      worldSize: parallel.worldSize,
      ...recordedSizes(parallel),
    },
    datasets: datasets(),
  };
}

/**
 * Returns the commit of this code. It is determined only once, because the code does not change while the
 * process runs.
 */
const commitOfProcess = once(() => checkoutCommit(dirname(fileURLToPath(import.meta.url))));

/**
 * Returns the commit of the git checkout that contains `directory`, followed by `-dirty` if tracked files
 * were changed. Null outside of a checkout, or if git is not installed.
 */
function checkoutCommit(directory: string): string | null {
  const argv = ['-C', directory, 'describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'];
  try {
    const stdio = ['ignore', 'pipe', 'ignore'] as const;
    return execFileSync('git', argv, { encoding: 'utf8', timeout: 5000, stdio: [...stdio] }).trim() || null;
  } catch {
    return null;
  }
}
