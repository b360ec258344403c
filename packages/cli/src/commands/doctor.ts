import { spawnSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { arch, availableParallelism, cpus, freemem, platform, release, totalmem } from 'node:os';
import { glooProblem, type NcclInformation, ncclInformation } from '@mtl/comm';
import { MtlError } from '@mtl/errors';
import { type HostInformation, hostInformation } from '@mtl/kernels';
import { type CudaProbe, findGpu, nativeRemedy, openCuda } from '@mtl/kernels/internal';
import { MatmulChoiceFile, matmulPlatform } from '@mtl/runs/internal';
import { platformProblem } from '@mtl/tooling/platform-problem';
import { formatBytes } from '@mtl/trainer';
import type { Command } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { summaries } from './summaries.js';

/**
 * Creates the command `mtl doctor`, which reports the hardware and software of this machine and what is
 * missing.
 */
export function doctorCommand(): Command {
  return newCommand('doctor', summaries.doctor).option('--json', 'Prints JSON.').action(doctor);
}

async function doctor({ json }: { json?: true }): Promise<void> {
  const found = await findings();
  if (json === true) process.stdout.write(`${JSON.stringify(found)}\n`);
  else process.stdout.write(formatFindings(found));
  const missing = found.filter(({ status }) => status === 'missing');
  if (missing.length === 0) return;
  throw new MtlError(
    'MTL_DOCTOR',
    `parts that training needs are missing: ${missing.map(({ name }) => name).join(', ')}`,
    {
      remedy: missing.map(({ remedy }) => remedy).join('; '),
      exitCode: 1,
    },
  );
}

const marks: Readonly<Record<Finding['status'], string>> = { ok: 'ok', note: '--', missing: '!!' };

function formatFindings(found: readonly Finding[]): string {
  const width = Math.max(...found.map(({ name }) => name.length));
  return found
    .map(({ name, status, value, remedy }) => {
      const line = `${marks[status]}  ${name.padEnd(width)}  ${value}\n`;
      return remedy === undefined ? line : `${line}    ${' '.repeat(width)}  ${remedy}\n`;
    })
    .join('');
}

/** The result of one check. */
interface Finding {
  readonly name: string;
  /**
   * `missing`: training needs this component. `note`: useful information, such as an optional component that
   * is absent.
   */
  readonly status: 'ok' | 'note' | 'missing';
  readonly value: string;
  readonly remedy?: string;
}

/** Runs all checks. The checks write and change nothing. */
async function findings(): Promise<readonly Finding[]> {
  return [
    nodeFinding(),
    platformFinding(),
    processor(),
    memory(),
    ...kernels(),
    ...cudaFindings(),
    ...ncclFindings(),
    ...compilers(),
    disk(),
  ];
}

// the oldest supported version of Node, the same as `engines` in package.json
const leastNode = [20, 19] as const;

function nodeFinding(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isEnough = major > leastNode[0] || (major === leastNode[0] && minor >= leastNode[1]);
  return {
    name: 'node',
    status: isEnough ? 'ok' : 'missing',
    value: process.versions.node,
    ...(isEnough
      ? {}
      : { remedy: `install Node.js ${leastNode.join('.')} or later from https://nodejs.org` }),
  };
}

/**
 * Reports the platform. A platform without native kernels is not a problem, because the kernels can run as
 * WebAssembly.
 */
function platformFinding(): Finding {
  const problem = platformProblem();
  const value = `${platform()} ${release()}, ${arch()}`;
  if (problem === undefined) return { name: 'platform', status: 'ok', value };
  return { name: 'platform', status: 'note', value: problem.message, remedy: problem.remedy };
}

function processor(): Finding {
  const model = cpus()[0]?.model.trim() ?? 'of a model that the system does not tell';
  return {
    name: 'processor',
    status: 'ok',
    value: `${model}; ${availableParallelism()} cores for this process`,
  };
}

function memory(): Finding {
  // in a container the process may have less memory than the machine
  const limit = process.constrainedMemory();
  const total = limit > 0 && limit < totalmem() ? limit : totalmem();
  return {
    name: 'memory',
    status: 'ok',
    value: `${formatBytes(total)}, ${formatBytes(freemem())} free on the machine`,
  };
}

function kernels(): readonly Finding[] {
  try {
    const host = hostInformation();
    return [
      kernelsFinding(host),
      instructionSetFinding(host),
      { name: 'oneDNN', status: 'ok', value: host.onednnVersion },
      matmulFinding(host),
      { name: 'threads', status: 'ok', value: `${host.numThreads}` },
    ];
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    const { message, remedy = 'build or install the native kernels' } = error;
    return [{ name: 'kernels', status: 'missing', value: message, remedy }];
  }
}

/**
 * Reports whether the kernels are native or WebAssembly, and the speed-up of native kernels over WebAssembly.
 */
export function kernelsFinding({
  addonPath,
  isWebAssembly,
  mostThreads,
}: Pick<HostInformation, 'addonPath' | 'isWebAssembly' | 'mostThreads'>): Finding {
  const name = 'kernels';
  if (!isWebAssembly) return { name, status: 'ok', value: `native, ${addonPath}` };
  return {
    name,
    status: 'note',
    value: `WebAssembly, ${addonPath}: one process,${mostThreads === 1 ? ' one thread,' : ''} 4 GiB for tensors`,
    remedy: `native kernels are several times as fast and train in many processes: ${nativeRemedy}`,
  };
}

/** Reports which code computes matmuls on this machine. */
function matmulFinding({ onednnVersion, numThreads }: HostInformation): Finding {
  const name = 'matmuls';
  const usual =
    onednnVersion === 'none' ? 'by our kernels' : 'by our kernels or oneDNN, as a table of measurements says';
  try {
    const file = new MatmulChoiceFile(matmulPlatform('cpu'), { variables: process.env });
    const numChoices = Object.keys(file.read()).length;
    const timed = numChoices === 0 ? 'none yet' : `${numChoices} with ${numThreads} threads, in ${file.path}`;
    return { name, status: 'ok', value: `${usual}; chosen by time for --time-matmuls: ${timed}` };
  } catch (error) {
    return note(name, error);
  }
}

type Instructions = Pick<
  HostInformation,
  'detectedInstructionSet' | 'compiledInstructionSets' | 'usableInstructionSets' | 'instructionSet'
>;

/** Reports the kernels' instruction set, and whether the machine supports a faster instruction set. */
export function instructionSetFinding(host: Instructions): Finding {
  const { detectedInstructionSet: detected, compiledInstructionSets: compiled, instructionSet } = host;
  const name = 'instruction set';
  if (!compiled.includes(detected)) {
    const value = `${detected}, but the kernels were compiled for ${compiled.join(' and ')}: ${instructionSet} is used`;
    return {
      name,
      status: 'note',
      value,
      remedy: 'compile them for this machine, too: npm run build:native',
    };
  }
  const value = instructionSet === detected ? detected : `${detected} (${instructionSet} was chosen)`;
  const lacksAvx2 = compiled.includes('avx2') && !host.usableInstructionSets.includes('avx2');
  if (!lacksAvx2) return { name, status: 'ok', value };
  return { name, status: 'note', value, remedy: 'without AVX2 training works, but slowly' };
}

const tools = [
  { name: 'C++ compiler', commands: ['c++', 'g++', 'clang++'], install: 'g++' },
  { name: 'CMake', commands: ['cmake'], install: 'cmake' },
  { name: 'Ninja', commands: ['ninja'], install: 'ninja-build' },
  { name: 'nvcc', commands: ['nvcc'], install: undefined },
] as const;

/** Finds the tools that build the native kernels. Users of a built package do not need these tools. */
function compilers(): readonly Finding[] {
  return tools.map(({ name, commands, install }) => {
    for (const command of commands) {
      const version = readVersion(command);
      if (version !== undefined) return { name, status: 'ok', value: `${command}: ${version}` };
    }
    return {
      name,
      status: 'note',
      value: 'not found',
      ...(install === undefined
        ? {}
        : { remedy: `only to build the kernels: sudo apt-get install ${install}` }),
    };
  });
}

function readVersion(command: string): string | undefined {
  const result = spawnSync(command, ['--version'], { encoding: 'utf8', timeout: 10_000 });
  if (result.error !== undefined || result.status !== 0) return undefined;
  // nvcc prints its version in a later line than other compilers
  const lines = result.stdout.split('\n').map((line) => line.trim());
  return lines.find((line) => /\d+\.\d+/.test(line)) ?? lines[0];
}

function disk(): Finding {
  const { bavail, bsize } = statfsSync('.');
  return { name: 'disk', status: 'ok', value: `${formatBytes(bavail * bsize)} free in ${process.cwd()}` };
}

/**
 * Returns a note about an absent component, with the remedy. The status is not `missing`, because only a GPU
 * needs the component, and training never requires a GPU.
 */
function note(name: string, error: unknown): Finding {
  // if the kernels are missing, CUDA cannot be used either; the finding about the kernels already reports
  // this
  if (!MtlError.isInstance(error)) throw error;
  const { message, remedy } = error;
  return { name, status: 'note', value: message, ...(remedy === undefined ? {} : { remedy }) };
}

function listDevices({ devices }: CudaProbe): readonly Finding[] {
  return devices.map(({ name, computeCapability, memoryBytes, numMultiprocessors }, index) => ({
    name: `GPU ${index}`,
    status: 'ok',
    value: `${name}, compute capability ${computeCapability}, ${formatBytes(memoryBytes)}, ${numMultiprocessors} multiprocessors`,
  }));
}

/** Reports the version and path of cuBLASLt, after opening the first device to find the library. */
function cublasLt(): Finding {
  try {
    const { cublasLtVersion, cublasLtPath } = openCuda();
    return { name: 'cuBLASLt', status: 'ok', value: `${cublasLtVersion}, ${cublasLtPath}` };
  } catch (error) {
    return note('cuBLASLt', error);
  }
}

/**
 * Reports the CUDA installation with versions and paths: the kernels' library, driver, devices and NVIDIA's
 * libraries.
 */
function cudaFindings(): readonly Finding[] {
  const { probe, error } = findGpu();
  if (probe === undefined) return [note('CUDA library', error)];
  const { libraryPath, runtimeVersion, driverVersion, devices } = probe;
  const library: Finding = {
    name: 'CUDA library',
    status: 'ok',
    value: `${libraryPath}, built with CUDA ${runtimeVersion}`,
  };
  const driver: Finding =
    driverVersion === undefined
      ? {
          name: 'NVIDIA driver',
          status: 'note',
          value: 'not found (libcuda.so.1)',
          remedy: 'for --device cuda: install an NVIDIA driver that serves CUDA 13 (580 or later)',
        }
      : { name: 'NVIDIA driver', status: 'ok', value: `serves CUDA ${driverVersion}` };
  if (devices.length > 0) return [library, driver, ...listDevices(probe), cublasLt()];
  return driverVersion === undefined
    ? [library, driver]
    : [library, driver, { name: 'GPU', status: 'note', value: 'the driver shows none to this process' }];
}

/**
 * Reports NCCL's version and path, or the reason why NCCL cannot be used. Also reports the backend that a
 * job's processes would use for communication on this machine.
 */
function ncclFindings(): readonly Finding[] {
  // 0 without the CUDA library or a driver, which a separate finding reports
  const gpus = findGpu().probe?.devices.length ?? 0;
  let found: NcclInformation | undefined;
  let nccl: Finding;
  try {
    found = ncclInformation();
    const { version, path, builtAgainst } = found;
    nccl = { name: 'NCCL', status: 'ok', value: `${version}, ${path} (compiled against ${builtAgainst})` };
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    if (error.code === 'MTL_ADDON') return [noAddon(error)];
    // the native error contains the remedy, after a list of the paths that were tried
    const [first = '', ...rest] = error.message.split('\n');
    const remedy = /remedy: (.*)$/s.exec(error.message)?.[1] ?? error.remedy;
    const value = first.replace(/; (tried:|remedy: .*)$/, '');
    const tried = rest.length > 1 ? `, not in any of ${rest.length - 1} places` : '';
    nccl = {
      name: 'NCCL',
      status: 'note',
      value: `${value}${tried}`,
      ...(remedy === undefined ? {} : { remedy }),
    };
  }
  return [nccl, engines({ gpus, hasNccl: found !== undefined })];
}

/** Returns a finding about a missing native addon, without which NCCL cannot be checked. */
function noAddon({ message, remedy }: MtlError): Finding {
  const value = message.split('\n')[0]!;
  return { name: 'NCCL', status: 'note', value, ...(remedy === undefined ? {} : { remedy }) };
}

function engines({ gpus, hasNccl }: { readonly gpus: number; readonly hasNccl: boolean }): Finding {
  const cpu = `local on one host, ${glooProblem() === undefined ? 'gloo' : 'none (this build has no Gloo)'} between hosts`;
  const name = 'ranks communicate over';
  if (gpus === 0) return { name, status: 'ok', value: cpu };
  const onGpus = hasNccl
    ? `nccl with up to ${gpus} process${gpus === 1 ? '' : 'es'} per host, through the host's memory with more`
    : "through the host's memory (no NCCL)";
  return { name, status: 'ok', value: `${cpu}; --device cuda: ${onGpus}` };
}
