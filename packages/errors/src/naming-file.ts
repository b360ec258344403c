/**
 * Runs a file operation whose errors do not name the file, such as a write to a descriptor: the message of
 * what the system reports (a full disk, a quota) then begins with the path, and its code stays.
 */
export function namingFile<Result>(path: string, operation: () => Result): Result {
  try {
    return operation();
  } catch (error) {
    const known = error as Partial<NodeJS.ErrnoException> | null | undefined;
    const isUnnamed = error instanceof Error && typeof known?.code === 'string' && known.path === undefined;
    if (!isUnnamed) throw error;
    const named = new Error(`${path}: ${error.message}`, { cause: error });
    throw Object.assign(named, { code: known.code, path });
  }
}
