import { glooProblem } from '@mtl/comm';
import { NativeJob } from '@mtl/comm/launcher';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createGlooGroup } from '../src/engines/gloo-engine.js';

afterEach(() => vi.unstubAllEnvs());

// this file needs its own process, in which no library has been loaded yet
describe('without the library of the gloo engine', () => {
  it('a group over gloo is an error with the command that installs it', () => {
    vi.stubEnv('MTL_GLOO_LIBRARY', '/nowhere/libmtl_comm_gloo.so');
    expect(glooProblem()).toContain('/nowhere/libmtl_comm_gloo.so');
    const job = new NativeJob(0);
    const store = {
      set: () => {
        throw new Error('nothing is announced before the engine is there');
      },
      get: () => new Uint8Array(),
    };
    const group = { job, name: 'world', ranks: [0, 1], hosts: [0, 0], timeoutMs: 1000 };
    expect(() => createGlooGroup({ ...group, store, keyPrefix: 'test' })).toThrow(
      expect.objectContaining({
        code: 'MTL_GLOO_LIBRARY',
        remedy: expect.stringContaining('apt-get install libgloo-dev'),
      }),
    );
    job.close();
  });
});
