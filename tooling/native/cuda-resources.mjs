#!/usr/bin/env node
/**
 * Compiles CUDA sources for every shipped architecture and prints, for each kernel, values from the
 * compiler's report and counts from the machine code: registers, spilled bytes, static shared memory, matrix
 * instructions (HMMA), matrix loads (LDSM), asynchronous copies (LDGSTS), and Hopper's matrix instructions of
 * warp groups (HGMMA) and bulk copies (UTMALDG). Needs nvcc, but no GPU.
 *   node cuda-resources.mjs [--architectures 80,90a] FILE.cu ...
 *   node cuda-resources.mjs --built LIBRARY      only the instructions, in a whole library linked by nvcc
 * The exit status is 1 if a kernel spills more than its source allows (`// spills allowed: NUMBER`, with the
 * reason next to it), if it has a stack frame for anything but spills (for example, an array indexed at run
 * time), or if the compiler has put waits between the matmul instructions of warp groups.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const sources = resolve(dirname(fileURLToPath(import.meta.url)), '../../packages/kernels/native');
// The low 12 bits of each instruction on sm_80 and sm_90. HGMMA has two codes: with its left operand in
// shared memory, and in registers. The codes of HMMA, HGMMA and UTMALDG were checked by counting: a compiled
// kernel contains each instruction as often as its unrolled source.
const opcodes = { HMMA: [0x23c], LDSM: [0x83b], LDGSTS: [0xfae], HGMMA: [0x9f0, 0xdf0], UTMALDG: [0x5b4] };

/** Returns readable names of C++ symbols, without namespaces and parameters. */
function demangle(names) {
  const result = spawnSync('c++filt', { input: names.join('\n'), encoding: 'utf8' });
  const lines = result.status === 0 ? result.stdout.split('\n') : names;
  return lines.map((line) =>
    line
      .replace(/^void /, '')
      .replace(/mtl::cuda::(\(anonymous namespace\)::)?/g, '')
      .replace(/\(.*$/, ''),
  );
}

/**
 * Counts the instructions of each kind for every kernel in a cubin (a 64-bit ELF file with one .text section
 * per kernel).
 */
function countInstructions(cubin) {
  const headers = Number(cubin.readBigUInt64LE(0x28));
  const size = cubin.readUInt16LE(0x3a);
  const section = (index) => {
    const at = headers + index * size;
    return {
      name: cubin.readUInt32LE(at),
      offset: Number(cubin.readBigUInt64LE(at + 0x18)),
      bytes: Number(cubin.readBigUInt64LE(at + 0x20)),
    };
  };
  const names = section(cubin.readUInt16LE(0x3e)).offset;
  const counts = new Map();
  for (let index = 0; index < cubin.readUInt16LE(0x3c); index += 1) {
    const { name, offset, bytes } = section(index);
    const text = cubin.toString('latin1', names + name, cubin.indexOf(0, names + name));
    if (!text.startsWith('.text.')) continue;
    const ofKernel = Object.fromEntries(Object.keys(opcodes).map((kind) => [kind, 0]));
    for (let at = offset; at < offset + bytes; at += 16) {
      const opcode = cubin.readUInt16LE(at) & 0xfff;
      for (const [kind, values] of Object.entries(opcodes)) if (values.includes(opcode)) ofKernel[kind] += 1;
    }
    counts.set(text.slice('.text.'.length), ofKernel);
  }
  return counts;
}

const fatBinary = Buffer.from('50ed55ba', 'hex');

/**
 * Yields the machine code in the bytes `file` of a library linked by nvcc, as { architecture, cubin }. A fat
 * binary consists of a 16-byte header (magic, version, header size, size of the rest) and entries. An entry
 * begins with its kind, its header size, its content size and, at byte 28, the architecture. Kind 2 is
 * machine code and kind 1 is PTX; nvcc 13 compresses only PTX.
 */
function* machineCodeIn(file) {
  for (let at = file.indexOf(fatBinary); at >= 0; at = file.indexOf(fatBinary, at + 4)) {
    let entry = at + file.readUInt16LE(at + 6);
    const end = entry + Number(file.readBigUInt64LE(at + 8));
    while (entry < end) {
      const header = file.readUInt32LE(entry + 4);
      const bytes = Number(file.readBigUInt64LE(entry + 8));
      const content = file.subarray(entry + header, entry + header + bytes);
      if (file.readUInt16LE(entry) === 2) {
        if (content.toString('latin1', 1, 4) !== 'ELF')
          throw new Error('machine code is compressed: --compress-mode');
        yield { architecture: file.readUInt32LE(entry + 28), cubin: content };
      }
      entry += header + bytes;
    }
  }
}

/**
 * Returns, by architecture, the instruction counts summed over all kernels in a linked library, the number of
 * kernels, and the number of kernels with matrix instructions.
 */
function countBuilt(path) {
  const totals = new Map();
  for (const { architecture, cubin } of machineCodeIn(readFileSync(path))) {
    const total = totals.get(architecture) ?? { kernels: 0, withMatrixInstructions: 0 };
    for (const counts of countInstructions(cubin).values()) {
      total.kernels += 1;
      if (counts.HMMA + counts.HGMMA > 0) total.withMatrixInstructions += 1;
      for (const [kind, count] of Object.entries(counts)) total[kind] = (total[kind] ?? 0) + count;
    }
    totals.set(architecture, total);
  }
  return totals;
}

/** Parses the output of `ptxas -v`. Returns the values that it reports for each kernel. */
function readReport(text) {
  const kernels = [];
  for (const part of text.split(/Compiling entry function '/).slice(1)) {
    kernels.push({
      symbol: part.slice(0, part.indexOf("'")),
      registers: Number(/Used (\d+) registers/.exec(part)?.[1] ?? Number.NaN),
      spilled: spilledBytes(part),
      stack: Number(/(\d+) bytes stack frame/.exec(part)?.[1] ?? Number.NaN),
      shared: Number(/(\d+) bytes smem/.exec(part)?.[1] ?? 0),
      isSerialized: false,
    });
  }
  // these lines contain the kernel's symbol, and may stand before or after the report on the kernel
  for (const [, symbol] of text.matchAll(/wgmma\.mma_async instructions are serialized .*'(\S+)'/g)) {
    const kernel = kernels.find((one) => one.symbol === symbol);
    if (kernel !== undefined) kernel.isSerialized = true;
  }
  return kernels;
}

/**
 * Returns the number of spilled bytes in the compiler's report on a kernel: the larger of the stored and the
 * loaded bytes. NaN if the report contains neither.
 */
function spilledBytes(report) {
  const [, stored, loaded] = /(\d+) bytes spill stores, (\d+) bytes spill loads/.exec(report) ?? [];
  return Math.max(Number(stored), Number(loaded));
}

/**
 * Compiles `file` for `architecture` and returns its kernels. If the compilation fails, ends the process with
 * the compiler's output.
 */
function compile({ file, architecture, folder }) {
  const cubin = join(folder, `${basename(file)}.${architecture}.cubin`);
  const nvcc = spawnSync(
    process.env.NVCC ?? 'nvcc',
    [
      ...['-std=c++17', '-gencode', `arch=compute_${architecture},code=sm_${architecture}`],
      ...['-I', sources, '-I', join(sources, 'include'), '-cubin', '-Xptxas', '-v', '-o', cubin, file],
    ],
    { encoding: 'utf8' },
  );
  if (nvcc.error) {
    console.error('error[MTL_NATIVE_BUILD]: nvcc was not found\n  remedy: put it on PATH or name it in NVCC');
    process.exit(2);
  }
  if (nvcc.status !== 0) {
    console.error(nvcc.stderr);
    process.exit(1);
  }
  const counts = countInstructions(readFileSync(cubin));
  const kernels = readReport(nvcc.stderr);
  const names = demangle(kernels.map(({ symbol }) => symbol));
  return kernels.map((kernel, index) => ({ ...kernel, ...counts.get(kernel.symbol), name: names[index] }));
}

const options = process.argv.slice(2);
if (options[0] === '--built') {
  const totals = countBuilt(options[1]);
  for (const [architecture, total] of totals) console.log(`sm_${architecture} ${JSON.stringify(total)}`);
  process.exit(totals.size > 0 ? 0 : 1);
}
const at = options.indexOf('--architectures');
const architectures = (at < 0 ? '80,90a' : options.splice(at, 2)[1]).split(',');
const folder = mkdtempSync(join(tmpdir(), 'cuda-resources-'));
let failures = 0;
try {
  for (const file of options) {
    const allowed = Number(/\/\/ spills allowed: (\d+)/.exec(readFileSync(file, 'utf8'))?.[1] ?? 0);
    for (const architecture of architectures) {
      console.log(`${basename(file)} sm_${architecture}`);
      console.log('  registers  spilled  shared    HMMA    LDSM  LDGSTS   HGMMA UTMALDG  kernel');
      for (const kernel of compile({ file, architecture, folder })) {
        const columns = [
          kernel.registers,
          kernel.spilled,
          kernel.shared,
          kernel.HMMA,
          kernel.LDSM,
          kernel.LDGSTS,
          kernel.HGMMA,
          kernel.UTMALDG,
        ];
        const tooMany = kernel.spilled > allowed;
        const hasStack = kernel.stack > 8 * Math.ceil(kernel.spilled / 8); // frames are multiples of 8 bytes
        console.log(
          `  ${columns.map((value) => String(value).padStart(7)).join(' ')}   ${kernel.name}${tooMany ? '  SPILLS' : ''}${hasStack ? '  STACK' : ''}${kernel.isSerialized ? '  SERIALIZED' : ''}`,
        );
        if (tooMany || hasStack || kernel.isSerialized) failures += 1;
      }
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
console.log(
  failures === 0
    ? 'no kernel spills more than allowed, none uses a stack or has serialized matmuls'
    : `${failures} kernels spill, use a stack or have serialized matmuls`,
);
process.exit(failures === 0 ? 0 : 1);
