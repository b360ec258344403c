import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * The paths at which the list of instruction sets may be: in the package that is being built, and in a
 * checkout.
 */
const lists = [
  'native/backends/cpu/isa/sets.cmake',
  fileURLToPath(new URL('../../packages/kernels/native/backends/cpu/isa/sets.cmake', import.meta.url)),
];
const processors = { x64: 'x86_64', arm64: 'aarch64' };

/**
 * Parses the list of instruction sets that CMake reads, in which the preferred set is first. Returns each
 * set's name, the set that it extends (`base`), and the processor and features that it needs.
 */
export function parseInstructionSets(text) {
  return [...text.matchAll(/^instruction_set\((\w+)([^)]*)\)/gm)].map(([, name, row]) => {
    const values = {};
    let key;
    for (const word of row.split(/\s+/).filter((each) => each !== '')) {
      if (/^[A-Z]+$/.test(word)) {
        key = word;
        values[key] = [];
      } else {
        values[key].push(word);
      }
    }
    const { PROCESSOR: [processor] = ['.*'], EXTENDS: [base] = [], NEEDS: needs = [] } = values;
    return { name, base, processor, needs };
  });
}

/**
 * Removes the signs in a feature's name that GCC and Linux write differently, as in avx512bf16 and
 * avx512_bf16.
 */
const withoutSigns = (feature) => feature.replace(/[-_.]/g, '');

/**
 * Returns the preferred instruction set among the sets that a machine supports. `cpuinfo` is the content of
 * its /proc/cpuinfo.
 */
export function chooseInstructionSet(
  cpuinfo,
  { sets = readList(), processor = processors[process.arch] } = {},
) {
  const flags = /^(?:flags|Features)\s*:(.*)$/m.exec(cpuinfo)?.[1].trim().split(/\s+/) ?? [];
  const has = new Set(flags.map(withoutSigns));
  const find = (name) => sets.find((set) => set.name === name);
  const isSupported = (set) =>
    new RegExp(`^(${set.processor})$`).test(processor) &&
    set.needs.every((feature) => has.has(withoutSigns(feature))) &&
    (set.base === undefined || isSupported(find(set.base)));
  return sets.find(isSupported).name;
}

/**
 * Returns the instruction sets for which kernels are compiled, as the value of CMake's MTL_INSTRUCTION_SETS.
 * By default, the result is all sets. If a training run waits for the build, `asked` is `machine`. The result
 * is then this machine's set, and the sets for which the build folder is already configured (`configured`;
 * undefined for a new folder). If the folder is configured for all sets, the result is all sets.
 */
export function instructionSetsToCompile({ asked, configured, cpuinfo = readCpuinfo() }) {
  if (asked !== 'machine' || configured === 'all') return 'all';
  const sets = readList();
  if (sets === undefined) return 'all';
  const wanted = new Set([...(configured ?? '').split(';'), chooseInstructionSet(cpuinfo, { sets })]);
  const names = sets.map(({ name }) => name).filter((name) => wanted.has(name));
  return names.join(';');
}

/** Returns the names of all instruction sets; the preferred set is first. */
export function instructionSetNames() {
  return readList().map(({ name }) => name);
}

/** Reads the list of instruction sets; undefined if an installed package has no CPU kernels. */
function readList() {
  const path = lists.find((each) => existsSync(each));
  return path === undefined ? undefined : parseInstructionSets(readFileSync(path, 'utf8'));
}

function readCpuinfo() {
  return readFileSync('/proc/cpuinfo', 'utf8');
}
