import { dirname, join } from 'node:path';
import { hostInformation } from '@mtl/kernels';
import { runInChromium } from '@mtl/tooling/run-in-chromium';
import { describe, expect, it } from 'vitest';
import { multiply } from './multiply.js';
import { trainGpt } from './train-gpt.js';

const { isWebAssembly, addonPath, mostThreads, instructionSet } = hostInformation();
const locate = (name: string): string => new URL(name, import.meta.url).pathname;
const threads = mostThreads === 1 ? [1] : [1, 2];

/**
 * Runs a program in a page, which may load all modules in the folder of the module that Node computes with.
 */
function runInPage(
  program: string,
  options: { threads: number; isIsolated?: boolean; isRelaxed?: boolean },
): Promise<{ numbers: number[]; printed: string; instructionSet: string; mostThreads: number }> {
  const { threads, isRelaxed = instructionSet === 'relaxed_simd', ...others } = options;
  const modules = ['mtl_kernels.wasm', 'mtl_kernels_single.wasm', 'mtl_kernels_relaxed.wasm'];
  return runInChromium({
    entries: { worker: locate('worker.mjs'), thread: locate('thread.mjs') },
    files: Object.fromEntries(modules.map((file) => [`/${file}`, join(dirname(addonPath), file)])),
    query: `?program=${program}&threads=${threads}${isRelaxed ? '&relaxed' : ''}`,
    ...others,
  });
}

// MTL_KERNELS=wasm runs these: Node computes with the same instructions, and so bitwise the same
describe.skipIf(!isWebAssembly)(
  `kernels in a page of Chromium${isWebAssembly ? '' : ' (no WebAssembly)'}`,
  () => {
    it.each(threads)('multiply as in Node, with %s threads', async (threads) => {
      const { numbers, printed } = await runInPage('multiply', { threads });
      expect(numbers).toEqual(await multiply({ numThreads: threads }));
      expect(printed).toBe('');
    });

    it.each(threads)('train a GPT for 20 steps with the losses of Node, with %s threads', async (threads) => {
      const { numbers: losses, ...host } = await runInPage('trainGpt', { threads });
      expect(losses).toHaveLength(20);
      expect(losses).toEqual(await trainGpt({ numThreads: threads }));
      expect(losses.at(-1)).toBeLessThan(0.8 * losses[0]!);
      expect(host).toMatchObject({ instructionSet, mostThreads: 1024 });
    });

    const itIsNotRelaxed = it.runIf(instructionSet !== 'relaxed_simd');
    itIsNotRelaxed(
      'train in a page that is not isolated, with the losses of one thread in Node',
      async () => {
        const { numbers: losses, ...host } = await runInPage('trainGpt', { threads: 1, isIsolated: false });
        expect(losses).toHaveLength(20);
        expect(losses).toEqual(await trainGpt({ numThreads: 1 }));
        expect(host).toMatchObject({
          instructionSet: 'simd128',
          mostThreads: 1,
          printed: expect.stringMatching(
            /^the kernels compute with one thread: .*Cross-Origin-Embedder-Policy: require-corp$/,
          ),
        });
      },
    );

    itIsNotRelaxed('refuse a second thread and relaxed SIMD in such a page', async () => {
      await expect(runInPage('multiply', { threads: 2, isIsolated: false })).rejects.toThrow(
        '2 threads asked for, but the kernels have no shared memory',
      );
      const relaxed = { threads: 1, isIsolated: false, isRelaxed: true };
      await expect(runInPage('multiply', relaxed)).rejects.toThrow(
        'relaxed SIMD exists with shared memory alone',
      );
    });
  },
);
