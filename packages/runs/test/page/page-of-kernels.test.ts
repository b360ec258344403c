import { hostInformation } from '@mtl/kernels';
import { runInChromium } from '@mtl/tooling/run-in-chromium';
import { describe, expect, it } from 'vitest';
import { multiply } from './multiply.js';
import { trainGpt } from './train-gpt.js';

const { isWebAssembly, addonPath } = hostInformation();
const locate = (name: string): string => new URL(name, import.meta.url).pathname;

function runInPage(
  program: string,
  options: { threads: number; isIsolated?: boolean },
): Promise<{ numbers: number[] }> {
  const { threads, ...others } = options;
  return runInChromium({
    entries: { worker: locate('worker.mjs'), thread: locate('thread.mjs') },
    files: { '/mtl_kernels.wasm': addonPath },
    query: `?program=${program}&threads=${threads}`,
    ...others,
  });
}

// MTL_KERNELS=wasm runs these: Node computes with the same module, and so bitwise the same
describe.skipIf(!isWebAssembly)(
  `kernels in a page of Chromium${isWebAssembly ? '' : ' (no WebAssembly)'}`,
  () => {
    it.each([1, 2])('multiply as in Node, with %s threads', async (threads) => {
      const { numbers } = await runInPage('multiply', { threads });
      expect(numbers).toEqual(await multiply({ numThreads: threads }));
    });

    it.each([1, 2])('train a GPT for 20 steps with the losses of Node, with %s threads', async (threads) => {
      const { numbers: losses } = await runInPage('trainGpt', { threads });
      expect(losses).toHaveLength(20);
      expect(losses).toEqual(await trainGpt({ numThreads: threads }));
      expect(losses.at(-1)).toBeLessThan(0.8 * losses[0]!);
    });

    it('are refused by a page that is not isolated, with the headers that it needs', async () => {
      await expect(runInPage('multiply', { threads: 2, isIsolated: false })).rejects.toThrow(
        'Cross-Origin-Embedder-Policy: require-corp',
      );
    });
  },
);
