import { spawnSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { arch, availableParallelism, cpus, freemem, platform, release, totalmem } from 'node:os';
import { MtlError } from '@mtl/errors';
import { type HostInformation, hostInformation } from '@mtl/kernels';
import { platformProblem } from '@mtl/tooling/platform-problem';
import { formatBytes } from '@mtl/trainer/internal';
import { cudaFindings } from './cuda-findings.js';
import type { Finding } from './finding.js';
import { ncclFindings } from './nccl-findings.js';

/** Looks at everything; nothing is written, nothing is changed. */
export async function findings(): Promise<readonly Finding[]> {
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

// What package.json's "engines" asks for.
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

function platformFinding(): Finding {
  const problem = platformProblem();
  const value = `${platform()} ${release()}, ${arch()}`;
  if (problem === undefined) return { name: 'platform', status: 'ok', value };
  return { name: 'platform', status: 'missing', value: problem.message, remedy: problem.remedy };
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
  // Containers: what the process may use, where that is less than the machine has.
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
      { name: 'native kernels', status: 'ok', value: host.addonPath },
      instructionSetFinding(host),
      { name: 'oneDNN', status: 'ok', value: host.onednnVersion },
      { name: 'threads', status: 'ok', value: `${host.numThreads}` },
    ];
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    const { message, remedy = 'build or install the native kernels' } = error;
    return [{ name: 'native kernels', status: 'missing', value: message, remedy }];
  }
}

type Instructions = Pick<
  HostInformation,
  'detectedInstructionSet' | 'compiledInstructionSets' | 'instructionSet'
>;

/** Which kernels run here, and whether the machine could do better. */
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
  const value = instructionSet === detected ? detected : `${detected} (lowered to ${instructionSet})`;
  if (detected !== 'plain') return { name, status: 'ok', value };
  return { name, status: 'note', value, remedy: 'without AVX2 training works, but slowly' };
}

const tools = [
  { name: 'C++ compiler', commands: ['c++', 'g++', 'clang++'], install: 'g++' },
  { name: 'CMake', commands: ['cmake'], install: 'cmake' },
  { name: 'Ninja', commands: ['ninja'], install: 'ninja-build' },
  { name: 'nvcc', commands: ['nvcc'], install: undefined },
] as const;

/** What builds the native kernels; who uses a built package needs none of it. */
function compilers(): readonly Finding[] {
  return tools.map(({ name, commands, install }) => {
    for (const command of commands) {
      const version = versionOf(command);
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

function versionOf(command: string): string | undefined {
  const result = spawnSync(command, ['--version'], { encoding: 'utf8', timeout: 10_000 });
  if (result.error !== undefined || result.status !== 0) return undefined;
  // nvcc tells its release in a later line
  const lines = result.stdout.split('\n').map((line) => line.trim());
  return lines.find((line) => /\d+\.\d+/.test(line)) ?? lines[0];
}

function disk(): Finding {
  const { bavail, bsize } = statfsSync('.');
  return { name: 'disk', status: 'ok', value: `${formatBytes(bavail * bsize)} free in ${process.cwd()}` };
}
