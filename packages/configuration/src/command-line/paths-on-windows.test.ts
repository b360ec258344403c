import { afterAll, expect, it, vi } from 'vitest';

vi.mock('node:path', async (load) => {
  const { win32 } = await load<typeof import('node:path')>();
  return { ...win32, default: win32 };
});

// test files share a process: different files have imported the module before, and import it again later
vi.resetModules();
afterAll(() => {
  vi.doUnmock('node:path');
  vi.resetModules();
});

const { checkModulesOfFile } = await import('./resolve-flags.js');

const path = 'C:\\settings\\run.yaml';
const check = (module: string): void =>
  checkModulesOfFile({ path, preset: undefined, values: new Map(), notices: [] }, {
    values: { 'pipeline-schedule': module },
    sources: new Map([['pipeline-schedule', path]]),
  } as unknown as Parameters<typeof checkModulesOfFile>[1]);

it.each(['C:\\settings\\own.mjs', 'c:\\SETTINGS\\below\\own.mjs', 'C:/settings/own.js'])(
  'accepts a module in the folder of the settings: %s',
  (module) => expect(() => check(module)).not.toThrow(),
);

it.each(['D:\\settings\\other.mjs', 'C:\\other.mjs', '\\\\server\\share\\other.mjs', 'C:\\settings2\\a.js'])(
  'refuses a module outside of the folder of the settings: %s',
  (module) => expect(() => check(module)).toThrow(expect.objectContaining({ code: 'MTL_CONFIG_SCHEDULE' })),
);
