import { createHash } from 'node:crypto';
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import { resetPeakMemory } from '@mtl/kernels';
import {
  cudaStreams,
  type MatmulChoices,
  openCuda,
  timeMatmuls,
  useMatmulChoices,
} from '@mtl/kernels/internal';
import type { TransformerConfiguration } from '@mtl/models';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';
import { planningFor, type RunPlanning } from './run-planning.js';

interface TimeMatmulsOptions {
  readonly model: TransformerConfiguration;
  readonly processes: TrainingProcesses;
  /** The planner, which finds the run's matmuls. */
  readonly planning: RunPlanning | undefined;
  readonly onMessage: (text: string) => void;
  /** The environment variables, which may set the cache directory. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/**
 * With --time-matmuls, makes all ranks use the same algorithms for the run's matmuls. The first rank finds
 * the matmuls of each kind of rank in a dry run. It then times the ones for which the file has no choice yet.
 * Timing comes before the run allocates memory or records graphs; the GPU is idle, and the memory is freed
 * afterwards. All ranks call it.
 *
 * @throws ConfigurationError `MTL_MATMUL_CHOICES` for ranks of several kinds of GPUs, drivers or versions of
 *   cuBLASLt, and as `MatmulChoiceFile`; KernelError as `timeMatmuls`
 */
export async function timeMatmulsOfRun(
  configuration: PretrainingConfiguration,
  options: TimeMatmulsOptions,
): Promise<void> {
  if (!configuration.parallel.timesMatmuls) return;
  const { processes } = options;
  const platform = matmulPlatform();
  checkSame(platform, processes);
  const chosen = await processes.together(async () =>
    processes.isFirst ? await choose(configuration, { ...options, platform }) : {},
  );
  useMatmulChoices(processes.agree(chosen));
}

function checkSame(own: MatmulPlatform, processes: TrainingProcesses): void {
  const first = processes.agree(own);
  const text = (platform: MatmulPlatform): string => Object.values(platform).join(', ');
  if (text(first) === text(own)) return;
  throw new ConfigurationError('MTL_MATMUL_CHOICES', `--time-matmuls: a rank has ${text(own)}`, {
    expected: `what the first rank has, which chooses for all: ${text(first)}`,
    remedy: 'leave --time-matmuls out',
  });
}

async function choose(
  configuration: PretrainingConfiguration,
  {
    model,
    platform,
    planning,
    onMessage,
    variables,
  }: TimeMatmulsOptions & { readonly platform: MatmulPlatform },
): Promise<MatmulChoices> {
  const file = new MatmulChoiceFile(platform, { variables });
  const known = file.read();
  const calls = await planningFor('--time-matmuls', planning).matmulsOfRun(configuration, model);
  const timed = timeMatmuls(calls, { known });
  resetPeakMemory('cuda');
  const numNew = Object.keys(timed).length - Object.keys(known).length;
  const choices = file.add(timed);
  onMessage(
    numNew === 0
      ? `algorithms of matmuls: as chosen before, ${file.path}`
      : `algorithms of matmuls: ${numNew} chosen by time, kept in ${file.path}`,
  );
  return choices;
}

interface Line {
  readonly problem: string;
  readonly algorithm: string;
  /**
   * A checksum of platform, problem and algorithm. It detects damaged lines and lines of another platform.
   */
  readonly check: string;
}

/**
 * The chosen algorithms of matmuls for one kind of GPU, driver and version of cuBLASLt. They are in a file of
 * the user's cache directory, one choice a line. Lines are only appended, and the first line for a problem is
 * valid. Processes that add choices at the same time read the file afterwards, and so agree without a lock.
 */
export class MatmulChoiceFile {
  readonly path: string;
  readonly #platform: MatmulPlatform;

  constructor(
    platform: MatmulPlatform,
    { variables }: { readonly variables: Readonly<Record<string, string | undefined>> },
  ) {
    const { XDG_CACHE_HOME } = variables;
    const cache =
      XDG_CACHE_HOME === undefined || XDG_CACHE_HOME === '' ? join(homedir(), '.cache') : XDG_CACHE_HOME;
    const name = `${platform.gpu}-${platform.driver}-${platform.cublasLt}`.replace(/[^A-Za-z0-9.]+/g, '-');
    this.path = join(cache, 'mtl', 'matmuls', `${name}-${digest(platform).slice(0, 8)}.jsonl`);
    this.#platform = platform;
  }

