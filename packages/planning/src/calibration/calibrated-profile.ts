import { cpus } from 'node:os';
import { loadProfile, type MeasuredRates, type Profile, profileNames } from '@mtl/cost-model';
import { hostInformation } from '@mtl/kernels';
import type { CudaProbe } from '@mtl/kernels/internal';

export interface CalibratedProfileOptions {
  /** The rates measured with one process, and the rates measured with several processes. */
  readonly rates: readonly MeasuredRates[];
  /** The number of processes that fully use the machine. */
  readonly numProcesses: number;
  readonly measuredAt: Date;
  /** The measured GPUs, one for each process. Default: CPUs were measured. */
  readonly gpus?: CudaProbe | undefined;
}

/** Returns a profile of this machine from the measurements. */
export function calibratedProfile(options: CalibratedProfileOptions): Profile {
  const { rates, numProcesses, measuredAt, gpus } = options;
  const source = `measured by mtl calibrate on ${measuredAt.toISOString().slice(0, 10)}`;
  const constant = (value: number) => ({ value, source });
  const shared = rates.find(({ collectives }) => collectives !== undefined);
  const messages = shared?.collectives?.find(({ name }) => name === 'message')?.points;
  const [shortest, longest] = [messages?.[0], messages?.at(-1)];
  const assumed = gpus === undefined ? assumedOfCpus : findAssumedHardware(gpus);
  const { linkInside } = assumed;
  return {
    name: 'this-machine',
    hardware: {
      version: 1,
      name: 'this-machine',
      device: gpus === undefined ? describeCpus(numProcesses) : describeGpus(gpus),
      state: 'measured',
      ...(gpus === undefined ? {} : { deviceType: 'cuda' }),
      memoryBytes: constant(rates[0]!.memoryBytes ?? 1),
      gpusPerNode: constant(numProcesses),
      rates: [...rates],
      ...assumed,
      linkInside: {
        bytesPerSecond: longest ? constant(longest.bytes / longest.seconds) : linkInside.bytesPerSecond,
        efficiency: longest ? constant(1) : linkInside.efficiency,
        latencySeconds: shortest ? constant(shortest.seconds) : linkInside.latencySeconds,
      },
    },
    software: {
      version: 1,
      name: 'mtl',
      description: '@mtl: what a dry run records',
      source,
      operations: 'recorded',
      hostSecondsPerOperation: readHostSeconds(rates[0]!, source),
      linkFactor: { value: 1, source: 'nothing was measured between machines' },
    },
  };
}

function readHostSeconds({ host }: MeasuredRates, source: string) {
  const seconds = host?.operationSeconds;
  return seconds === undefined
    ? { value: 1e-9, source: 'part of the times of operations' }
    : { value: Math.max(seconds, 1e-9), source };
}

function describeCpus(numCores: number): string {
  const { instructionSet, onednnVersion } = hostInformation();
  return `${cpus()[0]?.model.trim() ?? 'CPU'}, ${numCores} cores, ${instructionSet}, oneDNN ${onednnVersion}`;
}

function describeGpus({ devices, driverVersion, runtimeVersion }: CudaProbe): string {
  const { name, computeCapability } = devices[0]!;
  return `${devices.length} x ${name} (${computeCapability}), driver of CUDA ${driverVersion}, kernels of CUDA ${runtimeVersion}`;
}

type AssumedHardware = Pick<
  Profile['hardware'],
  'linkInside' | 'linkBetween' | 'overlapCost' | 'communicator'
>;

const unmeasured = 'assumed: nothing to measure with one process';

const assumedOfCpus: AssumedHardware = {
  linkInside: {
    bytesPerSecond: { value: 1e9, source: unmeasured },
    efficiency: { value: 1, source: unmeasured },
    latencySeconds: { value: 1e-5, source: unmeasured },
  },
  overlapCost: { value: 1, source: 'assumed: threads that communicate share the cores that compute' },
};

const assumedOfUnknownGpus: AssumedHardware = {
  linkInside: {
    bytesPerSecond: { value: 32e9, source: 'assumed: PCI Express 4.0 with 16 lanes' },
    efficiency: { value: 0.8, source: unmeasured },
    latencySeconds: { value: 1e-5, source: unmeasured },
  },
  overlapCost: { value: 0.15, source: 'assumed: as for h100-80gb' },
};

/**
 * Returns the constants of GPUs that are not measured: their links, the share of computing time that
 * communication takes, and the memory of communicators. They are from a bundled profile whose name begins
 * with a word in the GPU's name.
 */
function findAssumedHardware({ devices }: CudaProbe): AssumedHardware {
  const words = devices[0]!.name.toLowerCase().split(/[^a-z0-9]+/);
  const name = profileNames().find((each) => words.includes(each.split('-')[0]!));
  if (name === undefined) return assumedOfUnknownGpus;
  const { linkInside, linkBetween, overlapCost, communicator } = loadProfile(name).hardware;
  return {
    linkInside,
    overlapCost,
    ...(linkBetween && { linkBetween }),
    ...(communicator && { communicator }),
  };
}
