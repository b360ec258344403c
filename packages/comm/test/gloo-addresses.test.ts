import { glooProblem } from '@mtl/comm';
import { NativeJob } from '@mtl/comm/launcher';
import { describe, expect, it } from 'vitest';
import { createGlooGroup } from '../src/engines/gloo-engine.js';

describe.skipIf(glooProblem() !== undefined)(
  'members of a group over gloo (libgloo-dev) that read the addresses of others',
  () => {
    /** Returns the error of rank 0 if rank 1 announces the addresses of rank 0 after a change by `change`. */
    function errorWith(change: (announced: Uint8Array) => Uint8Array): unknown {
      const job = new NativeJob(0);
      let announced = new Uint8Array();
      const store = {
        set: (_: string, value: Uint8Array) => {
          announced = value.slice();
        },
        get: () => change(announced),
      };
      const group = {
        job,
        name: 'world',
        ranks: [0, 1],
        hosts: [0, 1],
        timeoutMs: 1000,
        socketInterface: 'lo',
      };
      try {
        createGlooGroup({ ...group, store, keyPrefix: 'test' });
      } catch (error) {
        return error;
      } finally {
        job.close();
      }
      return undefined;
    }

    it('refuse a rank whose version of Gloo connects in another way, which would hang', () => {
      expect(errorWith((announced) => announced.with(0, announced[0]! ^ 3))).toMatchObject({
        code: 'MTL_GLOO',
        message: expect.stringMatching(
          /rank 1 has another version of Gloo than rank 0.*remedy: the same build/,
        ),
      });
    });

    it.each([
      ['nothing', () => new Uint8Array()],
      ['a handshake alone', (announced: Uint8Array) => announced.slice(0, 1)],
      ['less than its length says', (announced: Uint8Array) => announced.slice(0, 9)],
    ])('refuse %s in place of an address', (_, change) => {
      expect(errorWith(change)).toMatchObject({
        code: 'MTL_GLOO',
        message: expect.stringContaining('what rank 1 left in the store is not an address'),
      });
    });
  },
);
