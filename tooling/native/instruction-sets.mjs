import { readFileSync } from 'node:fs';

/**
 * Worst first, with the flags of /proc/cpuinfo that the kernels of each need (backends/cpu/cpu_backend.cc).
 */
const instructionSets = {
  plain: [],
  avx2: ['avx2', 'fma'],
  avx512: ['avx512f', 'avx512bw', 'avx512vl', 'avx512dq', 'avx512_bf16'],
};
const names = Object.keys(instructionSets);

/** Returns the best instruction set of the machine that a /proc/cpuinfo describes. */
export function chooseInstructionSet(cpuinfo) {
  const flags = new Set(/^flags\s*:(.*)$/m.exec(cpuinfo)?.[1].trim().split(/\s+/));
  return names.findLast((name) => instructionSets[name].every((flag) => flags.has(flag)));
}

/**
 * Returns the instruction sets to compile kernels for, as the value of CMake's MTL_INSTRUCTION_SETS. If
 * `asked` is `machine`, since a training run waits: the one that this machine uses, and those for which the
 * build folder was configured before (`configured`; undefined for a new folder). Otherwise all. A build with
 * all instruction sets keeps all.
 */
export function instructionSetsToCompile({ asked, configured, cpuinfo = readCpuinfo() }) {
  if (asked !== 'machine' || configured === 'all') return 'all';
  const wanted = new Set([...(configured ?? '').split(';'), chooseInstructionSet(cpuinfo)]);
  return names.filter((name) => wanted.has(name)).join(';');
}

function readCpuinfo() {
  return readFileSync('/proc/cpuinfo', 'utf8');
}
