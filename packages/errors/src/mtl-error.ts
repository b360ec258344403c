/** Details that help the user to fix an error. All properties are optional. */
export interface MtlErrorOptions {
  /** The expected value or the nearest valid values. Printed after the message. */
  readonly expected?: string;
  /** The command or change that fixes the error. Printed on a separate line. */
  readonly remedy?: string;
  /** Structured context for programs, such as the file, line, rank or shapes. */
  readonly details?: Readonly<Record<string, unknown>>;
  /**
   * 2 for wrong input that was found before the run, 1 for a failure during the run. The default depends on
   * the class.
   */
  readonly exitCode?: 1 | 2;
  readonly cause?: unknown;
}

const marker = Symbol.for('mtl.error');

/**
 * Base class of all errors that packages of `@mtl` throw deliberately. `code` is stable and starts with
 * `MTL_`. Programs compare it; people read `message`, `expected` and `remedy`.
 */
export class MtlError extends Error {
  override readonly name: string = 'MtlError';
  readonly code: `MTL_${string}`;
  readonly expected: string | undefined;
  readonly remedy: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;
  readonly exitCode: 1 | 2;
  /** Marks every error of this class, even if a different copy of this package created it. */
  readonly [marker] = true;

  constructor(code: `MTL_${string}`, message: string, options: MtlErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.expected = options.expected;
    this.remedy = options.remedy;
    this.details = options.details ?? {};
    this.exitCode = options.exitCode ?? 1;
  }

  /** Returns true if `value` is an `MtlError`, even if a different copy of this package created it. */
  static isInstance(value: unknown): value is MtlError {
    return value instanceof Error && (value as { [marker]?: boolean })[marker] === true;
  }
}

/** An error in flags, configuration files or arguments that is found before the run (exit code 2). */
export class ConfigurationError extends MtlError {
  override readonly name = 'ConfigurationError';
  constructor(code: `MTL_${string}`, message: string, options: MtlErrorOptions = {}) {
    super(code, message, { exitCode: 2, ...options });
  }
}

/**
 * An error about a corpus, tokenizer or dataset that is missing, incomplete or inconsistent (exit code 2).
 */
export class DataError extends MtlError {
  override readonly name = 'DataError';
  constructor(code: `MTL_${string}`, message: string, options: MtlErrorOptions = {}) {
    super(code, message, { exitCode: 2, ...options });
  }
}

/** An error about a checkpoint or model directory that cannot be read or written. */
export class CheckpointError extends MtlError {
  override readonly name = 'CheckpointError';
}

/** Thrown if a native operation rejects its tensors, or if a device or library is missing. */
export class KernelError extends MtlError {
  override readonly name = 'KernelError';
}

/**
 * Thrown if the communication between processes fails: a rank has died, hangs or did not join, or the ranks'
 * operations do not match. `details` contains rank, group, operation, sequence and waitedMs, as far as they
 * are known.
 */
export class CommunicationError extends MtlError {
  override readonly name = 'CommunicationError';
}

/**
 * An error during training, for example a loss that is not finite, or a loss scale that has become too small.
 */
export class TrainingError extends MtlError {
  override readonly name = 'TrainingError';
}

/** Thrown if an API is used wrongly, which is a bug of the calling program and not wrong user input. */
export class UsageError extends MtlError {
  override readonly name = 'UsageError';
}
