import { MtlError, type MtlErrorOptions } from './mtl-error.js';

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
