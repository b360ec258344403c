/**
 * Closes all resources in the given order, even if a resource fails to close.
 *
 * @throws the error of the first resource that could not be closed
 */
export async function closeAll(closers: readonly (() => unknown)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const close of closers) {
    try {
      await close();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}

/**
 * Closes resources that were opened before an error, newest first. Errors while closing are ignored, so that
 * they do not hide the original error.
 */
export async function closeAfterError(opened: readonly (() => unknown)[]): Promise<void> {
  await closeAll(opened.toReversed()).catch(() => undefined);
}
