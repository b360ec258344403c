import { mkdirSync, readdirSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
const cwd = directory.path;
afterAll(() => directory.dispose());

beforeAll(() => {
  // 48 MB are two seconds of work or more; the signal comes milliseconds after the first temporary file
  const documents = Array.from({ length: 1000 }, (_, index) => `Document ${index} says ${index * 7919}.`);
  writeFileSync(join(cwd, 'corpus.txt'), `${documents.join('\n\n')}\n\n`.repeat(1600));
});

describe.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s during mtl data prepare', (signal, status) => {
  it.each([0, 2])('leaves nothing behind and ends with its own status, with %i threads', async (workers) => {
    const output = join(cwd, `${signal}-${workers}`);
    mkdirSync(output);
    const argv = [
      ...['--input', 'corpus.txt', '--output-prefix', join(output, 'a')],
      ...['--tokenizer-type', 'GPT2BPETokenizer', '--workers', String(workers)],
    ];
    let seen: string | null = null;
    const run = await spawnMtl(['data', 'prepare', ...argv], {
      cwd,
      onStart: (kill) => {
        const watcher = watch(output, (_, name) => {
          watcher.close();
          if (seen === null) kill(signal);
          seen = name;
        });
      },
    });
    expect(seen).toMatch(/\.tmp$/);
    expect(run.stderr).toBe(
      `error[MTL_INTERRUPTED]: stopped by ${signal}; what was being written has been removed\n` +
        '  remedy: run the command again: it starts from the beginning\n',
    );
    expect(run.stdout).toBe('');
    expect(run.status).toBe(status);
    expect(readdirSync(output)).toEqual([]);
  });
});
