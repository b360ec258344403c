'use strict';
const { instantiateNapiModuleSync } = require('@emnapi/core');
const { createContext } = require('@emnapi/runtime');

/** Pages of 64 KiB: of the empty module, as its build says, and 4 GiB, the most that 32 bits address. */
const pageBytes = 65536;
const initialPages = 256;
const mostPages = 65536;
/** In one page less, the C library can address the end of a memory that does not grow. */
const mostFixedPages = mostPages - 1;

const stackBytes = 1 << 20;

/**
 * Instantiates the kernels and returns the functions of the addon, as the native one exports them. Needs nothing
 * of Node: `host` has what a page does otherwise.
 *
 * @param {object} options
 * @param {WebAssembly.Module} options.module
 * @param {number} options.numProcessors the number of threads unless setNumThreads says otherwise
 * @param {(data: { module: WebAssembly.Module, memory: WebAssembly.Memory, stack: number, tls: number }) => void}
 *   options.startThread starts a thread of the pool, which passes the data to runPoolThread
 * @param {(text: string) => void} options.print what the module writes before it aborts
 * @param {number} [options.memoryBytes] of a module without threads, whose memory does not grow. The system
 *   provides what is used.
 * @throws {Error} MTL_OUT_OF_MEMORY if the engine does not reserve the memory
 */
function instantiateKernels({
  module,
  numProcessors,
  startThread,
  print,
  memoryBytes = mostPages * pageBytes,
}) {
  const hasThreads = WebAssembly.Module.exports(module).some(({ name }) => name === 'mtl_run_pool_thread');
  const memory = hasThreads
    ? new WebAssembly.Memory({ initial: initialPages, maximum: mostPages, shared: true })
    : reserveFixedMemory(memoryBytes);
  const numBytes = hasThreads ? mostPages * pageBytes : memory.buffer.byteLength;
  let exported;
  const reserve = (bytes) => {
    const address = exported.malloc(bytes) >>> 0;
    if (address !== 0) return address;
    throw outOfMemory(`the ${formatGiB(numBytes)} of WebAssembly have no ${bytes} bytes left`);
  };
  const mtl = {
    num_processors: () => numProcessors,
    start_pool_thread() {
      const tlsBytes = exported.__tls_size.value;
      const stack = reserve(stackBytes) + stackBytes;
      startThread({ module, memory, stack: stack - (stack % 16), tls: reserve(tlsBytes + 64) });
    },
  };
  const { napiModule } = instantiateNapiModuleSync(module, {
    context: createContext(),
    overwriteImports: (imports) => ({
      ...imports,
      env: { ...imports.env, memory },
      mtl,
      wasi_snapshot_preview1: systemCalls({ memory, print }),
    }),
    beforeInit({ instance }) {
      exported = instance.exports;
      exported._initialize();
    },
  });
  return copiesArrays({
    addon: napiModule.exports,
    memory,
    reserve,
    free: (address) => exported.free(address),
  });
}

/**
 * Reserves memory that is not shared. It does not grow, because growth would detach all views, among them
 * lent memory of tensors.
 */
function reserveFixedMemory(bytes) {
  const pages = Math.min(Math.floor(bytes / pageBytes), mostFixedPages);
  if (!(pages >= initialPages))
    throw outOfMemory(`memoryBytes is ${bytes}, expected at least ${initialPages * pageBytes}`);
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw outOfMemory(
      `the engine does not reserve ${formatGiB(pages * pageBytes)} for WebAssembly: give loadKernels less memoryBytes`,
    );
  }
}

const formatGiB = (bytes) => `${Number((bytes / 2 ** 30).toFixed(2))} GiB`;

const outOfMemory = (message) => Object.assign(new Error(message), { code: 'MTL_OUT_OF_MEMORY' });

/** Functions of the addon with typed arrays, and the arguments that are such arrays: read, written. */
const functionsWithArrays = {
  write: { read: [1], written: [] },
  read: { read: [], written: [1] },
  readMark: { read: [], written: [2] },
  transpose: { read: [1, 5, 6], written: [0] },
};

/**
 * Gives each call with typed arrays copies in the memory of WebAssembly, which is all that it sees, for the length
 * of the call.
 */
function copiesArrays({ addon, memory, reserve, free }) {
  const wrapped = { ...addon };
  const asBytes = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  for (const [name, { read, written }] of Object.entries(functionsWithArrays)) {
    wrapped[name] = (...given) => {
      const args = [...given];
      const copies = [];
      try {
        for (const index of [...read, ...written]) {
          const array = given[index];
          if (!ArrayBuffer.isView(array) || array.byteLength === 0) continue;
          const address = reserve(array.byteLength);
          const copy = new Uint8Array(memory.buffer, address, array.byteLength);
          copies.push({ address, copy, array, isWritten: written.includes(index) });
          if (read.includes(index)) copy.set(asBytes(array));
          args[index] = copy;
        }
        const result = addon[name](...args);
        for (const { copy, array, isWritten } of copies) if (isWritten) asBytes(array).set(copy);
        return result;
      } finally {
        for (const { address } of copies) free(address);
      }
    };
  }
  return wrapped;
}

/** The calls of WASI that the libraries of C and C++ contain: the clock, and text before an abort. */
function systemCalls({ memory, print }) {
  const view = () => new DataView(memory.buffer);
  const notSupported = 52; // ENOSYS
  return {
    environ_sizes_get(count, bytes) {
      view().setUint32(count, 0, true);
      view().setUint32(bytes, 0, true);
      return 0;
    },
    environ_get: () => 0,
    clock_time_get(_clock, _precision, time) {
      view().setBigUint64(time, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    fd_close: () => notSupported,
    fd_seek: () => notSupported,
    fd_write(_file, blocks, count, written) {
      let bytes = 0;
      for (let index = 0; index < count; index++) {
        const start = view().getUint32(blocks + 8 * index, true);
        const length = view().getUint32(blocks + 8 * index + 4, true);
        print(new TextDecoder().decode(new Uint8Array(memory.buffer, start, length).slice()));
        bytes += length;
      }
      view().setUint32(written, bytes, true);
      return 0;
    },
    proc_exit(code) {
      throw new Error(`the kernels ended with ${code}`);
    },
  };
}

/** Runs a thread of the pool, in a thread of its own, which it does not return to. */
function runPoolThread({ module, memory, stack, tls }) {
  const imports = {};
  for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
    imports[from] ??= {};
    imports[from][name] =
      kind === 'memory'
        ? memory
        : () => {
            throw new Error(`a thread of the kernels called ${name}`);
          };
  }
  const { exports } = new WebAssembly.Instance(module, imports);
  exports.__stack_pointer.value = stack;
  exports.__wasm_init_tls(tls + ((64 - (tls % 64)) % 64));
  exports.mtl_run_pool_thread();
}

module.exports = { instantiateKernels, runPoolThread };
