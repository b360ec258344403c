/**
 * Node.js under qemu imports this module first in a root without a shell: a program that starts
 * `process.execPath` with `process.execArgv`, as `mtl run` does, then starts qemu with Node.js.
 */
if (process.execPath !== '/qemu') {
  process.execArgv.unshift(process.execPath);
  process.execPath = '/qemu';
}
