import type { FileHandle } from 'node:fs/promises';
import * as promises from 'node:fs/promises';
import { basename } from 'node:path';
import type { FileSystem } from '../../src/files/file-system.js';

/**
 * A file system whose operation number `failAt` (counted over everything that changes the disk, from 0) fails
 * with `code`, and, when `sticky`, every later write as well, as on a disk that stays full. Removing always
 * works.
 */
export function failingFileSystem(options: {
  readonly failAt: number;
  readonly code: string;
  readonly sticky?: boolean;
}): {
  readonly fileSystem: FileSystem;
  readonly operations: () => number;
  readonly failed: () => string | undefined;
} {
  let count = 0;
  let failed: string | undefined;
  const step = (name: string): void => {
    const number = count++;
    if (number !== options.failAt && !(options.sticky === true && number > options.failAt)) return;
    failed ??= name;
    throw Object.assign(new Error(`${options.code}: injected, ${name}`), { code: options.code });
  };
  const guard = (handle: FileHandle): FileHandle =>
    new Proxy(handle, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]): unknown => {
          if (key === 'write' || key === 'writeFile' || key === 'sync') {
            try {
              step(String(key));
            } catch (error) {
              return Promise.reject(error as Error);
            }
          }
          return (value as (...args: unknown[]) => unknown).apply(target, args);
        };
      },
    });
  const guarded =
    <Args extends unknown[], Result>(name: string, run: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      step(name);
      return await run(...args);
    };
  const fileSystem = {
    ...promises,
    mkdir: guarded('mkdir', promises.mkdir as never),
    rename: guarded('rename', promises.rename),
    open: async (path: string, flags: string): Promise<FileHandle> => {
      if (flags !== 'r') step('open');
      return guard(await promises.open(path, flags));
    },
  } as unknown as FileSystem;
  return { fileSystem, operations: () => count, failed: () => failed };
}

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