  /**
   * Reads the choices in the file; an empty list if the file does not exist.
   *
   * @throws ConfigurationError `MTL_MATMUL_CHOICES` for a file that cannot be read, is damaged or is of
   *   another platform
   */
  read(): MatmulChoices {
    const choices: Record<string, string> = {};
    const lines = this.#text().split('\n');
    const last = lines.pop();
    if (last !== '') throw this.#error(`line ${lines.length + 1} ends early`);
    for (const [index, text] of lines.entries()) {
      const line = parsed(text);
      if (line?.check !== this.#check(line?.problem, line?.algorithm)) {
        throw this.#error(`line ${index + 1} is damaged, or of another GPU, driver or cuBLASLt`);
      }
      choices[line!.problem] ??= line!.algorithm;
    }
    return choices;
  }

  /**
   * Appends the choices for problems that the file does not have yet, and returns all choices in the file.
   * These may differ from `choices` if another process has added a choice first.
   *
   * @throws ConfigurationError `MTL_MATMUL_CHOICES` as `read`, and for a file that cannot be written
   */
  add(choices: MatmulChoices): MatmulChoices {
    const before = this.read();
    const lines = Object.entries(choices)
      .filter(([problem]) => before[problem] === undefined)
      .map(([problem, algorithm]): Line => ({ problem, algorithm, check: this.#check(problem, algorithm) }));
    if (lines.length === 0) return before;
    try {
      mkdirSync(dirname(this.path), { recursive: true });
      // one write call, so that lines of several processes do not mix
      appendFileSync(this.path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''), { flush: true });
    } catch (error) {
      throw new ConfigurationError('MTL_MATMUL_CHOICES', `choices of matmuls: ${(error as Error).message}`, {
        expected:
          'a cache directory that can be written: a choice that is not kept could differ in the next run',
        remedy: 'name another cache directory in XDG_CACHE_HOME, or leave --time-matmuls out',
        cause: error,
      });
    }
    return this.read();
  }

  #text(): string {
    try {
      return readFileSync(this.path, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
      throw this.#error((error as Error).message, error);
    }
  }

  #check(problem: string | undefined, algorithm: string | undefined): string {
    return digest([this.#platform, problem, algorithm]).slice(0, 16);
  }

  #error(what: string, cause?: unknown): ConfigurationError {
    return new ConfigurationError('MTL_MATMUL_CHOICES', `${this.path}: ${what}`, {
      expected: 'choices of matmuls, as --time-matmuls writes them on this GPU',
      remedy: `remove the file, and the next run with --time-matmuls chooses again: rm ${this.path}`,
      cause,
    });
  }
}

const digest = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');

/** Parses a line; undefined for an invalid line. */
function parsed(text: string): Line | undefined {
  try {
    const { problem, algorithm, check } = JSON.parse(text) as Partial<Line>;
    const isChoice = [problem, algorithm, check].every((each) => typeof each === 'string');
    return isChoice ? ({ problem, algorithm, check } as Line) : undefined;
  } catch {
    return undefined;
  }
}

/** The hardware and software that determine which algorithm of a matmul is fastest. */
export interface MatmulPlatform {
  readonly gpu: string;
  readonly computeCapability: string;
  readonly numMultiprocessors: number;
  /** The CUDA version that the driver supports, and the driver's own version if the system reports it. */
  readonly driver: string;
  readonly cublasLt: string;
}

/** Returns the platform of this process, which must have opened device `cuda`. */
function matmulPlatform(): MatmulPlatform {
  const { deviceIndex } = cudaStreams();
  const { devices, driverVersion, cublasLtVersion } = openCuda({ deviceIndex });
  const { name, computeCapability, numMultiprocessors } = devices[deviceIndex]!;
  const driver = [`CUDA ${driverVersion}`, ownVersion()].filter((part) => part !== undefined).join(', ');
  return { gpu: name, computeCapability, numMultiprocessors, driver, cublasLt: cublasLtVersion };
}

/** Returns the version of NVIDIA's kernel module, such as 580.65.06. */
function ownVersion(): string | undefined {
  try {
    return /(\d+\.\d+(?:\.\d+)?)/.exec(readFileSync('/proc/driver/nvidia/version', 'utf8'))?.[1];
  } catch {
    return undefined; // not visible to this process
  }
}
