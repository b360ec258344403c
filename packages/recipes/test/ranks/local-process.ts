// One rank as a process of its own, on the local engine: RANK WORLD_SIZE STORE_DIRECTORY ARGUMENT_FILE RESULT_FILE
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LocalWorld } from '@mtl/comm';
import trainGpt from './train-gpt.js';

const [rank, size, directory, argument, result] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];
const pathOf = (key: string): string => join(directory, encodeURIComponent(key));
const world = new LocalWorld({
  rank: Number(rank),
  size: Number(size),
  timeoutMs: 60_000,
  store: {
    set: (key, value) => {
      writeFileSync(`${pathOf(key)}.part`, value);
      renameSync(`${pathOf(key)}.part`, pathOf(key));
    },
    get: (key, timeoutMs) => {
      const deadline = performance.now() + timeoutMs;
      const pause = new Int32Array(new SharedArrayBuffer(4));
      while (!existsSync(pathOf(key))) {
        if (performance.now() > deadline) throw new Error(`nobody set ${key}`);
        Atomics.wait(pause, 0, 0, 5);
      }
      return readFileSync(pathOf(key));
    },
  },
});
try {
  const results = await trainGpt(world, JSON.parse(readFileSync(argument, 'utf8')));
  writeFileSync(result, JSON.stringify(results));
} catch (error) {
  world.abort(error as Error);
  throw error;
}
world.close();
