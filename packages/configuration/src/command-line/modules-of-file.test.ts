import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseFlags } from './parse-flags.js';

describe('a module in a file of settings', () => {
  let directory: string;
  const config = (module: string): readonly string[] => {
    const path = join(directory, 'settings', 'run.yaml');
    writeFileSync(path, `pipeline-schedule: ${module}\n`);
    return ['--config', path];
  };

  beforeAll(() => {
    directory = realpathSync(mkdtempSync(join(tmpdir(), 'mtl-config-schedule-')));
    mkdirSync(join(directory, 'settings', 'schedules'), { recursive: true });
    for (const name of ['outside.mjs', 'settings/own.mjs', 'settings/schedules/own.mjs'])
      writeFileSync(join(directory, name), 'throw new Error("run");\n');
    symlinkSync(join(directory, 'outside.mjs'), join(directory, 'settings', 'link.mjs'));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it.each(['own.mjs', 'schedules/own.mjs'])('is accepted in the folder of the file: %s', (name) => {
    const path = join(directory, 'settings', name);
    for (const module of [path, relative(process.cwd(), path)])
      expect(parseFlags(config(module)).values['pipeline-schedule']).toBe(module);
  });

  it.each(['outside.mjs', 'nowhere/missing.cjs', 'settings/../outside.js', 'settings/link.mjs'])(
    'is refused elsewhere: %s',
    (name) => {
      const module = join(directory, ...name.split('/'));
      const settings = config(module);
      expect(() => parseFlags(settings)).toThrow(
        expect.objectContaining({
          code: 'MTL_CONFIG_SCHEDULE',
          exitCode: 2,
          message: expect.stringContaining(
            `pipeline-schedule in ${settings[1]} is ${module}, a module outside`,
          ),
          remedy: expect.stringContaining(`pass --pipeline-schedule ${module} on the command line`),
        }),
      );
    },
  );

  it('does not matter when the command line names another schedule', () => {
    const settings = config(join(directory, 'outside.mjs'));
    const own = join(directory, 'outside.mjs');
    expect(parseFlags([...settings, '--pipeline-schedule', 'gpipe']).values['pipeline-schedule']).toBe(
      'gpipe',
    );
    expect(parseFlags([...settings, '--pipeline-schedule', own]).values['pipeline-schedule']).toBe(own);
  });

  it('may give blocks too, from the folder of the file alone', () => {
    const path = join(directory, 'settings', 'blocks.yaml');
    const configure = (module: string) => {
      writeFileSync(path, `model-blocks: ${module}\n`);
      return parseFlags(['--config', path]).values['model-blocks'];
    };
    const own = join(directory, 'settings', 'own.mjs');
    expect(configure(own)).toBe(own);
    expect(() => configure(join(directory, 'outside.mjs'))).toThrow(
      expect.objectContaining({
        code: 'MTL_CONFIG_SCHEDULE',
        remedy: expect.stringContaining('pass --model-blocks'),
      }),
    );
  });

  it('may be a schedule by name or a CSV file, which are not run', () => {
    for (const name of ['gpipe', '/elsewhere/schedule.csv'])
      expect(parseFlags(config(name)).values['pipeline-schedule']).toBe(name);
  });
});
