import { execFileSync, type StdioOptions } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { KernelError } from '@mtl/errors';
import { addon, callNative } from '../native/addon.js';
import { cudaLibraryPath } from './cuda-library-path.js';

/** A GPU as the driver describes it. */
export interface CudaDevice {
  readonly name: string;
  /** For example `9.0`. */
  readonly computeCapability: string;
  readonly numMultiprocessors: number;
  readonly memoryBytes: number;
}

/** The state of CUDA on this machine. It is determined without opening a device. */
export interface CudaProbe {
  /** The file of this package's CUDA library. */
  readonly libraryPath: string;
  /** The newest CUDA version that the driver supports, such as `13.0`; undefined if there is no driver. */
  readonly driverVersion: string | undefined;
  /** The CUDA version with which the library was built. */
  readonly runtimeVersion: string;
  readonly devices: readonly CudaDevice[];
}

/** Describes the device and the libraries that have been opened. */
interface CudaInformation extends CudaProbe {
  readonly deviceIndex: number;
  readonly cublasLtPath: string;
  readonly cublasLtVersion: string;
}

export interface OpenCudaOptions {
  /**
   * The index of the device in CUDA's order, among the devices that are visible to this process. Default: 0.
   */
  readonly deviceIndex?: number;
  /** True to compute float32 matmuls in TF32, with 10 bits of mantissa. Default: false. */
  readonly allowTf32?: boolean;
}

/** The open device's streams, as pointers that the driver uses (CUstream). */
interface CudaStreams {
  readonly deviceIndex: number;
  /** The stream on which every kernel of this package runs. */
  readonly compute: bigint;
  readonly copy: bigint;
  readonly communication: bigint;
}

const remedies: Readonly<Record<string, string>> = {
  MTL_CUDA_LIBRARY: 'install it again; in a checkout npm run dev -- build:cuda',
  MTL_CUDA_ABI:
    'install @mtl/kernels and its CUDA package in one version; in a checkout npm run build:native, then npm run dev -- build:cuda',
  MTL_CUDA_DRIVER:
    'install an NVIDIA driver that serves CUDA 13 (580 or later), in a container pass the GPUs through (--gpus all); or leave out --device cuda',
  MTL_CUDA_DEVICE: 'nvidia-smi -L lists the devices; CUDA_VISIBLE_DEVICES hides them',
  MTL_CUBLASLT:
    'pip install nvidia-cublas, or name the directory of libcublasLt.so.13 in MTL_CUDA_LIBS or LD_LIBRARY_PATH',
};

/**
 * Sets the number of queues between host and device (CUDA_DEVICE_MAX_CONNECTIONS), which is 8 by default.
 * Kernels in streams that share a queue wait for each other. Collectives have a stream for each group and
 * message, so 8 queues are too few. The driver reads the variable when it starts. If the user has set the
 * variable, its value is kept.
 */
function prepareDriver(): void {
  process.env.CUDA_DEVICE_MAX_CONNECTIONS ??= '32';
}

function withRemedy<T>(body: () => T): T {
  try {
    return callNative(body);
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    const remedy = error.remedy ?? remedies[error.code];
    if (remedy === undefined) throw error;
    throw new KernelError(error.code, error.message, { remedy, exitCode: 2, cause: error });
  }
}

/** Formats a version number of CUDA: 13020 as 13.2. */
function versionText(version: number): string {
  return `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
}

type NativeProbe = ReturnType<ReturnType<typeof addon>['probeCuda']>;

function describeProbe(
  libraryPath: string,
  { driverVersion, runtimeVersion, devices }: NativeProbe,
): CudaProbe {
  return {
    libraryPath,
    driverVersion: driverVersion === 0 ? undefined : versionText(driverVersion),
    runtimeVersion: versionText(runtimeVersion),
    devices: devices.map(({ computeCapability, ...device }) => ({
      ...device,
      computeCapability: `${Math.floor(computeCapability / 10)}.${computeCapability % 10}`,
    })),
  };
}

/**
 * Queries the driver and the devices without opening a device.
 *
 * @throws KernelError MTL_CUDA_LIBRARY, MTL_CUDA_ABI, MTL_CUDA
 */
export function probeCuda(): CudaProbe {
  const libraryPath = cudaLibraryPath();
  prepareDriver();
  return withRemedy(() => describeProbe(libraryPath, addon().probeCuda(libraryPath)));
}

/**
 * Opens a GPU for this process, so that tensors can be on device `cuda`. A second call for the same device
 * returns the same result. A call for a second device is an error, because a process has only one GPU.
 *
 * @throws KernelError MTL_CUDA_LIBRARY, MTL_CUDA_ABI, MTL_CUDA_DRIVER, MTL_CUDA_DEVICE, MTL_CUBLASLT,
 *   MTL_CUDA
 */
export function openCuda({ deviceIndex = 0, allowTf32 = false }: OpenCudaOptions = {}): CudaInformation {
  const libraryPath = cudaLibraryPath();
  prepareDriver();
  return withRemedy(() => {
    const opened = addon().openCuda({
      libraryPath,
      deviceIndex,
      cublasLtCandidates: cublasLtCandidates().join('\n'),
      allowTf32,
    });
    const version = opened.cublasLtVersion;
    return {
      ...describeProbe(libraryPath, opened),
      deviceIndex: opened.deviceIndex,
      cublasLtPath: opened.cublasLtPath,
      cublasLtVersion: `${Math.floor(version / 10000)}.${Math.floor((version % 10000) / 100)}.${version % 100}`,
    };
  });
}

/** Returns the streams of the open device. @throws KernelError MTL_DEVICE when no device is open */
export function cudaStreams(): CudaStreams {
  return callNative(() => addon().cudaStreams());
}

// The supported versions of cuBLASLt, in order of preference.
const names = ['libcublasLt.so.13', 'libcublasLt.so.12'];

function subdirectories(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    return []; // missing or not readable: no candidates
  }
}

/** Returns the folders, below a folder of Python packages, in which NVIDIA's wheels contain cuBLASLt. */
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

/**
 * Returns the package folders of the first python3 on PATH. They are searched last, because Python takes 20
 * ms to start.
 */
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
 * Returns candidates for NVIDIA's cuBLASLt, the best first. They are paths and names for dlopen, from these
 * sources in order: the directories in MTL_CUDA_LIBS, the dynamic linker's search (LD_LIBRARY_PATH),
 * CUDA_HOME and CUDA_PATH, the wheels in the Python environment, and the system's toolkits. Every path is an
 * existing file.
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

/**
 * How many bytes of device memory all cuBLASLt matmuls of a process share. This memory is separate from the
 * allocator's memory.
 */
export const cublasltWorkspaceBytes = 32 * 2 ** 20;
