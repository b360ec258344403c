import * as promises from 'node:fs/promises';
import { basename } from 'node:path';
import type { FileSystem } from '../../src/index.js';

/**
 * A file system that notes, in order, what is written, made durable (`sync`) and renamed, by the last names.
 */
export function recordingFileSystem(): { readonly fileSystem: FileSystem; readonly log: string[] } {
  const log: string[] = [];
  const fileSystem = {
    ...promises,
    rename: async (from: string, to: string) => {
      await promises.rename(from, to);
      log.push(`rename ${basename(from)} ${basename(to)}`);
    },
    open: async (path: string, flags: string) => {
      const handle = await promises.open(path, flags);
      return new Proxy(handle, {
        get: (target, key) => {
          const value: unknown = Reflect.get(target, key);
          if (typeof value !== 'function') return value;
          return async (...args: unknown[]): Promise<unknown> => {
            const result: unknown = await (value as (...args: unknown[]) => unknown).apply(target, args);
            if (key === 'write' || key === 'writeFile') log.push(`write ${basename(path)}`);
            if (key === 'sync') log.push(`sync ${basename(path)}`);
            return result;
          };
        },
      });
    },
  } as unknown as FileSystem;
  return { fileSystem, log };
}
