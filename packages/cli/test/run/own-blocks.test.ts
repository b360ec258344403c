import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { spawnMtl } from '../support/spawn-mtl.js';
import { testDirectory } from '../support/test-directory.js';

const packages = fileURLToPath(new URL('../../../', import.meta.url));

/** Returns the programs of the section, by the names in the text before each. */
function programsOfReadme(): ReadonlyArray<readonly [name: string, text: string]> {
  const readme = readFileSync(join(packages, 'runs/README.md'), 'utf8');
  const section = /^## Blocks of your own\n[\s\S]*?(?=^## )/m.exec(readme)![0];
  return [...section.matchAll(/^([^\n`]*`[\s\S]*?)^```js ignore\n([\s\S]*?)^```$/gm)].map(
    ([, before, text]) => [before!.match(/`([\w-]+\.mjs)`/)![1]!, text!] as const,
  );
}

/** Makes the folder of packages that a user has after an installation. */
function installPackages(directory: string): void {
  const scope = join(directory, 'node_modules/@mtl');
  mkdirSync(scope, { recursive: true });
  for (const name of readdirSync(packages)) symlinkSync(join(packages, name), join(scope, name));
}

const onOneRank = (text: string): string => {
  expect(text).toContain('tensorModelParallelSize: 2, sequenceParallel: true');
  return text.replace('tensorModelParallelSize: 2, sequenceParallel: true', '');
};

/** Loss and gradient norm of the lines that a run prints. */
const readNumbers = (stdout: string): number[] =>
  [...stdout.matchAll(/ lm loss: (\S+) .* grad norm: (\S+) /g)].flatMap(([, ...words]) => words.map(Number));

it('is shown in the README with two programs', () => {
  expect(programsOfReadme().map(([name]) => name)).toEqual(['own-blocks.mjs', 'low-rank.mjs']);
});

it.each(programsOfReadme())(
  'the README of runs trains blocks of your own on four ranks as on one: %s',
  async (name, text) => {
    const directory = testDirectory();
    installPackages(directory);
    writeFileSync(join(directory, name), text);
    writeFileSync(join(directory, 'one.mjs'), onOneRank(text));
    const train = async (numRanks: number, program: string): Promise<number[]> => {
      const words = ['run', '--nproc-per-node', `${numRanks}`, program];
      const { status, stdout, stderr } = await spawnMtl(words, { cwd: directory });
      expect(stderr).toBe('');
      expect(status).toBe(0);
      return readNumbers(stdout);
    };
    const one = await train(1, 'one.mjs');
    const four = await train(4, name);
    expect(one.length).toBeGreaterThan(0);
    expect(four).toHaveLength(one.length);
    // to the number of printed digits
    four.forEach((value, index) => {
      expect(Math.abs(value / one[index]! - 1)).toBeLessThan(index % 2 === 0 ? 1e-6 : 2e-3);
    });
  },
  600_000,
);
