#!/usr/bin/env node
/**
 * What the compiler's report says of the kernels in a build of the CUDA library: registers, shared memory, spills. Fails
 * when a kernel spills that is not allowed to.
 *   node native/cuda/check-resources.mjs [--build-dir build/Cuda] [--all] [--self-test]
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Kernels that may spill, and up to how many bytes; with why. A kernel of no rule may not. */
const allowances = [
  {
    pattern: /attention_(forward|query_gradient|key_value_gradient)_kernel<[^,]+, (80|96|128|192|256),/,
    bytes: 168,
    reason: 'head sizes above 64 hold more than 255 registers of sums: to be split before they are measured',
  },
];

/** The kernels of ptxas's report: name (mangled), architecture, registers and bytes. */
export function parseResources(text) {
  const kernels = [];
  for (const line of text.split('\n')) {
    const entry = /Compiling entry function '(\S+)' for '(\S+)'/.exec(line);
    if (entry !== null) kernels.push({ name: entry[1], architecture: entry[2], spilled: 0, registers: 0 });
    const last = kernels.at(-1);
    const spill = /(\d+) bytes spill stores, (\d+) bytes spill loads/.exec(line);
    if (spill !== null && last !== undefined) last.spilled = Math.max(Number(spill[1]), Number(spill[2]));
    const registers = /Used (\d+) registers/.exec(line);
    if (registers !== null && last !== undefined) last.registers = Number(registers[1]);
  }
  return kernels;
}

/** The kernels that spill more than they may. */
export function forbiddenSpills(kernels) {
  return kernels.filter(({ name, spilled }) => {
    const allowed = allowances.find(({ pattern }) => pattern.test(name))?.bytes ?? 0;
    return spilled > allowed;
  });
}

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

function reportsBelow(directory) {
  return readdirSync(directory, { recursive: true })
    .filter((file) => file.endsWith('.resources'))
    .map((file) => readFileSync(join(directory, file), 'utf8'));
}

function selfTest() {
  const report = (name, spilled) => `ptxas info    : Compiling entry function '${name}' for 'sm_90a'
    8 bytes stack frame, ${spilled} bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers`;
  const found = (name, spilled) => forbiddenSpills(parseResources(report(name, spilled))).length;
  const right =
    found('forward_kernel', 0) === 0 &&
    found('forward_kernel', 4) === 1 &&
    found('attention_forward_kernel<__half, 128, 2>', 4) === 0 &&
    found('attention_forward_kernel<__half, 64, 2>', 4) === 1;
  console.log(right ? 'check-resources: each rule can fail' : 'check-resources: a rule does not hold');
  return right ? 0 : 1;
}

function main(args) {
  if (args.includes('--self-test')) return selfTest();
  const at = args.indexOf('--build-dir');
  const directory = at < 0 ? fileURLToPath(new URL('../../build/Cuda', import.meta.url)) : args[at + 1];
  const kernels = demangled(reportsBelow(directory).flatMap(parseResources));
  if (kernels.length === 0) {
    console.error(
      `error[MTL_CUDA_RESOURCES]: no compiler's reports in ${directory}\n  remedy: npm run build:cuda`,
    );
    return 2;
  }
  const print = ({ name, architecture, registers, spilled }) =>
    console.log(
      `${architecture.padEnd(7)} ${String(registers).padStart(3)} registers ${String(spilled).padStart(4)} bytes spilled  ${name}`,
    );
  if (args.includes('--all')) kernels.forEach(print);
  const spilling = kernels.filter(({ spilled }) => spilled > 0);
  const forbidden = forbiddenSpills(kernels);
  console.log(`${kernels.length} kernels, ${spilling.length} spill, ${forbidden.length} of them must not`);
  forbidden.forEach(print);
  return forbidden.length === 0 ? 0 : 1;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) process.exitCode = main(process.argv.slice(2));
