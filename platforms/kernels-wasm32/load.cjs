'use strict';
const { readFileSync } = require('node:fs');
const { availableParallelism } = require('node:os');
const { join } = require('node:path');
const { Worker } = require('node:worker_threads');
const { instantiateKernels } = require('./instantiate.cjs');

/**
 * Loads the kernels in Node and returns the functions of the addon.
 *
 * @param {string} [path] of the WebAssembly module; by default the one of this package with shared memory
 */
function loadKernels(path = join(__dirname, 'mtl_kernels.wasm')) {
  return instantiateKernels({
    module: new WebAssembly.Module(readFileSync(path)),
    numProcessors: availableParallelism(),
    print: (text) => process.stderr.write(text),
    startThread(workerData) {
      // options of this process such as loaders of TypeScript would only delay the start
      new Worker(join(__dirname, 'pool-thread.cjs'), { workerData, execArgv: [] }).unref();
    },
  });
}

module.exports = { loadKernels };
