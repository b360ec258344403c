#!/usr/bin/env node
/**
 * Checks the compiler's report on the kernels in a build of the CUDA library: registers, spills and stack.
 * Fails if a kernel spills more than its source allows (`// spills allowed: NUMBER`, followed by the reason),
 * because spilled values are in memory, even in the innermost loop. Fails if a kernel has a stack frame
 * without spills, because an array whose index is unknown at compile time is also in memory. Fails if the
 * compiler reports that it has put waits between the matmuls of warp groups (wgmma), or that it ignores a
 * change of the number of registers (setmaxnreg).
 *   node native/backends/cuda/check-resources.mjs [--build-dir build/Cuda] [--all] [--self-test]
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));

/**
 * Returns the kernels in ptxas's report, each with its mangled name, architecture, number of registers, and
 * bytes of stack and spills.
 */
function parseResources(text) {
  const kernels = [];
  for (const line of text.split('\n')) {
    const entry = /Compiling entry function '(\S+)' for '(\S+)'/.exec(line);
    if (entry !== null)
      kernels.push({ name: entry[1], architecture: entry[2], stack: 0, spilled: 0, registers: 0 });
    const last = kernels.at(-1);
    const memory = /(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads/.exec(line);
    if (memory !== null && last !== undefined) {
      last.stack = Number(memory[1]);
      last.spilled = Math.max(Number(memory[2]), Number(memory[3]));
    }
    const registers = /Used (\d+) registers/.exec(line);
    if (registers !== null && last !== undefined) last.registers = Number(registers[1]);
  }
  // the compiler prints these warnings before or after the kernels' own lines, and each warning names its
  // kernel
  for (const [, name] of text.matchAll(/wgmma\.mma_async instructions are serialized .*'(\S+)'/g)) {
    for (const kernel of kernels.filter((one) => one.name === name)) kernel.isSerialized = true;
  }
  return kernels;
}

/**
 * Returns true if the compiler ignores a setmaxnreg (C7504, C7508). The compiler's message does not name the
 * kernel.
 */
const ignoresRegisters = (text) => text.includes("'setmaxnreg' ignored");

/** Returns how many bytes of a kernel's stack frame are not for spills. Frames are multiples of 8 bytes. */
const arrayBytes = ({ stack, spilled }) => Math.max(0, stack - 8 * Math.ceil(spilled / 8));

const slowKernels = (kernels) =>
  kernels.filter(
    (kernel) =>
      kernel.spilled > (kernel.allowed ?? 0) || arrayBytes(kernel) > 0 || kernel.isSerialized === true,
  );

function demangled(kernels) {
  const { stdout, status } = spawnSync('c++filt', {
    input: kernels.map(({ name }) => name).join('\n'),
    encoding: 'utf8',
  });
  if (status !== 0) return kernels;
  const names = stdout
    .split('\n')
    .map(
      (name) =>
        /(\w+(<.*>)?)\(/.exec(name.replaceAll(/mtl::cuda::|\(anonymous namespace\)::|^void /g, ''))?.[1] ??
        name,
    );
  return kernels.map((kernel, index) => ({ ...kernel, name: names[index] }));
}

/**
 * Returns how many bytes the source of an object file (folders/native/backends/cuda/kernels/NAME.cu.o) allows
 * its kernels to spill.
 */
function allowedBy(object) {
  const source = /native[\\/]backends[\\/]cuda[\\/](.*\.cu)\./.exec(object)?.[1];
  const text = source === undefined ? '' : readFileSync(join(here, source), 'utf8');
  return Number(/\/\/ spills allowed: (\d+)/.exec(text)?.[1] ?? 0);
}

function reportsBelow(directory) {
  return readdirSync(directory, { recursive: true })
    .filter((file) => file.endsWith('.resources'))
    .map((file) => ({ file, text: readFileSync(join(directory, file), 'utf8') }));
}

function listKernels({ file, text }) {
  const allowed = allowedBy(file);
  return parseResources(text).map((kernel) => ({ ...kernel, allowed }));
}

function selfTest() {
  const numSlow = (
    stores,
    loads,
    { message = '', stack = 8 * Math.ceil(Math.max(stores, loads) / 8) } = {},
  ) =>
    slowKernels(
      parseResources(`${message}
ptxas info    : Compiling entry function 'kernel' for 'sm_90a'
    ${stack} bytes stack frame, ${stores} bytes spill stores, ${loads} bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers`),
    ).length;
  const formatWarning = (name) =>
    `ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a reason in the function '${name}'`;
  const right =
    numSlow(0, 0) === 0 &&
    numSlow(4, 0) === 1 &&
    numSlow(0, 4) === 1 &&
    numSlow(0, 0, { stack: 8 }) === 1 &&
    numSlow(0, 0, { message: formatWarning('kernel') }) === 1 &&
    numSlow(0, 0, { message: formatWarning('another') }) === 0 &&
    ignoresRegisters(
      "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.",
    ) &&
    !ignoresRegisters(formatWarning('kernel'));
  console.log(
    right
      ? 'check-resources: spills, stack frames, serialized matmuls and ignored registers are found'
      : 'check-resources: a spill, a stack frame, a serialized matmul or ignored registers are not found',
  );
  return right ? 0 : 1;
}

function main(args) {
  if (args.includes('--self-test')) return selfTest();
  const at = args.indexOf('--build-dir');
  const directory = at < 0 ? fileURLToPath(new URL('../../../build/Cuda', import.meta.url)) : args[at + 1];
  const reports = reportsBelow(directory);
  const kernels = demangled(reports.flatMap(listKernels));
  if (kernels.length === 0) {
    console.error(
      `error[MTL_CUDA_RESOURCES]: no compiler's reports in ${directory}\n  remedy: npm run dev -- build:cuda`,
    );
    return 2;
  }
  const print = (kernel) => {
    const { name, architecture, registers, spilled, isSerialized } = kernel;
    const inArrays = arrayBytes(kernel) > 0 ? `, ${arrayBytes(kernel)} on the stack` : '';
    console.log(
      `${architecture.padEnd(7)} ${String(registers).padStart(3)} registers ${String(spilled).padStart(4)} bytes spilled${inArrays}${isSerialized ? ', matmuls serialized' : ''}  ${name}`,
    );
  };
  if (args.includes('--all')) kernels.forEach(print);
  const slow = slowKernels(kernels);
  console.log(
    `${kernels.length} kernels, ${slow.length} spill more than allowed, use a stack or have serialized matmuls`,
  );
  if (!args.includes('--all')) slow.forEach(print);
  const ignoring = reports.filter(({ text }) => ignoresRegisters(text));
  for (const { file } of ignoring)
    console.log(`${file}: the compiler ignores a change of registers (setmaxnreg)`);
  return slow.length === 0 && ignoring.length === 0 ? 0 : 1;
}

process.exitCode = main(process.argv.slice(2));
