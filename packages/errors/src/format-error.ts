import { MtlError } from './mtl-error.js';

/** The remedies for operating system errors, by error code. */
const remedies: Readonly<Record<string, string>> = {
  ENOSPC: 'free space on that file system, or write to another one',
  EDQUOT: 'free space within your quota, or write to another file system',
  EROFS: 'choose a place that can be written to',
  EACCES: 'check owner and mode, or choose another place',
  EPERM: 'check owner and mode, or choose another place',
  ENOENT: 'check the path, and that its directory can be written to',
  ENOTDIR: 'check the path: one of its directories is a file',
  EISDIR: 'name a file: this is a directory',
  EMFILE: 'allow more open files: ulimit -n',
  ENFILE: 'end other programs: the system has no open files left',
};

/**
 * Returns what a program prints for an error: `error[CODE]: message; expected ...`, and the remedy on a
 * second line. Operating system errors with a known remedy (such as a full disk) get the code MTL_SYSTEM; all
 * other errors that are not an `MtlError` get MTL_UNEXPECTED. If `debug` is true, the stack is appended.
 */
export function formatError(error: unknown, { debug = false }: { debug?: boolean } = {}): string {
  const stack = debug && error instanceof Error ? `\n${error.stack ?? ''}` : '';
  if (!MtlError.isInstance(error)) {
    const message = error instanceof Error ? error.message : String(error);
    const remedy = remedies[(error as { readonly code?: string } | null | undefined)?.code ?? ''];
    if (remedy !== undefined) return `error[MTL_SYSTEM]: ${message}\n  remedy: ${remedy}${stack}`;
    return `error[MTL_UNEXPECTED]: ${message}${debug ? stack : '\n  --debug shows where it came from'}`;
  }
  const expected = error.expected === undefined ? '' : `; expected ${error.expected}`;
  const remedy = error.remedy === undefined ? '' : `\n  remedy: ${error.remedy}`;
  return `error[${error.code}]: ${error.message}${expected}${remedy}${stack}`;
}

/** Returns the exit status of a program that ends with `error`: 2 for wrong input, 1 for everything else. */
export function chooseExitCode(error: unknown): 1 | 2 {
  return MtlError.isInstance(error) ? error.exitCode : 1;
}
