import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { missingEngines } from './required-engines.mjs';

const list =
  '# what must be seen\n\npackages/comm: local\npackages/comm: gloo+local\napps/gpt-train: local\n';

describe('missingEngines', () => {
  it('names every engine that the tests of a folder have not seen', () => {
    const used = { 'packages/comm': ['local', 'gloo'], 'packages/cli': ['local', 'gloo+local'] };
    expect(missingEngines(used, list)).toEqual(['packages/comm: gloo+local', 'apps/gpt-train: local']);
    expect(
      missingEngines(
        { ...used, 'packages/comm': ['gloo+local', 'local'], 'apps/gpt-train': ['local'] },
        list,
      ),
    ).toEqual([]);
  });

  it('refuses a line that names no folder', () => {
    expect(() => missingEngines({}, 'local')).toThrow(/folder: engine/);
  });

  it('reads the lists of CI, which ask for every engine of this machine', () => {
    const readList = (name) => readFileSync(new URL(`../../.ci/${name}`, import.meta.url), 'utf8');
    const all = missingEngines({}, readList('required-engines-of-all'));
    const few = missingEngines({}, readList('required-engines'));
    for (const engine of ['memory', 'local', 'gloo', 'gloo+local'])
      expect(few).toContain(`packages/comm: ${engine}`);
    expect(all).toEqual(expect.arrayContaining(few));
    for (const engine of ['local', 'gloo+local']) expect(all).toContain(`apps/gpt-train: ${engine}`);
  });
});
