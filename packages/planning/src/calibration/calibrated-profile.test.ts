import { parseFlags } from '@mtl/configuration';
import { loadProfile, type MeasuredRates, parseProfile } from '@mtl/cost-model';
import type { CudaProbe } from '@mtl/kernels/internal';
import { describe, expect, it } from 'vitest';
import { configureTinyGpt } from '../../test/support/tiny-gpt.js';
import { planRun, withDeviceOfProfile } from '../plan/plan-run.js';
import { recordRun } from '../plan/record-run.js';
import { calibratedProfile } from './calibrated-profile.js';

const gpus = (name: string): CudaProbe => ({
  libraryPath: '/libmtl_cuda.so',
  driverVersion: '13.0',
  runtimeVersion: '13.0',
  devices: [{ name, computeCapability: '9.0', numMultiprocessors: 132, memoryBytes: 85e9 }],
});
const rates: MeasuredRates = {
  numProcesses: 1,
  numThreads: 16,
  memoryBytes: 85e9,
  matmuls: [{ name: 'matmul', dtype: 'bf16', points: [{ rows: 64, columns: 64, depth: 64, seconds: 1e-5 }] }],
  attention: [],
  kernels: [{ name: 'kernel', dtype: 'bf16', points: [{ bytes: 1e6, seconds: 1e-5 }] }],
  host: { passSeconds: 0, stepSeconds: 1e-3, operationSeconds: 4e-6 },
};
const makeProfile = (name: string) =>
  parseProfile(
    calibratedProfile({ rates: [rates], numProcesses: 1, measuredAt: new Date(0), gpus: gpus(name) }),
  );
const bf16OnCuda = configureTinyGpt({ layout: { device: 'cuda' }, training: { bf16: true } });

describe('the profile of a GPU', () => {
  it('has the links of the shipped profile of that GPU, and the host that was measured', () => {
    const { hardware, software } = makeProfile('NVIDIA H100 80GB HBM3');
    const { linkInside, linkBetween, overlapCost, communicator } = loadProfile('h100-80gb').hardware;
    expect(hardware).toMatchObject({
      deviceType: 'cuda',
      linkInside,
      linkBetween,
      overlapCost,
      communicator,
    });
    expect(hardware.device).toBe(
      '1 x NVIDIA H100 80GB HBM3 (9.0), driver of CUDA 13.0, kernels of CUDA 13.0',
    );
    expect(software.hostSecondsPerOperation).toEqual({
      value: 4e-6,
      source: 'measured by mtl calibrate on 1970-01-01',
    });
  });

  it.each(['NVIDIA GH200 480GB', 'NVIDIA L4'])('has assumed links where none is shipped: %s', (name) => {
    const { linkInside } = makeProfile(name).hardware;
    expect(linkInside.bytesPerSecond).toEqual({
      value: 32e9,
      source: 'assumed: PCI Express 4.0 with 16 lanes',
    });
  });

  it('plans runs on device cuda, with the memory of libraries', async () => {
    const profile = makeProfile('NVIDIA L4');
    const flags = parseFlags(['--preset', 'gpt2-124m']);
    expect(withDeviceOfProfile(flags, profile).values.device).toBe('cuda');
    const { ranks, capacityBytes } = await planRun(bf16OnCuda, { profile });
    expect(ranks[0]!.memoryOfLibraries?.matmulWorkspace).toBeGreaterThan(0);
    expect(capacityBytes).toBe(85e9);
  });
});

it('row sums of attention are recorded for measured rates, which have theirs, and not for models of GPUs', async () => {
  const listNames = async (more: { hasRowSumRates?: boolean }): Promise<ReadonlySet<string>> => {
    const { step } = await recordRun(bf16OnCuda, { gpusPerNode: 8, ...more });
    return new Set(step.chunks[0]!.B!.flatMap((one) => ('name' in one ? [one.name] : [])));
  };
  expect(await listNames({})).not.toContain('attention_row_sums');
  expect(await listNames({ hasRowSumRates: true })).toContain('attention_row_sums');
  expect(await listNames({ hasRowSumRates: true })).toContain('attention_backward');
});
