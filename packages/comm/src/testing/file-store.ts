import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommunicationError } from '@mtl/errors';
import type { Store } from '../store.js';

/** A store in a folder, for ranks of one host: a file per key, looked for every few milliseconds. */
export class FileStore implements Store {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  set(key: string, value: Uint8Array): void {
    const path = this.#pathOf(key);
    writeFileSync(`${path}.part`, value);
    renameSync(`${path}.part`, path);
  }

  get(key: string, timeoutMs: number): Uint8Array {
    const deadline = performance.now() + timeoutMs;
    const nothing = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(this.#pathOf(key))) {
      if (performance.now() > deadline) throw new CommunicationError('MTL_TIMEOUT', `no rank set ${key}`);
      Atomics.wait(nothing, 0, 0, 5);
    }
    return readFileSync(this.#pathOf(key));
  }

  #pathOf(key: string): string {
    return join(this.#directory, encodeURIComponent(key));
  }
}
