import { type FileHandle, open } from 'node:fs/promises';

/**
 * Counts the bytes that a task reads through file handles, except from files of less than `leastBytes` bytes,
 * such as manifests and trackers.
 */
export async function countBytesRead(
  task: () => Promise<unknown>,
  { leastBytes }: { readonly leastBytes: number },
): Promise<number> {
  const handle = await open(new URL(import.meta.url));
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const { read } = prototype;
  let count = 0;
  prototype.read = async function (this: FileHandle, ...options: never[]) {
    const result = await Reflect.apply(read, this, options);
    if ((await this.stat()).size >= leastBytes) count += result.bytesRead;
    return result;
  } as typeof read;
  try {
    await task();
  } finally {
    prototype.read = read;
  }
  return count;
}
