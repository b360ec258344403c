import instantiate from './instantiate.cjs';

/** The modules of this package. */
const files = {
  shared: 'mtl_kernels.wasm',
  single: 'mtl_kernels_single.wasm',
  relaxed: 'mtl_kernels_relaxed.wasm',
};

/**
 * Loads the kernels in a worker of a page, and returns the functions of the addon for useKernels of
 * @mtl/kernels/page. In a page that is isolated from other origins, threads share memory. In another page the
 * kernels have no shared memory and compute with one thread, which is printed.
 *
 * @param {object} options
 * @param {(file: string) => Promise<WebAssembly.Module>} options.compile compiles a module of this package:
 *   (file) => WebAssembly.compileStreaming(fetch(`/${file}`))
 * @param {() => Worker} [options.startThread] starts a worker that calls runThread; without it, the kernels
 *   compute with one thread
 * @param {number} [options.numThreads] how many threads compute unless setNumThreads says otherwise; by
 *   default one for each processor. They are ready when the kernels are: a thread that is asked for later
 *   starts when this worker next waits.
 * @param {boolean} [options.relaxed] true: the module with relaxed SIMD, whose results differ from machine to
 *   machine
 * @param {number} [options.memoryBytes] of the module without shared memory, by default 4 GiB
 * @param {(text: string) => void} [options.print] notes, and what the module writes before it aborts
 * @throws {Error} MTL_WEBASSEMBLY outside of a worker, and for relaxed SIMD that the engine lacks
 */
export async function loadKernels({
  compile,
  startThread,
  numThreads = navigator.hardwareConcurrency,
  relaxed = false,
  memoryBytes,
  print = (text) => console.error(text),
}) {
  const isShared = globalThis.crossOriginIsolated === true && startThread !== undefined;
  if (!isShared) {
    const why = globalThis.crossOriginIsolated ? 'there is no startThread' : isolate;
    if (relaxed) throw refuse(`relaxed SIMD exists with shared memory alone: ${why}`);
    print(`the kernels compute with one thread: ${why}`);
    const module = await compile(files.single);
    return instantiate.instantiateKernels({ module, numProcessors: 1, print, memoryBytes });
  }
  if (globalThis.document !== undefined)
    throw refuse('the main thread of a page must not wait for other threads: load the kernels in a worker');
  const module = await compile(relaxed ? files.relaxed : files.shared).catch((error) => {
    if (!relaxed || !(error instanceof WebAssembly.CompileError)) throw error;
    throw refuse(`this browser lacks relaxed SIMD: leave \`relaxed\` out (${error.message})`);
  });
  const ready = await Promise.all(Array.from({ length: numThreads - 1 }, () => startReady(startThread)));
  return instantiate.instantiateKernels({
    module,
    numProcessors: numThreads,
    print,
    startThread: (data) => (ready.pop() ?? startThread()).postMessage(data),
  });
}

const isolate =
  'the page is not isolated from other origins; serve it with the headers ' +
  'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp';

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
