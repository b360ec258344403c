import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../bootstrap/bootstrap.mjs';

const sources = spawnSync('git', ['ls-files', 'packages/*/src/*.ts', 'apps/*/src/*.ts'], { cwd: root })
  .stdout.toString()
  .trim()
  .split('\n')
  .filter((path) => !path.endsWith('.test.ts'))
  .map((path) => ({ path, lines: readFileSync(join(root, path), 'utf8').split('\n') }));

/** The lines outside of its own file that name something, by file. */
function linesThatName(name, ownFile) {
  const isNamed = new RegExp(`\\b${name}\\b`);
  expect(sources.map(({ path }) => path)).toContain(ownFile);
  const entries = sources
    .filter(({ path }) => path !== ownFile)
    .map(({ path, lines }) => [path, lines.filter((line) => isNamed.test(line)).length])
    .filter(([, count]) => count > 0);
  return Object.fromEntries(entries);
}

/** Counts what a new one of a kind costs outside of its own file: the lines that name one that there is. */
describe('lines that something new touches outside of its own file', () => {
  it.each(['tensor', 'pipeline', 'data', 'expert'])(
    '%s parallelism: an import, and a place in the list',
    (word) => {
      const strategies = 'packages/configuration/src/strategies';
      expect(linesThatName(`${word}Parallelism`, `${strategies}/${word}-parallelism.ts`)).toEqual({
        [`${strategies}/strategies.ts`]: 2,
      });
    },
  );

  it.each([
    ['ReplicatedStore', 'replicated-store'],
    ['Zero1Store', 'zero1-store'],
  ])('%s: an import, an entry of the table, and an export', (name, file) => {
    const optimizer = 'packages/optimizer/src';
    expect(linesThatName(name, `${optimizer}/store/${file}.ts`)).toEqual({
      [`${optimizer}/index.ts`]: 1,
      [`${optimizer}/store/create-stores.ts`]: 2,
    });
  });

  it('a field of the architecture: its type, what it builds, and its names in two other formats', () => {
    const models = 'packages/models/src';
    const formats = 'packages/formats/src';
    expect(
      linesThatName('addQkvBias', 'packages/configuration/src/architecture/architecture-fields.ts'),
    ).toEqual({
      [`${models}/blocks/transformer-configuration.ts`]: 1,
      [`${models}/stages/block-specification.ts`]: 2,
      // which some model types state and others have always
      [`${formats}/huggingface/llama-fields.ts`]: 1,
      [`${formats}/huggingface/model-types.ts`]: 1,
      [`${formats}/megatron/megatron-fields.ts`]: 1,
    });
  });
});
