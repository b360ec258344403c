import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** The ```ts blocks of the README, each with the ```text block that follows it. */
const examples = [
  ...readFileSync(at('README.md'), 'utf8').matchAll(
    /^```ts\n([\s\S]*?)^```\n\nprints\n\n```text\n([\s\S]*?)^```$/gm,
  ),
].map(([, code, output], index) => ({ code: code!, output: output!, index }));

afterEach(() => vi.restoreAllMocks());

describe('README', () => {
  it('has an example of schedules and one of a stage', () => expect(examples).toHaveLength(2));

  it.each(examples)('example $index prints what it says', async ({ code, output, index }) => {
    // The example runs with the sources of this package; another test runs it with the packed package.
    const source = code
      .replace("'@mtl/pipeline/schedules'", "'../src/schedules.js'")
      .replace("'@mtl/pipeline'", "'../src/index.js'");
    mkdirSync(at('build'), { recursive: true });
    const file = at(`build/readme-example-${index}.ts`);
    writeFileSync(file, source);
    const printed = vi.spyOn(console, 'log').mockImplementation(() => {});
    await import(file);
    expect(printed.mock.calls.map((words) => `${words.join(' ')}\n`).join('')).toBe(output);
  });
});
