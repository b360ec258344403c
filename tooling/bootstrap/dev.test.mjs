import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from './bootstrap.mjs';
import { commands } from './dev.mjs';

const dev = (...words) =>
  spawnSync(process.execPath, [join(root, 'tooling/bootstrap/dev.mjs'), ...words], { encoding: 'utf8' });

describe('npm run dev', () => {
  it('lists every command on request', () => {
    const { status, stdout, stderr } = dev('--help');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    for (const [name, { about }] of Object.entries(commands))
      expect(stdout).toMatch(new RegExp(`^  ${name} +${about.replaceAll('.', '\\.')}$`, 'm'));
  });

  it.each([
    [[], 'no command is named'],
    [['paritty'], 'there is no command paritty; did you mean parity?'],
    [['compatiblity'], 'there is no command compatiblity; did you mean compatibility?'],
    [['bundle'], 'there is no command bundle; did you mean bundle:cuda?'],
    [['toString'], 'there is no command toString'],
    [['xyz'], 'there is no command xyz'],
  ])('%s: one error, the nearest name, the list, status 2', (words, what) => {
    const { status, stdout, stderr } = dev(...words);
    expect(stderr.split('\n').slice(0, 2)).toEqual([
      `error[MTL_FLAG_VALUE]: npm run dev: ${what}`,
      'usage: npm run dev -- NAME [ARGUMENTS]',
    ]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  });

  it('gives arguments and the status of the program on', () => {
    const { status, stderr } = dev('kills', 'many');
    expect(stderr).toContain('kills many cannot be used');
    expect(status).toBe(2);
  });

  it.each(Object.entries(commands))('%s starts a program that is there', (_, { command }) => {
    const [program, ...words] = command.split(' ');
    if (program === 'node') {
      const file = words.find((word) => !word.startsWith('-') && /^(tooling|packages|apps)\//.test(word));
      expect(existsSync(join(root, file))).toBe(true);
    } else if (program === 'vitest') {
      expect(existsSync(join(root, words[words.indexOf('--config') + 1]))).toBe(true);
    } else {
      expect([program, words[0]]).toEqual(['turbo', 'run']);
      const { tasks } = JSON.parse(readFileSync(join(root, 'turbo.json'), 'utf8'));
      expect(tasks).toHaveProperty([words[1]]);
    }
  });
});
