import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { cublasLtCandidates } from '../../src/cuda/open-cuda.js';
import { isDeviceAvailable, openDevice } from '../../src/index.js';
import { cudaStreams, findGpu, openCuda, probeCuda } from '../../src/internal/index.js';
import { catchError } from '../support/refusals.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-open-cuda-'));
afterAll(() => rmSync(directory, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

describe('a CUDA library that is not there, or is something else', () => {
  it('is an error that names the file and how to build it', () => {
    vi.stubEnv('MTL_CUDA_LIBRARY', join(directory, 'nowhere.so'));
    const error = catchError(openCuda);
    expect(error.code).toBe('MTL_CUDA_LIBRARY');
    expect(error.message).toContain('nowhere.so');
    expect(error.remedy).toContain('MTL_CUDA_LIBRARY');
    expect(error.exitCode).toBe(2);
  });

  it("is an error with the linker's reason when it is no library", () => {
    const path = join(directory, 'text.so');
    writeFileSync(path, 'not a library');
    vi.stubEnv('MTL_CUDA_LIBRARY', path);
    const error = catchError(probeCuda);
    expect(error.code).toBe('MTL_CUDA_LIBRARY');
    expect(error.message).toMatch(/text\.so.*(invalid ELF header|file too short)/);
  });
});

describe('queues between host and device', () => {
  const probeDriver = (queues: string | undefined): string | undefined => {
    vi.stubEnv('CUDA_DEVICE_MAX_CONNECTIONS', queues);
    vi.stubEnv('MTL_CUDA_LIBRARY', join(directory, 'text.so'));
    expect(catchError(probeCuda).code).toBe('MTL_CUDA_LIBRARY');
    return process.env.CUDA_DEVICE_MAX_CONNECTIONS;
  };

  it('have the largest possible number, unless the user has set a number', () => {
    expect(probeDriver(undefined)).toBe('32');
    expect(probeDriver('1')).toBe('1');
  });
});

describe('without an open device', () => {
  it('device cuda is not available, and its streams are an error', () => {
    expect(isDeviceAvailable('cuda')).toBe(false);
    expect(catchError(cudaStreams).code).toBe('MTL_DEVICE');
  });

  it('the devices of the host are always open', () => {
    expect(() => openDevice('cpu')).not.toThrow();
    expect(() => openDevice('reference')).not.toThrow();
  });
});

describe('candidates for cuBLASLt', () => {
  it('begin with the directories that the user names, then what the linker finds', () => {
    writeFileSync(join(directory, 'libcublasLt.so.12'), '');
    const candidates = cublasLtCandidates({ MTL_CUDA_LIBS: `/nowhere:${directory}`, PATH: '' });
    expect(candidates.slice(0, 3)).toEqual([
      join(directory, 'libcublasLt.so.12'),
      'libcublasLt.so.13',
      'libcublasLt.so.12',
    ]);
  });
});

describe('the GPU that a process would take', () => {
  it('is none where MTL_CUDA_LIBRARY names no file, and its name is the problem', () => {
    vi.stubEnv('MTL_CUDA_LIBRARY', join(directory, 'nowhere.so'));
    const found = findGpu();
    expect(found).toMatchObject({ device: undefined, probe: undefined, isEmulated: false });
    // not "no CUDA library built", under which tests may be skipped
    expect(found.problem).toContain('CUDA library not found:');
    expect(found.problem).toContain('nowhere.so');
    expect(found.title).toBe(found.problem);
    expect(found.error?.code).toBe('MTL_CUDA_LIBRARY');
  });

  it('is none for want of a library where none is named and none is built', () => {
    vi.stubEnv('MTL_CUDA_LIBRARY', undefined);
    const places = ['packages/kernels/build/Cuda', 'platforms/kernels-cuda-linux-x64'];
    const isBuilt = places.some((place) =>
      existsSync(new URL(`../../../../${place}/libmtl_cuda.so`, import.meta.url)),
    );
    expect(findGpu().problem === 'no CUDA library built').toBe(!isBuilt);
  });

  it('is none with a library that cannot be asked, and the reason is the problem', () => {
    const path = join(directory, 'no-library.so');
    writeFileSync(path, 'not a library');
    vi.stubEnv('MTL_CUDA_LIBRARY', path);
    expect(findGpu().problem).toContain('no-library.so');
  });
});

const { problem, title, isEmulated } = findGpu();
const withoutDriver = problem === 'no NVIDIA driver';

describe.skipIf(!withoutDriver)('the real library on a machine without a driver', () => {
  it('is probed and refused with a code and a remedy, and the process goes on', () => {
    expect(probeCuda()).toMatchObject({ driverVersion: undefined, devices: [] });
    const error = catchError(openCuda);
    expect(error.code).toBe('MTL_CUDA_DRIVER');
    expect(error.remedy).toContain('NVIDIA driver');
    expect(error.exitCode).toBe(2);
    expect(isDeviceAvailable('cuda')).toBe(false);
  });
});

describe.skipIf(problem !== undefined)(`a device (${title})`, () => {
  it('that does not exist is refused with what there is', () => {
    const error = catchError(() => openCuda({ deviceIndex: 99 }));
    expect(error.code).toBe('MTL_CUDA_DEVICE');
    expect(error.message).toContain('99');
  });

  it.skipIf(!isEmulated)('of an emulation is known as such, and missed where there is none', () => {
    expect(findGpu()).toMatchObject({ title: 'emulation on the host', problem: undefined, error: undefined });
    expect(findGpu().device).toEqual(findGpu().probe?.devices[0]);
    vi.stubEnv('MTL_EMULATED_DEVICES', '0');
    expect(findGpu()).toMatchObject({
      title: 'no CUDA device',
      problem: 'no CUDA device',
      isEmulated: false,
    });
  });

  it('opens once, has three streams, and stays the only one', () => {
    const opened = openCuda();
    expect(opened.cublasLtVersion).toMatch(/^\d+\.\d+\.\d+$/);
    expect(openCuda()).toEqual(opened);
    expect(isDeviceAvailable('cuda')).toBe(true);
    const { compute, copy, communication } = cudaStreams();
    expect(new Set([compute, copy, communication]).size).toBe(3);
    expect(catchError(() => openCuda({ deviceIndex: 1 })).code).toBe('MTL_CUDA_DEVICE');
  });
});
