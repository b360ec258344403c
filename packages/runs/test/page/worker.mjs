import { hostInformation } from '@mtl/kernels';
import { useKernels } from '@mtl/kernels/page';
import { loadKernels } from '@mtl/kernels-wasm32/load-in-page.mjs';
import { multiply } from './multiply.ts';
import { trainGpt } from './train-gpt.ts';

/** The programs of the worker: its address says which one, and the number of threads. */
const programs = { multiply, trainGpt };

try {
  const query = new URL(location.href).searchParams;
  const numThreads = Number(query.get('threads'));
  let printed = '';
  useKernels(
    await loadKernels({
      compile: (file) => WebAssembly.compileStreaming(fetch(`/${file}`)),
      numThreads,
      startThread: () => new Worker('/thread.js', { type: 'module' }),
      relaxed: query.has('relaxed'),
      print: (text) => {
        printed += text;
      },
    }),
  );
  const numbers = await programs[query.get('program')]({ numThreads });
  const { instructionSet, mostThreads } = hostInformation();
  postMessage({ numbers, printed, instructionSet, mostThreads });
} catch (error) {
  postMessage({ error: String(error) });
}
