import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readProgress } from '../native/native-build.mjs';
import { progressText } from './show-progress.mjs';

const program = fileURLToPath(new URL('./show-progress.mjs', import.meta.url));

describe('progress of a build', () => {
  it('is read from the lines of Ninja and Make', () => {
    expect(readProgress('[12/96] Building CXX object a.o')).toBe(0.125);
    expect(readProgress('[ 50%] Building CXX object a.o')).toBe(0.5);
    expect(readProgress('a.cc:[12/96] warning')).toBeUndefined();
  });

  it('is a line for each percent on a terminal, and one for each quarter elsewhere', () => {
    const at = (share, shown, isTerminal) => progressText({ share, shown, isTerminal, seconds: 7.2 });
    expect(at(0.13, 12, true)).toBe('\rcompiling: 13 % after 7 s');
    expect(at(0.129, 12, true)).toBeUndefined();
    expect(at(0.24, 0, false)).toBeUndefined();
    expect(at(0.26, 0, false)).toBe('compiling: 26 % after 7 s\n');
  });

  it('shows the build that is least done, and the command keeps its output and its status', () => {
    const build = `import { writeFileSync } from 'node:fs';
      import { setTimeout } from 'node:timers/promises';
      const write = (name, share) => writeFileSync(process.env.MTL_BUILD_PROGRESS + '/' + name, String(share));
      write('comm', 1);
      write('kernels', 0.4);
      await setTimeout(1200);
      console.log('output');
      process.exitCode = 3;`;
    const { status, output } = spawnSync(
      process.execPath,
      [program, process.execPath, '--input-type=module', '-e', build],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe', 'pipe'] },
    );
    expect(status).toBe(3);
    expect(output[1]).toBe('output\n');
    expect(output[3]).toMatch(/^compiling: 40 % after \d s\n$/);
  });
});
