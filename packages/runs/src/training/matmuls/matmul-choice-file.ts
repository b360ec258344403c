import { createHash } from 'node:crypto';
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import type { MatmulChoices } from '@mtl/kernels/matmul-choices';
import type { MatmulPlatform } from './matmul-platform.js';

interface Line {
  readonly problem: string;
  readonly algorithm: string;
  /**
   * The checksum of the platform, the problem and the algorithm. It detects a damaged line, and a line for a
   * different platform.
   */
  readonly check: string;
}

/**
 * The chosen algorithms for matmuls on one platform, in a file in the user's cache directory. Each line is a
 * choice. Lines are only appended, and the first line for a problem counts. Simultaneous processes agree
 * without a lock, because they read the file after appending.
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
    const name = Object.values(platform.properties)
      .join('-')
      .replace(/[^A-Za-z0-9.]+/g, '-');
    this.path = join(cache, 'mtl', 'matmuls', `${name}-${digest(platform.properties).slice(0, 8)}.jsonl`);
    this.#platform = platform;
  }

  /**
   * Returns the choices that the file now contains. They are empty if the file does not exist.
   *
   * @throws ConfigurationError `MTL_MATMUL_CHOICES` for a file that cannot be read, is damaged or belongs to
   *   a different platform
   */
  read(): MatmulChoices {
    const choices: Record<string, string> = {};
    const lines = this.#text().split('\n');
    const last = lines.pop();
    if (last !== '') throw this.#error(`line ${lines.length + 1} ends early`);
    for (const [index, text] of lines.entries()) {
      const line = parsed(text);
      if (line?.check !== this.#check(line?.problem, line?.algorithm)) {
        throw this.#error(`line ${index + 1} is damaged, or of another platform`);
      }
      choices[line!.problem] ??= line!.algorithm;
    }
    return choices;
  }

  /**
   * Adds the given choices for problems that are not in the file. Returns all choices in the file. For
   * problems that were already in the file, they may differ from the given choices.
   *
   * @throws ConfigurationError `MTL_MATMUL_CHOICES` with the errors of `read`, and for a file that cannot be
   * written
   */
  add(choices: MatmulChoices): MatmulChoices {
    const before = this.read();
    const lines = Object.entries(choices)
      .filter(([problem]) => before[problem] === undefined)
      .map(([problem, algorithm]): Line => ({ problem, algorithm, check: this.#check(problem, algorithm) }));
    if (lines.length === 0) return before;
    try {
      mkdirSync(dirname(this.path), { recursive: true });
      // a single write cannot be interleaved with writes of other processes
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
    return digest([this.#platform.properties, problem, algorithm]).slice(0, 16);
  }

  #error(what: string, cause?: unknown): ConfigurationError {
    return new ConfigurationError('MTL_MATMUL_CHOICES', `${this.path}: ${what}`, {
      expected: 'choices of matmuls, as --time-matmuls writes them on this machine',
      remedy: `remove the file, and the next run with --time-matmuls chooses again: rm ${this.path}`,
      cause,
    });
  }
}

const digest = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');

/** Returns the choice in a line of the file; undefined for an invalid line. */
function parsed(text: string): Line | undefined {
  try {
    const { problem, algorithm, check } = JSON.parse(text) as Partial<Line>;
    const isChoice = [problem, algorithm, check].every((each) => typeof each === 'string');
    return isChoice ? ({ problem, algorithm, check } as Line) : undefined;
  } catch {
    return undefined;
  }
}
