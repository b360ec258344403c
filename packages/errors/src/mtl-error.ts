/** Everything that a user needs to fix an error; every part but the message is optional. */
export interface MtlErrorOptions {
  /** The expected value, or the nearest valid ones: printed after the message. */
  readonly expected?: string;
  /** The command or change that fixes it: printed on a line of its own. */
  readonly remedy?: string;
  /** Structured context for programs (file, line, rank, shapes ...). */
  readonly details?: Readonly<Record<string, unknown>>;
  /** 2 for wrong input found before the run, 1 for a failure during it (the default depends on the class). */
  readonly exitCode?: 1 | 2;
  readonly cause?: unknown;
}

const marker = Symbol.for('mtl.error');

/**
 * Base of all errors that packages of `@mtl` raise deliberately. `code` is stable and starts with `MTL_`;
 * programs match on it, people read `message`, `expected` and `remedy`.
 */
export class MtlError extends Error {
  override readonly name: string = 'MtlError';
  readonly code: `MTL_${string}`;
  readonly expected: string | undefined;
  readonly remedy: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;
  readonly exitCode: 1 | 2;
  /** Marks the family across duplicated copies of this package. */
  readonly [marker] = true;

  constructor(code: `MTL_${string}`, message: string, options: MtlErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.expected = options.expected;
    this.remedy = options.remedy;
    this.details = options.details ?? {};
    this.exitCode = options.exitCode ?? 1;
  }

  /** Tells whether `value` is an error of this family, also when another copy of the package made it. */
  static isInstance(value: unknown): value is MtlError {
    return value instanceof Error && (value as { [marker]?: boolean })[marker] === true;
  }
}

/** Flags, files of settings or arguments that cannot work; found before the run (exit code 2). */
export class ConfigurationError extends MtlError {
  override readonly name = 'ConfigurationError';
  constructor(code: `MTL_${string}`, message: string, options: MtlErrorOptions = {}) {
    super(code, message, { exitCode: 2, ...options });
  }
}

/** A corpus, tokenizer or dataset that is missing, torn or contradicts itself (exit code 2). */
export class DataError extends MtlError {
  override readonly name = 'DataError';
  constructor(code: `MTL_${string}`, message: string, options: MtlErrorOptions = {}) {
    super(code, message, { exitCode: 2, ...options });
  }
}

/** A checkpoint or model directory that cannot be read or written. */
export class CheckpointError extends MtlError {
  override readonly name = 'CheckpointError';
}

/** A native operation that refused its tensors, or a device or library that is not there. */
export class KernelError extends MtlError {
  override readonly name = 'KernelError';
}

/**
 * Processes that could not work together: a rank that died, hangs or never came, operations that do not fit
 * each other. `details` holds rank, group, operation, sequence and waitedMs where they are known.
 */
export class CommunicationError extends MtlError {
  override readonly name = 'CommunicationError';
}

/** Training that went wrong while running: a loss that is not a number, a scale that ran out. */
export class TrainingError extends MtlError {
  override readonly name = 'TrainingError';
}

/** A misuse of an API by the calling program: a bug there, not an input of a user. */
export class UsageError extends MtlError {
  override readonly name = 'UsageError';
}
