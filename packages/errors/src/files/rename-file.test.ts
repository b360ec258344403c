import { afterEach, describe, expect, test, vi } from 'vitest';
import { renameFile, renameFileSync } from './rename-file.js';

const onPlatform = (platform: string): unknown =>
  vi.spyOn(process, 'platform', 'get').mockReturnValue(platform as NodeJS.Platform);

afterEach(() => {
  vi.restoreAllMocks();
});

/** A rename that fails `times` times with the system's `code`. */
function failing(times: number, code: string) {
  let calls = 0;
  return vi.fn(() => {
    calls += 1;
    if (calls <= times) throw Object.assign(new Error(`${code}: refused`), { code });
  });
}

const both = {
  renameFile: async (once: () => void) => await renameFile('a', 'b', async () => once()),
  renameFileSync: async (once: () => void) => renameFileSync('a', 'b', once),
};

describe.each(Object.entries(both))('%s', (_name, rename) => {
  test.each(['EPERM', 'EACCES', 'EBUSY'])('tries again on Windows after %s', async (code) => {
    onPlatform('win32');
    const once = failing(2, code);
    await rename(once);
    expect(once).toHaveBeenCalledTimes(3);
  });

  test('gives up with a remedy while the file stays open', async () => {
    onPlatform('win32');
    const once = failing(Number.POSITIVE_INFINITY, 'EPERM');
    await expect(rename(once)).rejects.toMatchObject({
      code: 'MTL_FILE_IN_USE',
      message: 'b cannot be written: EPERM: refused',
      remedy: expect.stringContaining('close the programs'),
    });
    expect(once).toHaveBeenCalledTimes(8);
  });

  test.each([
    ['linux', 'EPERM'],
    ['darwin', 'EBUSY'],
    ['win32', 'ENOENT'],
  ])('throws at once on %s after %s', async (platform, code) => {
    onPlatform(platform);
    const once = failing(1, code);
    await expect(rename(once)).rejects.toMatchObject({ code });
    expect(once).toHaveBeenCalledTimes(1);
  });
});
