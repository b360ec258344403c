import { CheckpointError, MtlError } from '@mtl/errors';

const unwritable = new Set(['EACCES', 'EPERM', 'EROFS']);

/**
 * Returns the system's code of a failed file operation (`ENOSPC`, `ENOENT`, ...); undefined if the error has
 * no such code.
 */
export function systemCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

interface IoAction {
  /** The failed operation as a verb phrase, for example "write the shard". */
  readonly action: string;
  readonly path: string;
  /** The exit code; 2 for wrong input. Default: 1. */
  readonly exitCode?: 1 | 2;
}

/**
 * Converts the error of a file operation to a coded error: MTL_CHECKPOINT_DISK_FULL, MTL_CHECKPOINT_DENIED or
 * MTL_CHECKPOINT_IO. Errors that already have a code are returned unchanged.
 */
export function ioError(error: unknown, options: IoAction): MtlError {
  if (MtlError.isInstance(error)) return error;
  const code = systemCode(error);
  const reason = error instanceof Error ? error.message : String(error);
  const { exitCode = 1 } = options;
  const common = { cause: error, details: { path: options.path, systemCode: code }, exitCode };
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    const what = code === 'ENOSPC' ? 'the file system is full' : 'the disk quota is used up';
    return new CheckpointError(
      'MTL_CHECKPOINT_DISK_FULL',
      `cannot ${options.action} ${options.path}: ${what}`,
      { ...common, remedy: 'free space there (keep fewer checkpoints) or save to another file system' },
    );
  }
  if (code === 'ENOTDIR') {
    return new CheckpointError(
      'MTL_CHECKPOINT_DENIED',
      `cannot ${options.action} ${options.path}: a file is in the place of a directory`,
      { ...common, remedy: 'name a directory' },
    );
  }
  if (code !== undefined && unwritable.has(code)) {
    return new CheckpointError(
      'MTL_CHECKPOINT_DENIED',
      `cannot ${options.action} ${options.path}: ${reason}`,
      {
        ...common,
        remedy: 'check owner and mode of the directory and that the file system is not mounted read-only',
      },
    );
  }
  return new CheckpointError(
    'MTL_CHECKPOINT_IO',
    `cannot ${options.action} ${options.path}: ${reason}`,
    common,
  );
}

/** Runs `operation`, and throws its errors as coded errors (see `ioError`). */
export async function withIoErrors<Result>(
  options: IoAction,
  operation: () => Promise<Result>,
): Promise<Result> {
  try {
    return await operation();
  } catch (error) {
    throw ioError(error, options);
  }
}
