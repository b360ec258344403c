/**
 * Closes everything that was opened, in this order: what cannot be closed does not keep the rest open.
 *
 * @throws the first error of one that could not be closed
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

/** Closes what was opened before an error, newest first: an error of closing must not hide that one. */
export async function closeAfterError(opened: readonly (() => unknown)[]): Promise<void> {
  await closeAll(opened.toReversed()).catch(() => undefined);
}
