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
 * Returns what to compile kernels for, as CMake's MTL_INSTRUCTION_SETS. `asked` is `machine` where a training
 * run waits: only what this machine runs, next to what the build folder was configured for before
 * (`configured`;
 * undefined: it is new). Else all. A build that contains all keeps all.
 */
export function instructionSetsToCompile({ asked, configured, cpuinfo = readCpuinfo() }) {
  if (asked !== 'machine' || configured === 'all') return 'all';
  const wanted = new Set([...(configured ?? '').split(';'), chooseInstructionSet(cpuinfo)]);
  return names.filter((name) => wanted.has(name)).join(';');
}

function readCpuinfo() {
  return readFileSync('/proc/cpuinfo', 'utf8');
}
