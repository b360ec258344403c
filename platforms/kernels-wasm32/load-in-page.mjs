import instantiate from './instantiate.cjs';

/**
 * Loads the kernels in a worker of a page, and returns the functions of the addon for useKernels of
 * @mtl/kernels/page. The page must be isolated from other origins, because threads share memory.
 *
 * @param {object} options
 * @param {WebAssembly.Module} options.module mtl_kernels.wasm: await WebAssembly.compileStreaming(fetch(url))
 * @param {() => Worker} options.startThread starts a worker that calls runThread
 * @param {number} [options.numThreads] how many threads compute unless setNumThreads says otherwise; by
 *   default one for each processor. They are ready when the kernels are: a thread that is asked for later
 *   starts when this worker next waits.
 * @param {(text: string) => void} [options.print] what the module writes before it aborts
 * @throws {Error} MTL_WEBASSEMBLY in a page that is not isolated, and outside of a worker
 */
export async function loadKernels({
  module,
  startThread,
  numThreads = navigator.hardwareConcurrency,
  print = (text) => console.error(text),
}) {
  if (!globalThis.crossOriginIsolated)
    throw refuse(
      'the page is not isolated from other origins, so that threads cannot share memory: serve it with the ' +
        'headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp',
    );
  if (globalThis.document !== undefined)
    throw refuse('the main thread of a page must not wait for other threads: load the kernels in a worker');
  const ready = await Promise.all(Array.from({ length: numThreads - 1 }, () => startReady(startThread)));
  return instantiate.instantiateKernels({
    module,
    numProcessors: numThreads,
    print,
    startThread: (data) => (ready.pop() ?? startThread()).postMessage(data),
  });
}

const refuse = (message) => Object.assign(new Error(message), { code: 'MTL_WEBASSEMBLY' });

/** Starts a thread and waits until it listens. */
function startReady(startThread) {
  const worker = startThread();
  return new Promise((resolve, reject) => {
    worker.onmessage = () => resolve(worker);
    worker.onerror = ({ message }) => reject(refuse(`a thread of the kernels did not start: ${message}`));
  });
}

/** Makes the worker that calls this function a thread of the kernels, for good. */
export function runThread() {
  globalThis.onmessage = ({ data }) => instantiate.runPoolThread(data);
  postMessage('ready');
}
