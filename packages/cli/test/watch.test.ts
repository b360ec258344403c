import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mtlCommand } from './support/mtl-command.js';
import { runMtlHere } from './support/run-mtl-here.js';
import { isRunning, startProcess } from './support/start-process.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
const runs = join(directory.path, 'runs');
beforeAll(() => {
  mkdirSync(join(runs, 'one'), { recursive: true });
  writeFileSync(join(runs, 'one', 'metrics.jsonl'), '{"iteration":1,"lm_loss":3}\n');
});
afterAll(() => directory.dispose());

describe('mtl watch', () => {
  it('serves the runs without native code, and ends at a signal with open connections', async () => {
    const { child, finished } = startProcess([...mtlCommand, 'watch', runs, '--port', '0']);
    let printed = '';
    child.stdout!.on('data', (text: string) => {
      printed += text;
    });
    await expect.poll(() => printed, { timeout: 60_000 }).toContain('Ctrl-C');
    expect(printed.split('\n')[0]).toBe(`${runs}: 1 run`);
    const [url] = /http:\/\/127\.0\.0\.1:\d+\//.exec(printed)!;
    const { runs: listed } = (await (await fetch(`${url}api/runs`)).json()) as { runs: unknown };
    expect(listed).toMatchObject([{ id: 'one', iteration: 1, loss: 3 }]);
    const maps = `/proc/${child.pid}/maps`;
    if (existsSync(maps)) {
      // libraries of Node.js itself are in it, addons are not
      expect(readFileSync(maps, 'utf8')).toContain('libc');
      expect(readFileSync(maps, 'utf8')).not.toMatch(/\.node$/m);
    }
    const events = await fetch(`${url}api/events`);
    child.kill('SIGINT');
    expect(await finished).toMatchObject({ status: 0, stderr: '' });
    await expect(events.text()).resolves.toContain('"one"');
    expect(isRunning(child.pid!)).toBe(false);
  });

  it('takes the name of a run in runs', async () => {
    const here = process.cwd();
    process.chdir(directory.path);
    try {
      // the run is found: what is refused is the address
      const { stderr } = await runMtlHere('watch', 'one', '--host', '192.0.2.1');
      expect(stderr).toContain('MTL_WATCH_HOST');
    } finally {
      process.chdir(here);
    }
  });

  it.each([
    ['a directory that does not exist', ['nowhere'], 'MTL_RUN_NONE', 'mkdir -p nowhere'],
    ['an address of another machine', [directory.path, '--host', '192.0.2.1'], 'MTL_WATCH_HOST', '127.0.0.1'],
    ['a port that is none', [directory.path, '--port', '99999'], 'MTL_FLAG_VALUE', '65535'],
  ])('refuses %s', async (_, words, code, advice) => {
    const { status, stderr } = await runMtlHere('watch', ...words);
    expect(status).toBe(2);
    expect(stderr).toContain(code);
    expect(stderr).toContain(advice);
  });
});
