import { useKernels } from '@mtl/kernels/page';
import { loadKernels } from '@mtl/kernels-wasm32/load-in-page.mjs';
import { multiply } from './multiply.ts';
import { trainGpt } from './train-gpt.ts';

/** The programs of the worker: its address says which one, and the number of threads. */
const programs = { multiply, trainGpt };

try {
  const query = new URL(location.href).searchParams;
  const numThreads = Number(query.get('threads'));
  useKernels(
    await loadKernels({
      module: await WebAssembly.compileStreaming(fetch('/mtl_kernels.wasm')),
      numThreads,
      startThread: () => new Worker('/thread.js', { type: 'module' }),
    }),
  );
  postMessage({ numbers: await programs[query.get('program')]({ numThreads }) });
} catch (error) {
  postMessage({ error: String(error) });
}
