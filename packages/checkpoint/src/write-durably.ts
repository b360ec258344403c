import type { FileSystem } from './file-system.js';

/** Writes a small text file and waits until it is on the disk (fsync). Throws the system's errors. */
export async function writeDurably(options: {
  readonly path: string;
  readonly text: string;
  readonly fileSystem: FileSystem;
}): Promise<void> {
  const handle = await options.fileSystem.open(options.path, 'w');
  try {
    await handle.writeFile(options.text, 'utf8');
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes the names in a directory durable (fsync of the directory itself). */
export async function syncDirectory(path: string, fileSystem: FileSystem): Promise<void> {
  const handle = await fileSystem.open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
