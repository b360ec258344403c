import { afterEach, describe, expect, it, vi } from 'vitest';
import { convertFailure, loadAddon } from './addon.js';

describe('loadAddon', () => {
  const { platform } = process;
  afterEach(() => {
    vi.unstubAllEnvs();
    Object.defineProperty(process, 'platform', { value: platform });
  });

  it('lists what was tried and how to build the addon', () => {
    vi.stubEnv('MTL_COMM_ADDON', '/missing.node');
    expect(() => loadAddon()).toThrowError(
      expect.objectContaining({
        code: 'MTL_ADDON',
        message: expect.stringContaining('/missing.node'),
        remedy: expect.stringContaining('mtl-comm-build'),
      }),
    );
  });

  it('names an unsupported platform in place of a build that would fail there', () => {
    vi.stubEnv('MTL_COMM_ADDON', '/missing.node');
    Object.defineProperty(process, 'platform', { value: 'darwin' });
    expect(() => loadAddon()).toThrowError(
      expect.objectContaining({
        code: 'MTL_PLATFORM',
        message: expect.stringContaining('unsupported platform: darwin'),
        remedy: expect.stringContaining('docker run'),
      }),
    );
  });
});

describe('convertFailure', () => {
  it('says how to go on after a rank died, which other failures do not', () => {
    const died = convertFailure({ code: 'MTL_RANK_DIED', message: 'rank 3 died', rank: 3 });
    expect(died).toMatchObject({ code: 'MTL_RANK_DIED', message: 'rank 3 died', details: { rank: 3 } });
    for (const words of ['SIGKILL', 'newest checkpoint with --load', 'mtl run --max-restarts']) {
      expect(died.remedy).toContain(words);
    }
    expect(convertFailure({ code: 'MTL_TIMEOUT', message: 'no answer' }).remedy).toBeUndefined();
  });
});
