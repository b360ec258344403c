import { execFileSync, type StdioOptions } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

// Versions whose interface is the one this project declares, best first.
const names = ['libcublasLt.so.13', 'libcublasLt.so.12'];

function subdirectories(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    return []; // not there, or not to be read: no candidates
  }
}

/** Where NVIDIA's wheels put the library, below a folder of Python packages. */
function inWheels(packages: string): string[] {
  return ['nvidia/cu13/lib', 'nvidia/cublas/lib'].map((folder) => join(packages, folder));
}

function inEnvironment(root: string): string[] {
  const lib = join(root, 'lib');
  const pythons = subdirectories(lib).filter((name) => name.startsWith('python3'));
  return [...pythons.flatMap((python) => inWheels(join(lib, python, 'site-packages'))), lib];
}

function inToolkit(root: string): string[] {
  const targets = join(root, 'targets');
  return [
    ...['lib64', 'lib'].map((folder) => join(root, folder)),
    ...subdirectories(targets).map((target) => join(targets, target, 'lib')),
  ];
}

/** Where the python3 on PATH keeps its packages; a start of Python takes 20 ms, so it is asked last. */
function pythonPackages(): string[] {
  try {
    const script = 'import sysconfig;print(sysconfig.get_paths()["purelib"])';
    const stdio: StdioOptions = ['ignore', 'pipe', 'ignore'];
    return [execFileSync('python3', ['-c', script], { encoding: 'utf8', stdio, timeout: 10_000 }).trim()];
  } catch {
    return []; // no Python, no wheels
  }
}

/**
 * Paths and names for dlopen under which NVIDIA's cuBLASLt may be, best first: the directories of
 * MTL_CUDA_LIBS, what the dynamic linker finds (LD_LIBRARY_PATH), CUDA_HOME and CUDA_PATH, the wheels of the
 * Python environment, the system's toolkits. Paths are those of files that exist.
 */
export function cublasLtCandidates(environment: NodeJS.ProcessEnv = process.env): string[] {
  const { MTL_CUDA_LIBS, CUDA_HOME, CUDA_PATH, VIRTUAL_ENV, CONDA_PREFIX } = environment;
  const given = (value: string | undefined): string[] => (value ? [value] : []);
  const filesIn = (folders: readonly string[]): string[] =>
    folders.flatMap((folder) => names.map((name) => join(folder, name))).filter((path) => existsSync(path));
  const installed = subdirectories('/usr/local')
    .filter((name) => name.startsWith('cuda'))
    .reverse()
    .map((name) => join('/usr/local', name));
  return [
    ...filesIn((MTL_CUDA_LIBS ?? '').split(':').filter((folder) => folder !== '')),
    ...names,
    ...filesIn([...given(CUDA_HOME), ...given(CUDA_PATH)].flatMap(inToolkit)),
    ...filesIn([...given(VIRTUAL_ENV), ...given(CONDA_PREFIX)].flatMap(inEnvironment)),
    ...filesIn(pythonPackages().flatMap(inWheels)),
    ...filesIn(installed.flatMap(inToolkit)),
  ];
}
